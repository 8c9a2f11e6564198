"""Deletions and mirrors in a registry that other tools and people use as well."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.mirror_world import SOURCE, TARGET, MirrorWorld

from opmkit.core.errors import OpmkitError
from opmkit.imagetools.errors import ImageToolsError, NotFound, RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.repository import digest_tag
from opmkit.imagetools.spec import IndexManifest
from opmkit.index.errors import CatalogError
from opmkit.supply.mirror.deletion import ABSENT, DELETE, DELETED, KEPT, UNRECORDED
from opmkit.supply.mirror.errors import MirrorFailed, TagConflict
from opmkit.supply.mirror.image_set import ImageSet, ImageSetCatalog
from opmkit.supply.mirror.model import MirrorRequest
from opmkit.supply.mirror.record import (
    RECORD_TAG,
    MirrorRecord,
    RecordedImage,
    catalog_subject,
    is_record_tag,
    read_records,
    record_tag,
    update_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opmkit.supply.mirror.deletion import MirrorDeletion


class Site(MirrorWorld):
    """Catalogs ``one:1``, which needs two images, and ``two:1``, which needs the second of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.prefix = "m"
        self.first, self.shared, self.other = self.operands[1], self.operands[3], self.operands[4]
        self.push_catalog("one:1", self.first, self.shared)
        self.push_catalog("two:1", self.shared)

    def push_catalog(self, name: str, *images: Reference, **options: Any) -> str:
        """Push a catalog to the source, and return its digest."""
        repository, _, tag = name.partition(":")
        image = self.catalog(images, **options)
        self.push(self.source, repository, tag, image)
        return image.digest

    def has(self, image: Reference) -> bool:
        return bool(self.digest(image))

    def digest(self, image: Reference) -> str:
        """Return the digest of an image of the source in the target, "" if it is not there."""
        stored = self.registry.repositories.get(self.path(image))
        digest = (image.digest or stored.tags.get(str(image.tag), "")) if stored else ""
        return digest if stored and digest in stored.manifests else ""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(random.Random(1), tmp_path)


def states(result: MirrorDeletion) -> dict[str, str]:
    return {image.target.removeprefix(f"{TARGET}/m/").rpartition(":")[0]: image.state for image in result.images}


def test_catalog_is_deleted_with_what_only_it_needs(site: Site) -> None:
    site.mirror("one:1")
    site.mirror("two:1")
    done = site.delete("one:1")
    assert states(done) == {
        site.first.repository: DELETED,
        site.shared.repository: KEPT,
        "one": DELETED,
    }
    assert [site.has(site.first), site.has(site.shared)] == [False, True]
    done = site.delete("two:1")  # it has found the shared image there, which the other one's mirror has put
    assert states(done) == {site.shared.repository: DELETED, "two": DELETED}
    left = {tag for stored in site.registry.repositories.values() for tag in stored.tags}
    assert all(map(is_record_tag, left))
    records = [read_records(site.registry.target(Reference(TARGET, name))) for name in site.registry.repositories]
    assert records == [{}] * len(records)


def move(site: Site, operand: int, to: int) -> Reference:
    """Move the tag v1 of an operand in the source to another image; return its reference by the tag."""
    image = site.by_tag(site.operands[operand], "v1")
    site.source.repositories[image.repository].tags["v1"] = str(site.operands[to].digest)
    return image


def test_tag_that_an_earlier_configuration_has_set(site: Site) -> None:
    """An edited configuration is another one to its record."""
    image = move(site, 4, 4)
    site.mirror(configuration("", image))
    before = site.digest(image)
    move(site, 4, 5)
    site.push_catalog("one:1", image)
    with pytest.raises(MirrorFailed, match="refusing to move the tag"):
        site.mirror("one:1")
    site.mirror(configuration("", image, site.other))
    assert site.digest(image) != before


def test_tag_that_another_tag_of_the_catalog_has_set(site: Site) -> None:
    """Such as that of a catalog by its digest, which has no other tag."""
    image = move(site, 4, 4)
    site.push_catalog("one:1", image)
    site.push_catalog("one:2", image)
    site.mirror("one:1")
    before = site.digest(image)
    move(site, 4, 5)
    site.mirror("one:2")
    assert site.digest(image) != before


def test_signature_that_another_catalog_brings(site: Site) -> None:
    """A signature belongs to its image, so that it does not matter whose mirror has set its tag."""
    site.push_catalog("one:1", site.first)
    site.push_catalog("two:1", site.first)
    tag = digest_tag(str(site.first.digest), ".sig")
    for number, name in enumerate(("one:1", "two:1")):
        site.push(site.source, site.first.repository, tag, site.image(90 + number))
        site.mirror(name)
        signed = site.source.repositories[site.first.repository].tags[tag]
        assert site.registry.repositories[site.path(site.first)].tags[tag] == signed


def test_what_was_kept_can_be_deleted_later(site: Site) -> None:
    """By the name of the catalog, which is gone: its record lists what is left."""
    site.mirror("one:1")
    stored = site.registry.repositories[site.path(site.first)]
    stored.tags["theirs"] = str(site.first.digest)
    assert states(site.delete("one:1"))[site.first.repository] == KEPT
    del stored.tags["theirs"]
    assert states(site.delete("one:1")) == {site.first.repository: DELETED, "one": ABSENT}
    with pytest.raises(NotFound, match="the target has no"):
        site.delete("one:1")


def test_what_was_there_before_is_not_deleted(site: Site) -> None:
    """An image without a tag, which the mirror then names by a tag of its own."""
    site.copy_to_target(site.first)
    site.mirror("one:1")
    assert states(site.plan_deletion("one:1").result)[site.first.repository] == UNRECORDED
    done = site.delete("one:1")
    assert (site.has(site.first), site.has(site.shared), states(done)["one"]) == (True, False, DELETED)


def test_without_records_nothing_is_deleted_unless_confirmed(site: Site) -> None:
    """As after a mirror by a release without records."""
    site.mirror("one:1")
    site.forget_records()
    assert set(states(site.delete("one:1")).values()) == {UNRECORDED}
    assert [site.has(site.first), site.has(site.shared)] == [True, True]
    site.mirror("one:1")  # which finds everything there
    assert set(states(site.delete("one:1")).values()) == {UNRECORDED}
    assert set(states(site.delete("one:1", unrecorded=True)).values()) == {DELETED}
    assert [site.has(site.first), site.has(site.shared)] == [False, False]


@pytest.mark.parametrize("label", [True, False], ids=["label", "content"])
@pytest.mark.parametrize("tag", ["latest", "digest", "elsewhere"])
def test_catalog_of_others_keeps_its_images(site: Site, label: bool, tag: str) -> None:
    """With or without its label, under the tags of oc-mirror, and in all platforms."""
    site.mirror("one:1")
    image = site.catalog([site.first], label=label)
    name = f"sha256-{image.digest.partition(':')[2]}" if tag == "digest" else tag
    site.push(site.registry, "m/theirs/catalog", name, image)
    done = site.delete("one:1")
    assert states(done) == {site.first.repository: KEPT, site.shared.repository: DELETED, "one": DELETED}
    assert f"m/theirs/catalog:{name}, bundle b0" in next(each.kept_for for each in done.images if each.kept_for)


def test_catalog_with_an_invalid_image_refuses(site: Site) -> None:
    site.mirror("one:1")
    site.push(site.registry, "m/theirs/catalog", "1", site.catalog(["UPPER//invalid"]))  # type: ignore[list-item]
    with pytest.raises(CatalogError, match="m/theirs/catalog:1: cannot tell which images the catalog needs: bundle b0"):
        site.delete("one:1")
    assert site.registry.deletes == 0


@pytest.mark.parametrize("key", ["digest", "tag"])
def test_additional_image_of_another_configuration(site: Site, key: str) -> None:
    """Equal images of two configurations, in addition to different catalogs."""
    image = site.other if key == "digest" else site.by_tag(site.other)
    sets = [configuration(name, image) for name in ("one:1", "two:1")]
    for each in sets:
        site.mirror(each)
    site.delete(sets[0])
    assert [site.has(site.other), site.has(site.first), bool(site.digest(image))] == [True, False, True]
    done = site.delete(sets[1])
    assert (states(done)[site.other.repository], site.has(site.other)) == (DELETED, False)


def configuration(catalog: str, *images: Reference) -> ImageSet:
    entry = ImageSetCatalog(f"{SOURCE}/{catalog}", None, None, catalog.partition(":")[2], "set.yaml")
    requests = tuple(MirrorRequest(each, ("an additional image",)) for each in images)
    return ImageSet("set.yaml", (entry,) if catalog else (), requests)


def test_additional_images_without_a_catalog(site: Site) -> None:
    one, two = configuration("", site.first, site.other), configuration("", site.first)
    site.mirror(one)
    site.mirror("one:1")
    assert states(site.plan_deletion(two).result) == {site.first.repository: KEPT}  # it was not mirrored
    site.mirror(two)
    assert states(site.delete(one)) == {site.first.repository: KEPT, site.other.repository: DELETED}
    site.delete("one:1")
    assert site.has(site.first)
    assert states(site.delete(two)) == {site.first.repository: DELETED}


def test_catalog_of_two_configurations(site: Site) -> None:
    sets = [configuration("one:1", site.other), configuration("one:1", site.operands[0])]
    for each in sets:
        site.mirror(each)
    assert states(site.delete(sets[0])) == {
        site.other.repository: DELETED,
        site.first.repository: KEPT,
        site.shared.repository: KEPT,
        "one": KEPT,
    }
    assert set(states(site.delete(sets[1])).values()) == {DELETED}


def test_referrer_that_is_needed_itself(site: Site) -> None:
    """The list of referrers of a deleted image names an image that another catalog needs."""
    site.mirror("one:1")
    needed = site.copy_to_target(site.operands[0])  # in the same repository
    repository = site.registry.target(needed)
    listed = IndexManifest.build([repository.get_manifest(str(needed.digest)).descriptor])
    repository.put_manifest(listed, f"sha256-{str(site.first.digest).partition(':')[2]}")
    assert states(site.delete("one:1"))[site.first.repository] == DELETED
    assert (site.has(site.operands[0]), site.has(site.first)) == (True, False)


LIES: list[tuple[str, str, Callable[[], object]]] = [
    ("tags", "m/two", list),
    ("tags", "m/two", lambda: fail(NotFound("404"))),
    ("tags", "m/two", lambda: fail(RegistryUnavailable("429"))),
    ("manifest", "m/two", lambda: fail(NotFound("404"))),
    ("manifest", "m/two", lambda: fail(RegistryUnavailable("503"))),
    ("config", "m/two", lambda: fail(NotFound("404"))),
    ("blob", "m/two", lambda: fail(NotFound("404"))),
    ("repositories", "", lambda: ["m/one", "m/app/db", "m/app/web"]),
    ("tags", "m/app/db", list),
]


def fail(error: Exception) -> object:
    raise error


@pytest.mark.parametrize(("kind", "name", "answer"), LIES, ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "unrecorded"])
def test_answers_that_are_not_understood_end_the_deletion(
    site: Site, kind: str, name: str, answer: Callable[[], object], recorded: bool
) -> None:
    site.mirror("one:1")
    site.mirror("two:1")
    if not recorded:
        site.forget_records("m/two")
    if kind == "repositories":
        del site.registry.repositories["m/two"]
        site.registry.repositories["m/hidden/one"] = site.registry.repositories["m/one"]
    listed = ["m/hidden/one"]  # the deleted catalog is not
    site.registry.lie = lambda asked, at, _: (
        (listed if kind == "repositories" else answer()) if (asked, at) == (kind, name) else None
    )
    with pytest.raises(OpmkitError):
        site.delete("one:1", unrecorded=True)
    assert site.registry.deletes == 0


def test_list_of_repositories_without_one_that_a_record_names(site: Site) -> None:
    """The omitted repository has an image of the other catalog only, and thus is not read otherwise."""
    site.push_catalog("two:1", site.shared, site.other)
    site.mirror("one:1")
    site.mirror("two:1")
    omitted = site.path(site.other)
    listed = [name for name in site.registry.repositories if name != omitted]
    site.registry.lie = lambda asked, *_: listed if asked == "repositories" else None
    with pytest.raises(ImageToolsError, match=f"it omits {TARGET}/{omitted}"):
        site.delete("one:1")
    assert site.registry.deletes == 0
    del site.registry.repositories[omitted]  # as when an operator has removed it
    assert states(site.delete("one:1"))["one"] == DELETED


@pytest.mark.parametrize("name", ["m/one", "m/app/web"])
def test_delete_that_the_registry_only_pretends(site: Site, name: str) -> None:
    """The record remains until a later deletion succeeds."""
    assert name in ("m/one", site.path(site.first), site.path(site.shared))
    site.mirror("one:1")
    before = read_records(site.registry.target(Reference(TARGET, "m/one")))
    site.registry.lie = lambda kind, at, _: (kind, at) == ("delete", name) or None
    done = site.delete("one:1")
    assert all("still has it" in each.error.message for each in done.failures)
    assert {each.image.rpartition(":")[0] for each in done.failures} == {f"{TARGET}/{name}"}
    assert read_records(site.registry.target(Reference(TARGET, "m/one"))) == before
    site.registry.lie = lambda *_: None
    assert not site.delete("one:1").failures
    assert not site.has(site.first)


def test_names_in_a_catalog_do_not_decide_about_tags_of_others(site: Site) -> None:
    """A malicious catalog names an image of another registry, whose path and tag are those of a mirrored one."""
    site.push_catalog("good:1", site.by_tag(site.operands[4]))
    site.mirror("good:1")
    before = site.digest(site.by_tag(site.operands[4]))
    source = site.source.repositories["platform/payroll"]
    source.tags["v1"] = str(site.operands[5].digest)  # what evil.example.com/platform/payroll:v1 would be
    site.push_catalog("evil:1", site.by_tag(site.operands[4], "v1"))
    with pytest.raises(MirrorFailed, match="refusing to move the tag: it names") as failed:
        site.mirror("evil:1")
    assert isinstance(failed.value.failures[0].error, TagConflict)
    site.mirror("evil:1", continue_on_errors=True)
    (record,) = read_records(site.registry.target(Reference(TARGET, "m/evil"))).values()
    assert {each.repository for each in record.images} == {"m/evil"}
    site.delete("evil:1")
    assert site.digest(site.by_tag(site.operands[4], "v1")) == before
    site.mirror("good:1")  # which has set the tag, and thus moves it
    assert site.digest(site.by_tag(site.operands[4], "v1")) != before


def test_tag_of_the_catalog_that_a_person_has_moved(site: Site) -> None:
    site.mirror("one:1")
    mirrored = site.registry.repositories["m/one"].tags["1"]
    theirs = site.push(site.registry, "m/one", "1", site.catalog([site.first])).digest
    done = site.delete("one:1")
    assert {each.digest: each.state for each in done.images if each.is_catalog} == {
        mirrored: DELETED,
        theirs: UNRECORDED,
    }
    assert (len(done.images), site.has(site.first)) == (4, True)
    assert site.registry.repositories["m/one"].tags["1"] == theirs


def test_record_that_names_an_image_outside_of_the_prefix(site: Site) -> None:
    """Whoever may push to a repository below the prefix can change the record in it."""
    site.mirror("one:1")
    payroll = site.push(site.registry, "platform/payroll", "1", site.image(77))
    digest = str(payroll.digest)
    children = site.registry.target(payroll).get_manifest(digest)
    put = (digest, *(each.digest for each in getattr(children, "manifests", ())))
    catalog = site.registry.target(Reference(TARGET, "m/one"))
    versions = read_records(catalog)["catalog:1"].versions
    forged = RecordedImage(str(payroll), "platform/payroll", "1", digest, versions, put, is_tag_set=True)
    update_record(catalog, "catalog:1", MirrorRecord(versions, (), (forged,)).merge)
    done = site.delete("one:1", search=False)
    assert states(done)["one"] == DELETED
    assert site.registry.repositories["platform/payroll"].tags == {"1": digest}


def test_catalog_does_not_replace_what_others_have_pushed(site: Site) -> None:
    site.push(site.registry, "m/one", "1", site.catalog([site.other]))
    with pytest.raises(TagConflict, match=r"m/one:1: refusing to move the tag"):
        site.mirror("one:1")
    assert "m/app/db" not in site.registry.repositories
    site.mirror("one:1", overwrite_tags=True)
    assert site.has(site.first)
    site.push_catalog("one:1", site.other)
    site.mirror("one:1")  # the mirror has set the tag


@pytest.mark.parametrize("tag", [RECORD_TAG, record_tag(catalog_subject("1"))])
def test_tags_of_records_are_reserved(site: Site, tag: str) -> None:
    image = site.push(site.source, "one", tag, site.image(99)).with_tag(tag)
    site.push_catalog("one:1", image)
    with pytest.raises(MirrorFailed, match="reserved for the records"):
        site.mirror("one:1")
    site.push(site.registry, "m/two", tag, site.image(98))
    site.push(site.registry, "m/two", "1", site.image(97))
    with pytest.raises(ImageToolsError, match="not a record of a mirror"):
        site.mirror("two:1")


@pytest.mark.parametrize("tag", [f"mirrored-sha256-{'0' * 64}", f"sha256-{'0' * 64}", f"sha256-{'0' * 64}.sig"])
def test_tags_for_other_digests_are_reserved(site: Site, tag: str) -> None:
    """A malicious catalog must not take the tag that the mirror of another image needs."""
    image = site.push(site.source, "team/one", tag, site.image(99))
    site.push_catalog("one:1", Reference(SOURCE, "team/one", tag), site.first)
    with pytest.raises(MirrorFailed, match="this tag is reserved for") as failed:
        site.mirror("one:1")
    assert [each.image for each in failed.value.failures] == [f"{SOURCE}/team/one:{tag}"]
    site.mirror("one:1", continue_on_errors=True)
    assert [site.has(site.first), "m/team/one" in site.registry.repositories] == [True, False]
    own = f"mirrored-{str(image.digest).replace(':', '-')}"
    site.push(site.source, "team/one", own, site.image(99))
    site.push_catalog("one:1", Reference(SOURCE, "team/one", own))
    site.mirror("one:1")
    assert site.has(image)


@pytest.mark.parametrize("prefix", ["", "pp/mirror"])
def test_prefix(site: Site, prefix: str) -> None:
    """Without one, and beside another one that begins with it."""
    site.prefix = prefix
    site.push(site.registry, "pp/mirror2/catalog", "1", site.catalog(["UPPER//invalid"], label=bool(prefix)))  # type: ignore[list-item]
    if not prefix:
        del site.registry.repositories["pp/mirror2/catalog"]
    site.mirror("one:1")
    site.push_catalog("one:1", site.shared)
    site.mirror("one:1", prune=True)
    assert [site.has(site.first), site.has(site.shared)] == [False, True]
    name = f"{TARGET}/{prefix}/one:1" if prefix else f"{TARGET}/one:1"
    done = site.plan_deletion([name]).run()
    assert {each.state for each in done.images} == {DELETED}


def test_catalog_above_the_prefix_that_names_images_below_it(site: Site) -> None:
    """A mirror to a shorter prefix may have the names of images below a longer one."""
    site.prefix = "pp/mirror"
    site.mirror("one:1")
    longer = Reference(SOURCE, f"mirror/{site.first.repository}", digest=site.first.digest)
    source = site.source.repositories
    source[longer.repository] = source[site.first.repository]
    site.push_catalog("above:1", longer)
    site.prefix = "pp"
    site.mirror("above:1")
    site.prefix = "pp/mirror"
    done = site.delete("one:1")
    assert [site.has(site.first), site.has(site.shared)] == [True, False]
    assert [each.kept_for for each in done.in_state(KEPT)] == [f"{TARGET}/pp/above:1, by its record"]
    assert done.kept_catalogs == ()


@pytest.mark.parametrize("name", ["pp/team/catalog", "catalog", "other/catalog"])
@pytest.mark.parametrize("by", ["record", "content"])
def test_what_is_outside_of_the_prefix_counts(site: Site, name: str, by: str) -> None:
    """A catalog of people is looked for next to the prefix only, and a record everywhere."""
    site.prefix = "pp/mirror"
    site.mirror("one:1")
    path, digest = site.path(site.first), str(site.first.digest)
    if by == "content":
        site.push(site.registry, name, "1", site.catalog([Reference(TARGET, path, digest=digest)]))
    else:
        image = RecordedImage("quay.io/a", path, "v1", digest, ("new",))
        update_record(
            site.registry.target(Reference(TARGET, name)), "catalog:1", lambda _: MirrorRecord(("new",), (), (image,))
        )
    done = site.delete("one:1")
    assert site.has(site.first) == (by == "record" or name == "pp/team/catalog")
    assert not site.has(site.shared)
    assert done.kept_catalogs == ()


def test_records_outside_of_the_prefix_do_not_decide_what_is_deleted(site: Site) -> None:
    site.prefix = "pp/mirror"
    site.copy_to_target(site.first)
    site.mirror("one:1")
    put = RecordedImage(
        "quay.io/a", site.path(site.first), "v1", str(site.first.digest), (), (str(site.first.digest),), True
    )
    theirs = site.registry.target(Reference(TARGET, "pp/other"))
    before = update_record(theirs, "catalog:1", lambda _: MirrorRecord((), (), (put,)))
    site.delete("one:1")
    assert [site.has(site.first), site.has(site.shared)] == [True, False]
    assert theirs.resolve(record_tag("catalog:1")).digest == before


def test_interrupted_mirror_knows_what_it_has_put(site: Site) -> None:
    """A catalog that never arrived can be deleted by its name."""

    def refuse(*asked: str) -> object:
        return fail(RegistryUnavailable("full")) if asked == ("put", "m/one", "1") else None

    site.registry.lie = refuse
    with pytest.raises(OpmkitError):
        site.mirror("one:1")
    site.registry.lie = lambda *_: None
    assert site.has(site.first)
    assert states(site.delete("one:1")) == {
        site.first.repository: DELETED,
        site.shared.repository: DELETED,
        "one": ABSENT,
    }


@pytest.mark.parametrize("image_set", [False, True])
def test_record_that_another_mirror_has_replaced(site: Site, image_set: bool) -> None:
    """A writer that was slower than expected puts its own record while the images are copied."""
    site.mirror("one:1")
    stored = site.registry.repositories["m/one"]
    tag = record_tag(catalog_subject("1"))
    theirs = stored.tags[tag]
    site.push_catalog("one:1", site.other)
    changed: list[str] = []

    def overwrite(kind: str, name: str, identifier: str) -> None:
        if (kind, name, identifier) == ("put", "m/one", "1"):
            changed.append(stored.tags[tag])
            stored.tags[tag] = theirs

    site.registry.lie = overwrite
    site.mirror(configuration("one:1", site.operands[0]) if image_set else "one:1")
    assert changed
    assert theirs not in (changed[0], stored.tags[tag])
    records = read_records(site.registry.target(Reference(TARGET, "m/one")))
    assert len(records) == 1 + image_set
    assert len(records["catalog:1"].versions) == 2
    assert site.path(site.other) in {each.repository for each in records["catalog:1"].images}


def test_plan_lists_what_is_deleted(site: Site) -> None:
    site.mirror("one:1")
    assert set(states(site.plan_deletion("one:1").result).values()) == {DELETE}
