"""Planning the deletion of mirrored images."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from hypothesis import given
from hypothesis import strategies as st

from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient
from opmkit.imagetools.repository import digest_tag as artifact_tag
from opmkit.imagetools.spec import Descriptor, IndexManifest, media_types
from opmkit.supply.mirror.deletion import (
    ABSENT,
    DELETE,
    KEPT,
    NeededImages,
    is_replaced_tag,
    plan_deletion,
    replaced_tag,
)
from opmkit.supply.mirror.inventory import InventoryImage, RepositoryInventory
from opmkit.supply.mirror.locations import RegistryTarget
from opmkit.supply.mirror.model import MirrorRequest, digest_tag
from opmkit.supply.mirror.target import RegistryLocation

if TYPE_CHECKING:
    from opmkit.imagetools.registry import RegistryRepository
    from opmkit.supply.mirror.deletion import ImageDeletion

NAME = "registry.example.com/m/org/name"
SOURCE = Reference.parse("quay.io/org/name")


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


@dataclass
class Stored:
    """The untagged images of a repository: the digests in each index; and the referrers, None without their API."""

    untagged: dict[str, tuple[str, ...]] = field(default_factory=dict)
    artifacts: dict[str, tuple[str, ...]] | None = None

    def get_manifest(self, identifier: str) -> IndexManifest:
        if identifier not in self.untagged:
            raise NotFound(identifier)
        manifest = IndexManifest.build([descriptor(each) for each in self.untagged[identifier]])
        return cast("IndexManifest", Renamed(identifier, manifest)) if not manifest.manifests else manifest

    def has_referrers_api(self, _: str) -> bool:
        return self.artifacts is not None

    def referrers(self, identifier: str) -> tuple[Descriptor, ...]:
        return tuple(map(descriptor, (self.artifacts or {}).get(identifier, ())))


@dataclass
class Renamed:
    """A manifest without others in it."""

    digest: str
    manifest: IndexManifest


def descriptor(identifier: str) -> Descriptor:
    return Descriptor(media_types.OCI_MANIFEST, identifier, 1)


def plan(
    tags: dict[str, InventoryImage],
    requests: list[MirrorRequest],
    needed: NeededImages | None = None,
    stored: Stored | None = None,
) -> list[ImageDeletion]:
    inventory = RepositoryInventory(NAME, tags, cast("RegistryRepository", stored or Stored()))
    with RegistryClient() as client:
        target = RegistryTarget(client, RegistryLocation("registry.example.com", "m"))
        return plan_deletion(requests, target, {NAME: inventory}, needed or NeededImages())


def image(number: int, *children: int) -> InventoryImage:
    return InventoryImage(digest(number), tuple(map(digest, children)))


def wanted(number: int, tag: str = "") -> MirrorRequest:
    return MirrorRequest(SOURCE.with_digest(digest(number)), tag=tag)


def test_image_in_its_repository_only() -> None:
    tags = {digest_tag(digest(1)): image(1), "other": image(2)}
    (only,) = plan(tags, [wanted(1)])
    assert (only.state, only.target, only.manifests) == (DELETE, f"{NAME}:{digest_tag(digest(1))}", (digest(1),))


def test_absent_images() -> None:
    planned = plan({"other": image(2)}, [wanted(1), MirrorRequest(SOURCE.with_tag("v1"))])
    assert [(each.state, each.digest) for each in planned] == [(ABSENT, ""), (ABSENT, "")]


def test_tag_of_oc_mirror_and_of_replaced_catalogs_do_not_keep() -> None:
    names = (artifact_tag(digest(1)), replaced_tag(digest(1)), "mirrored-0123abcd-" + artifact_tag(digest(1)))
    assert is_replaced_tag(names[1])
    (only,) = plan(dict.fromkeys(names, image(1)), [wanted(1)])
    assert only.state == DELETE


def test_tag_that_stands_for_another_digest_keeps() -> None:
    (only,) = plan({digest_tag(digest(2)): image(1)}, [wanted(1)])
    assert (only.state, only.kept_for) == (KEPT, f"its tag {digest_tag(digest(2))}")


def test_moved_tag_is_not_followed() -> None:
    """The tag of a request names another image by now."""
    tags = {"v1": image(2), digest_tag(digest(1)): image(1)}
    (only,) = plan(tags, [MirrorRequest(SOURCE.with_digest(digest(1)), tag="v1")])
    assert only.manifests == (digest(1),)


def test_needed_images_are_kept_by_digest_and_by_name() -> None:
    tags = {"v1": image(1), "v2": image(2), digest_tag(digest(3)): image(3)}
    requests = [MirrorRequest(SOURCE.with_tag("v1")), MirrorRequest(SOURCE.with_tag("v2")), wanted(3)]
    needed = NeededImages({digest(3): "elsewhere"}, {NAME: {"v1": "catalog 1"}})
    assert {each.digest: each.kept_for for each in plan(tags, requests, needed)} == {
        digest(1): "catalog 1",
        digest(2): "",
        digest(3): "elsewhere",
    }


def test_needed_index_without_a_tag_keeps_its_images() -> None:
    tags = {digest_tag(digest(1)): image(1)}
    stored = Stored({digest(9): (digest(1),)})
    index = stored.get_manifest(digest(9))
    stored.untagged = {index.digest: (digest(1),)}
    needed = NeededImages({}, {NAME: {index.digest: "catalog 1"}})
    (only,) = plan(tags, [wanted(1)], needed, stored)
    assert (only.state, only.kept_for) == (KEPT, f"{index.digest}, which contains it: catalog 1")


def test_signatures_of_kept_images_are_kept() -> None:
    tags = {
        digest_tag(digest(1)): image(1, 11),
        f"{artifact_tag(digest(1))}.sig": image(21),
        f"{artifact_tag(digest(11))}.sig": image(22),
        digest_tag(digest(2)): image(2),
        f"{artifact_tag(digest(2))}.sig": image(23),
        f"{artifact_tag(digest(2))}.sbom": image(22),
        digest_tag(digest(11)): image(11),
    }
    planned = plan(tags, [wanted(1), wanted(2)], NeededImages({digest(11): "catalog 1"}))
    assert [each.manifests for each in planned if each.state == DELETE] == [
        (digest(21), digest(1)),
        (digest(23), digest(2)),
    ]


def test_referrers_by_the_api() -> None:
    stored = Stored(artifacts={digest(1): (digest(31), digest(32))})
    tags = {digest_tag(digest(1)): image(1), digest_tag(digest(31)): image(31), "signature": image(32)}
    (only,) = plan(tags, [wanted(1)], stored=stored)
    assert only.manifests == (digest(31), digest(1))


@st.composite
def repositories(draw: st.DrawFn) -> tuple[dict[str, InventoryImage], list[MirrorRequest], NeededImages]:
    numbers = st.integers(1, 6)
    indexes = draw(st.dictionaries(st.integers(7, 10), st.lists(numbers, min_size=1, max_size=3), max_size=3))
    images = {number: image(number, *indexes.get(number, ())) for number in range(1, 11)}
    tags: dict[str, InventoryImage] = {}
    for number in draw(st.sets(st.sampled_from(sorted(images)))):
        tags[digest_tag(digest(number))] = images[number]
    for name, number in draw(st.dictionaries(st.sampled_from(["v1", "v2"]), st.sampled_from(sorted(images)))).items():
        tags[name] = images[number]
    signatures = st.dictionaries(st.sampled_from(sorted(images)), st.integers(20, 22), max_size=4)
    for owner, number in draw(signatures).items():
        tags[f"{artifact_tag(digest(owner))}.sig"] = image(number)
    requests = [wanted(number) for number in draw(st.sets(st.sampled_from(sorted(images))))]
    needed = NeededImages(
        {digest(number): "needed" for number in draw(st.sets(st.sampled_from(sorted(images)), max_size=3))}
    )
    return tags, requests, needed


@given(repositories())
def test_nothing_that_remains_loses_an_image_or_a_signature(
    drawn: tuple[dict[str, InventoryImage], list[MirrorRequest], NeededImages],
) -> None:
    tags, requests, needed = drawn
    planned = plan(tags, requests, needed)
    deleted = {each for entry in planned if entry.state == DELETE for each in entry.manifests}
    requested = {request.reference.digest for request in requests}
    by_digest = {each.digest: each for each in tags.values()}
    left = {tag: each for tag, each in tags.items() if each.digest not in deleted}
    assert not deleted & set(needed.digests)
    for each in [*left.values(), *(by_digest[key] for key in needed.digests if key in by_digest)]:
        assert not deleted & {each.digest, *each.children}
    for tag, each in tags.items():  # what was not asked for is only deleted with the image that it belongs to
        if each.digest in deleted - requested:
            owner = next((key for key in deleted if tag.startswith(artifact_tag(key))), "")
            parents = [key for key in deleted if key in by_digest and each.digest in by_digest[key].children]
            assert owner or (parents and tag == digest_tag(each.digest))
    for tag, each in tags.items():
        if tag.endswith(".sig") and each.digest in deleted - requested:
            assert tag.removesuffix(".sig").replace("sha256-", "sha256:") in deleted


def test_json() -> None:
    (only,) = plan({digest_tag(digest(1)): image(1)}, [wanted(1)])
    document: dict[str, Any] = only.to_dict()
    assert (document["state"], document["catalog"], document["kept_for"]) == ("delete", False, "")


def test_image_that_is_wanted_itself_and_in_an_index() -> None:
    tags = {"v1": image(1), digest_tag(digest(2)): image(2, 1)}
    for requests in (
        [MirrorRequest(SOURCE.with_tag("v1")), wanted(2)],
        [wanted(2), MirrorRequest(SOURCE.with_tag("v1"))],
    ):
        assert {each.state for each in plan(tags, requests)} == {DELETE}
