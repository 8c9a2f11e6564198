"""Planning the deletion of mirrored images."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.repository import digest_tag as artifact_tag
from opmkit.imagetools.spec import Descriptor, IndexManifest, media_types
from opmkit.supply.mirror.deletion import (
    ABSENT,
    DELETE,
    KEPT,
    NO_RECORD,
    NeededImages,
    Ownership,
    WantedDeletion,
    plan_deletion,
)
from opmkit.supply.mirror.inventory import InventoryImage, RepositoryInventory
from opmkit.supply.mirror.model import digest_tag
from opmkit.supply.mirror.record import MirrorRecord, RecordedImage

if TYPE_CHECKING:
    from opmkit.imagetools.registry import RegistryRepository
    from opmkit.supply.mirror.deletion import ImageDeletion

NAME = "registry.example.com/m/org/name"
PATH = "m/org/name"
SOURCE = "quay.io/org/name"


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
    config: Descriptor | None = None
    layers: tuple[Descriptor, ...] = ()
    subject: Descriptor | None = None


def descriptor(identifier: str) -> Descriptor:
    return Descriptor(media_types.OCI_MANIFEST, identifier, 1)


def plan(
    tags: dict[str, InventoryImage],
    requests: list[WantedDeletion],
    needed: NeededImages | None = None,
    stored: Stored | None = None,
    ownership: Ownership | None = None,
) -> list[ImageDeletion]:
    """Plan without records, unless what these say is given."""
    inventory = RepositoryInventory(NAME, tags, cast("RegistryRepository", stored or Stored()))
    return plan_deletion(requests, {NAME: inventory}, needed or NeededImages(), ownership)


def image(number: int, *children: int) -> InventoryImage:
    return InventoryImage(digest(number), tuple(map(digest, children)))


def wanted(number: int, tag: str = "") -> WantedDeletion:
    return WantedDeletion(SOURCE, NAME, tag or digest_tag(digest(number)), digest(number), is_recorded=True)


def tagged(tag: str) -> WantedDeletion:
    return WantedDeletion(SOURCE, NAME, tag, is_recorded=True)


def put(tags: dict[str, InventoryImage], *others: int) -> Ownership:
    """Return that mirrors have put all of these images and tags, and other manifests."""
    manifests = {(PATH, each) for item in tags.values() for each in (item.digest, *item.children)}
    manifests |= {(PATH, digest(number)) for number in others}
    return Ownership(frozenset(manifests), frozenset((PATH, tag, item.digest) for tag, item in tags.items()))


def test_image_in_its_repository_only() -> None:
    tags = {digest_tag(digest(1)): image(1), "other": image(2)}
    (only,) = plan(tags, [wanted(1)])
    assert (only.state, only.target, only.manifests) == (DELETE, f"{NAME}:{digest_tag(digest(1))}", (digest(1),))


def test_absent_images() -> None:
    planned = plan({"other": image(2)}, [wanted(1), tagged("v1")])
    assert [(each.state, each.digest) for each in planned] == [(ABSENT, ""), (ABSENT, "")]


def test_tag_of_oc_mirror_and_of_replaced_catalogs_do_not_keep() -> None:
    replaced = f"replaced-{artifact_tag(digest(1))}"
    names = (artifact_tag(digest(1)), replaced, "mirrored-0123abcd-" + artifact_tag(digest(1)))
    tags = dict.fromkeys(names, image(1))
    (only,) = plan(tags, [wanted(1)])
    assert only.state == DELETE
    own = Ownership(frozenset({(PATH, digest(1))}), frozenset({(PATH, names[2], digest(1))}))
    (only,) = plan(tags, [wanted(1)], ownership=own)  # with records, these are tags of others
    assert (only.state, only.kept_for) == (KEPT, f"its tag {names[0]}")


def test_tag_that_stands_for_another_digest_keeps() -> None:
    (only,) = plan({digest_tag(digest(2)): image(1)}, [wanted(1)])
    assert (only.state, only.kept_for) == (KEPT, f"its tag {digest_tag(digest(2))}")


def test_moved_tag_is_not_followed() -> None:
    """The tag of a request names another image by now."""
    tags = {"v1": image(2), digest_tag(digest(1)): image(1)}
    (only,) = plan(tags, [wanted(1, "v1")])
    assert only.manifests == (digest(1),)


def test_needed_images_are_kept_by_digest_and_by_name() -> None:
    tags = {"v1": image(1), "v2": image(2), digest_tag(digest(3)): image(3)}
    requests = [tagged("v1"), tagged("v2"), wanted(3)]
    needed = NeededImages({digest(3): "elsewhere"})
    needed.add("org/name", "v1", None, "catalog 1")
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
    needed = NeededImages()
    needed.add("org/name", None, index.digest, "catalog 1")
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


def test_only_what_records_say_is_deleted() -> None:
    """An image, a part, an artifact and a tag that others have put remain."""
    tags = {
        digest_tag(digest(1)): image(1, 11, 12),
        f"{artifact_tag(digest(1))}.sig": image(21),
        f"{artifact_tag(digest(1))}.att": image(22),
        "v2": image(2),
        "v3": image(3),
    }
    every = put(tags)
    own = Ownership(
        every.manifests - {(PATH, digest(12)), (PATH, digest(22)), (PATH, digest(2))},
        every.tags - {(PATH, "v3", digest(3))},
    )
    stored = Stored({digest(11): (), digest(12): ()})
    planned = plan(tags, [wanted(1), wanted(2, "v2"), wanted(3, "v3")], stored=stored, ownership=own)
    assert [(each.state, each.kept_for) for each in planned] == [(DELETE, ""), (KEPT, NO_RECORD), (KEPT, "its tag v3")]
    assert planned[0].manifests == (digest(21), digest(1), digest(11))
    assert set(planned[0].tags) == {digest_tag(digest(1)), f"{artifact_tag(digest(1))}.sig"}
    unlisted = structs.replace(wanted(1), is_recorded=False)  # by the record of another catalog
    assert plan(tags, [unlisted], ownership=every)[0].kept_for == NO_RECORD


def test_list_of_referrers_is_deleted_if_mirrors_have_put_all_of_them() -> None:
    tags = {
        digest_tag(digest(1)): image(1),
        digest_tag(digest(31)): structs.replace(image(31), subject=digest(1)),
        artifact_tag(digest(1)): image(40, 31),
    }
    own = put({tag: each for tag, each in tags.items() if each.digest != digest(40)})
    (only,) = plan(tags, [wanted(1), wanted(31)], ownership=own)
    assert set(only.artifacts) == {digest(31), digest(40)}
    tags[artifact_tag(digest(1))] = image(41, 31, 32)
    (only,) = plan(tags, [wanted(1), wanted(31)], ownership=own)  # they are kept with the list, which names another
    assert (only.state, only.artifacts) == (DELETE, ())


def test_artifact_of_a_kept_image_is_kept() -> None:
    """An image of its own that belongs to another one."""
    tags = {"v1": image(1), digest_tag(digest(2)): structs.replace(image(2), subject=digest(1))}
    (only,) = plan(tags, [wanted(2)], NeededImages({digest(1): "catalog 1"}), ownership=put(tags))
    assert only.kept_for == f"{digest(1)}, which it belongs to: catalog 1"


def test_needed_tag_in_any_repository_that_ends_with_its_name() -> None:
    needed = NeededImages()
    needed.add("org/team/app", "v1", None, "catalog 1")
    for name in ("m/n/org/team/app", "m-org-team-app"):
        assert needed.find(name) == {"v1": "catalog 1"}
    for name in ("borg/team/app", "app"):
        assert needed.find(name) == {}


def test_ownership_of_all_records() -> None:
    images = (RecordedImage("quay.io/a", "a", "v1", digest(1), ("x",), (digest(1),), is_tag_set=True),)
    records = {"catalog:1": MirrorRecord(images=images), "images:ab": MirrorRecord()}
    inventory = RepositoryInventory(NAME, {}, cast("RegistryRepository", Stored()), records)
    own = Ownership.from_records([inventory])
    assert own == Ownership(frozenset({("a", digest(1))}), frozenset({("a", "v1", digest(1))}))


@st.composite
def repositories(draw: st.DrawFn) -> tuple[dict[str, InventoryImage], list[WantedDeletion], NeededImages]:
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
    drawn: tuple[dict[str, InventoryImage], list[WantedDeletion], NeededImages],
) -> None:
    tags, requests, needed = drawn
    planned = plan(tags, requests, needed)
    deleted = {each for entry in planned if entry.state == DELETE for each in entry.manifests}
    requested = {request.digest for request in requests}
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
        [tagged("v1"), wanted(2)],
        [wanted(2), tagged("v1")],
    ):
        assert {each.state for each in plan(tags, requests)} == {DELETE}
