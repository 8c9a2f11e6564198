"""Records of mirrors: their content, and how several writers change them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.kit.memory_registry import MemoryRegistry, MemoryRepository, StoredRepository

from opmkit.imagetools.errors import (
    AuthenticationFailed,
    InvalidImage,
    NotFound,
    RegistryUnavailable,
    UnsupportedImage,
)
from opmkit.imagetools.image import Image
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.spec import Descriptor, Manifest, Platform
from opmkit.imagetools.spec.fields import dump_json
from opmkit.supply.mirror.record import (
    RECORD_TAG,
    RECORD_TYPE,
    MirrorRecord,
    RecordedImage,
    catalog_subject,
    mark_repository,
    read_records,
    record_tag,
    update_record,
)

SUBJECT = catalog_subject("1")
TAG = record_tag(SUBJECT)


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


def image(number: int, *versions: int, put: bool = True) -> RecordedImage:
    own = (digest(number),) if put else ()
    return RecordedImage("quay.io/a", "m/a", f"v{number}", digest(number), tuple(map(digest, versions)), own, put)


def record(*images: RecordedImage, versions: tuple[int, ...] = (1,)) -> MirrorRecord:
    return MirrorRecord(tuple(map(digest, versions)), ("key",), images)


@pytest.fixture
def repository() -> MemoryRepository:
    return MemoryRegistry().target(Reference("registry.example.com", "m/catalog"))


def test_merge_keeps_what_either_has_put() -> None:
    first = record(image(1, 1), image(2, 1, put=False))
    second = record(image(1, 2, put=False), image(2, 2), image(3, 2), versions=(2,))
    merged = first.merge(second)
    assert merged.versions == (digest(1), digest(2))
    assert merged.images == (image(1, 1, 2), image(2, 1, 2), image(3, 2))
    assert merged.merge(second) == merged
    assert merged.merge(first).versions == (digest(2), digest(1))


def test_active_versions() -> None:
    """A mirror to version 3 may be in progress."""
    all_versions = record(versions=(1, 2, 3))
    assert all_versions.active(digest(2)) == (digest(2), digest(3))
    assert all_versions.active(digest(9)) == all_versions.active("") == all_versions.versions


def test_deleted_version_leaves_what_others_may_need() -> None:
    merged = record(image(1, 1), image(2, 1, 2), image(3, 1, put=False), versions=(1, 2))
    left = merged.without({digest(1)}, {("m/a", digest(4))})
    assert left.versions == (digest(2),)
    assert left.images == (image(1), image(2, 2))
    assert left.without({digest(2)}, {("m/a", digest(1)), ("m/a", digest(2))}) == MirrorRecord()


def test_content_is_the_same_after_a_round_trip() -> None:
    before = record(image(1, 1, 2), image(2, put=False), versions=(1, 2))
    assert MirrorRecord.parse(before.dump(), "record") == before
    assert before.dump() == MirrorRecord(before.versions, ("key",), before.images[::-1]).dump()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "update opmkit"),
        ({"images": [{"source": "a"}]}, "repository: missing"),
        ({"images": [{"source": "a", "repository": "a", "tag": "a", "digest": "x"}]}, "digest"),
        ({"images": [{"source": "a", "repository": "a", "tag": "a", "digest": digest(1), "versions": [1]}]}, "below 1"),
        ({"versions": 1}, "versions"),
        ({"versions": None}, "versions: missing"),
        ({"images": None}, "images: missing"),
        ({"exceptions": []}, "exceptions: unknown field"),
        ({"images": [{**image(1).to_json({}), "shared": True}]}, "shared: unknown field"),
        ({"images": [{**image(1).to_json({}), "repository": "../m/a"}]}, "invalid repository"),
        ({"images": [{**image(1).to_json({}), "tag": "a/b"}]}, "invalid tag"),
    ],
)
def test_invalid_content(change: dict[str, Any], message: str) -> None:
    content = {"version": 1, "versions": [digest(1)], "configurations": [], "images": [], **change}
    with pytest.raises((InvalidImage, UnsupportedImage)) as failed:
        MirrorRecord.parse(dump_json(content), "record")
    assert message in f"{failed.value.message} {failed.value.hint}"


def test_writers_of_one_repository(repository: MemoryRepository) -> None:
    """Subjects are independent of each other, and another writer's change in the meantime is not lost."""
    assert read_records(repository) == {}
    update_record(repository, SUBJECT, record(image(1, 1)).merge)
    other = record(image(2, 2), versions=(2,))

    def change(current: MirrorRecord) -> MirrorRecord:
        if len(read_records(repository)) == 1:
            update_record(repository, "images:ab", lambda _: other)
            update_record(repository, SUBJECT, other.merge)
        return current.merge(record(image(3, 1)))

    update_record(repository, SUBJECT, change)
    found = read_records(repository)
    assert found["images:ab"] == other
    assert {each.tag for each in found[SUBJECT].images} == {"v1", "v2", "v3"}
    for subject in found:
        update_record(repository, subject, lambda _: None)
    assert read_records(repository) == {}
    assert set(repository.tags()) == {TAG, record_tag("images:ab")}  # so that the repository is not without a tag


def test_slow_writer_of_another_subject(repository: MemoryRepository) -> None:
    """A request that stalls for longer than the command of another writer takes replaces nothing of it."""

    def stall(kind: str, _: str, identifier: str) -> None:
        if (kind, identifier) == ("put", TAG):
            repository.registry.lie = lambda *_: None
            update_record(repository, catalog_subject("2"), record(image(2, 2), versions=(2,)).merge)

    repository.registry.lie = stall
    update_record(repository, SUBJECT, record(image(1, 1)).merge)
    assert read_records(repository).keys() == {SUBJECT, catalog_subject("2")}


def test_unchanged_record_is_not_written_again(repository: MemoryRepository) -> None:
    update_record(repository, SUBJECT, record(image(1, 1)).merge)
    requests: list[str] = []
    repository.registry.lie = lambda kind, *_: requests.append(kind)
    update_record(repository, SUBJECT, record(image(1, 1)).merge)
    assert requests == ["manifest", "blob"]


def test_registry_that_denies_access_to_what_does_not_exist(repository: MemoryRepository) -> None:
    def deny(kind: str, name: str, _: str) -> None:
        if kind == "manifest" and not repository.registry.repositories.get(name, StoredRepository()).manifests:
            raise AuthenticationFailed("denied")

    repository.registry.lie = deny
    assert read_records(repository) == {}
    update_record(repository, SUBJECT, record(image(1, 1)).merge)
    assert read_records(repository) == {SUBJECT: record(image(1, 1))}


@pytest.mark.parametrize("times", [1, 1 << 20])
@pytest.mark.parametrize("error", [AuthenticationFailed("denied"), NotFound("404"), RegistryUnavailable("500")])
@pytest.mark.parametrize("is_known", [True, False])
def test_wrong_answer_does_not_replace_a_record(
    repository: MemoryRepository, times: int, error: Exception, is_known: bool
) -> None:
    update_record(repository, SUBJECT, record(image(1, 1)).merge)
    asked: list[str] = []

    def lie(kind: str, _: str, identifier: str) -> None:
        if (kind, identifier) == ("manifest", TAG) and len(asked) < times:
            asked.append(kind)
            raise error

    repository.registry.lie = lie
    is_repeated = isinstance(error, AuthenticationFailed) and times == 1 and not is_known
    if is_repeated:
        update_record(repository, SUBJECT, record(image(2, 1)).merge)
    else:
        with pytest.raises((AuthenticationFailed, RegistryUnavailable)):
            update_record(repository, SUBJECT, record(image(2, 1)).merge, is_known=is_known)
    repository.registry.lie = lambda *_: None
    found = read_records(repository)[SUBJECT]
    assert found.images == ((image(1, 1), image(2, 1)) if is_repeated else (image(1, 1),))


def test_artifact(repository: MemoryRepository) -> None:
    mark_repository(repository)
    manifest = cast("Manifest", repository.get_manifest(RECORD_TAG))
    assert (manifest.artifact_type, len(manifest.layers)) == (RECORD_TYPE, 1)
    update_record(repository, SUBJECT, record(image(1, 1)).merge)
    manifest = cast("Manifest", repository.get_manifest(TAG))
    assert [(each.media_type, dict(each.annotations)) for each in manifest.layers] == [
        (RECORD_TYPE, {"org.opencontainers.image.title": SUBJECT})
    ]
    assert read_records(repository) == {SUBJECT: record(image(1, 1))}


@pytest.mark.parametrize(
    ("media_type", "subject"),
    [
        (f"{RECORD_TYPE[:-7]}2+json", SUBJECT),
        ("application/octet-stream", SUBJECT),
        (RECORD_TYPE, "other:1"),
        (RECORD_TYPE, "images:ab"),
    ],
)
def test_unknown_layer_is_neither_ignored_nor_replaced(
    repository: MemoryRepository, media_type: str, subject: str
) -> None:
    update_record(repository, SUBJECT, record(image(1, 1)).merge)
    before = cast("Manifest", repository.get_manifest(TAG))
    layer = Descriptor(media_type, digest(9), 9, annotations={"org.opencontainers.image.title": subject})
    changed = Manifest.build(before.config, [*before.layers, layer], artifact_type=RECORD_TYPE)
    repository.put_manifest(changed, TAG)
    with pytest.raises(UnsupportedImage, match=TAG):
        read_records(repository)
    with pytest.raises(UnsupportedImage, match=TAG):
        update_record(repository, SUBJECT, record(image(1, 1)).merge)
    assert repository.resolve(TAG).digest == changed.digest


def test_other_image_under_the_tag(repository: MemoryRepository) -> None:
    empty = Image.scratch(Platform("linux", "amd64"))
    repository.put_manifest(empty.manifest, TAG)
    with pytest.raises(InvalidImage, match="not a record of a mirror"):
        read_records(repository)
