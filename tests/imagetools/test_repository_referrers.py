"""Artifacts with a subject: in a real registry, by the referrers API of a scripted one, and in image layouts."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.errors import InvalidImage, NotFound, TagMoved
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.repository import digest_tag, referrer_descriptor, update_tag
from opmkit.imagetools.spec import Descriptor, IndexManifest, Manifest, media_types, parse_manifest
from opmkit.imagetools.store import ImageStore, LayoutRepository
from opmkit.imagetools.store.layout import Layout
from tests.kit.content import described, put, put_image
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.imagetools.registry import RegistryRepository
    from opmkit.imagetools.repository import Repository
    from tests.kit.registry import Registry

SBOM, SIGNATURE = "application/spdx+json", "application/x-signature"


def attach(repository: Repository, subject: Descriptor, content: bytes, artifact_type: str = SIGNATURE) -> Manifest:
    """Store an artifact with a subject."""
    config = put(repository, b"{}", media_types.OCI_EMPTY)
    layer = put(repository, content, artifact_type)
    artifact = Manifest.build(
        config, [layer], {"content": content.decode()}, artifact_type=artifact_type, subject=subject
    )
    repository.put_manifest(artifact)
    return artifact


@pytest.fixture(params=["registry", "layout"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    if request.param == "layout":
        return LayoutRepository(tmp_path / "layout")
    registry: Registry = request.getfixturevalue("registry")
    return registry_repository(registry, request.node.name)


def registry_repository(registry: Registry, test: str) -> Repository:
    name = f"referrers/{test.partition('[')[0].lower()}"
    return RegistryClient(RegistryOptions(plain_http=True)).target(Reference(registry.host, name))


def test_manifest_with_a_subject_round_trips() -> None:
    manifest = Manifest.build(described(b"{}"), [], artifact_type=SBOM, subject=described(b"image"))
    assert parse_manifest(manifest.raw) == manifest
    assert json.loads(manifest.raw)["subject"]["digest"] == described(b"image").digest
    with pytest.raises(InvalidImage, match=r"manifest\.subject"):
        parse_manifest(manifest.raw.replace(described(b"image").digest.encode(), b"sha256:0"))


def test_artifacts_are_listed_by_type(repository: Repository) -> None:
    image = put_image(repository, "1", b"x").descriptor
    assert repository.referrers(image.digest) == ()
    sbom = attach(repository, image, b"s", SBOM)
    signatures = [attach(repository, image, content) for content in (b"1", b"2", b"1")]
    other = attach(repository, sbom.descriptor, b"of the SBOM")
    listed = repository.referrers(image.digest)
    assert {item.digest for item in listed} == {sbom.digest, *(item.digest for item in signatures)}
    assert repository.referrers(image.digest, SBOM) == (referrer_descriptor(sbom),)
    assert [item.annotations for item in repository.referrers(image.digest, SIGNATURE)] == [
        {"content": "1"},
        {"content": "2"},
    ]
    assert [item.digest for item in repository.referrers(sbom.digest)] == [other.digest]


def test_artifact_without_a_type_has_that_of_its_config(repository: Repository) -> None:
    image = put_image(repository, "1", b"x").descriptor
    repository.put_manifest(Manifest.build(put(repository, b"{}", SBOM), [], subject=image))
    assert [item.artifact_type for item in repository.referrers(image.digest)] == [SBOM]


def test_concurrent_writers_lose_nothing(registry: Registry, request: pytest.FixtureRequest) -> None:
    repositories = [registry_repository(registry, request.node.name) for _ in range(6)]
    image = put_image(repositories[0], "1", b"x").descriptor
    with ThreadPoolExecutor(6) as pool:
        artifacts = list(pool.map(lambda i: attach(repositories[i], image, b"%d" % i), range(6)))
    listed = {item.digest for item in repositories[0].referrers(image.digest)}
    assert listed == {artifact.digest for artifact in artifacts}


def test_concurrent_writers_of_a_layout_lose_nothing(tmp_path: Path) -> None:
    repository = LayoutRepository(tmp_path / "layout")
    image = put_image(repository, "1", b"x").descriptor
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda i: attach(LayoutRepository(tmp_path / "layout"), image, b"%d" % i), range(6)))
    assert len(repository.referrers(image.digest)) == 6


def test_artifacts_do_not_hide_the_only_image_of_a_layout(tmp_path: Path) -> None:
    repository = LayoutRepository(tmp_path / "layout")
    image = put_image(repository, "1", b"x").descriptor
    attach(repository, image, b"s")
    put_image(repository, digest_tag(image.digest, ".sig"), b"y")
    assert repository.resolve("").digest == image.digest


def test_store_does_not_list_artifacts_as_images(tmp_path: Path) -> None:
    store = ImageStore(Layout(tmp_path / "store"))
    repository = store.repository("quay.io/a/b")
    image = put_image(repository, "1", b"x").descriptor
    attach(repository, image, b"s")
    assert [stored.digest for stored in store.list()] == [image.digest]
    store.prune(grace=0)
    assert len(repository.referrers(image.digest)) == 1


def test_fallback_tag_must_name_an_index(registry: Registry, request: pytest.FixtureRequest) -> None:
    repository = registry_repository(registry, request.node.name)
    image = put_image(repository, "1", b"x").descriptor
    put_image(repository, digest_tag(image.digest), b"y")
    assert repository.referrers(image.digest) == ()
    with pytest.raises(InvalidImage, match="expected an image index"):
        attach(repository, image, b"s")


def test_tag_that_others_keep_moving(tmp_path: Path) -> None:
    class Contended(LayoutRepository):
        def put_manifest(
            self, manifest: Manifest | IndexManifest, tag: str | None = None, *, replacing: str | None = None
        ) -> Descriptor:
            raise TagMoved(f"tag {tag}")

    waits: list[float] = []
    with pytest.raises(TagMoved, match="moved it 40 times"):
        update_tag(
            Contended(tmp_path / "layout"), "1", lambda current: current or IndexManifest.build([]), sleep=waits.append
        )
    assert len(waits) == 40


def test_overwritten_change_is_repeated(tmp_path: Path) -> None:
    repository = LayoutRepository(tmp_path / "layout")
    mine, theirs = (put_image(repository, tag, tag.encode()).descriptor for tag in ("mine", "theirs"))

    def add(current: Manifest | IndexManifest | None) -> IndexManifest:
        listed = current.manifests if isinstance(current, IndexManifest) else ()
        if isinstance(current, IndexManifest) and mine in listed:
            return current
        return IndexManifest.build([*listed, mine])

    overwrites = iter([True])

    def interfere(_: float) -> None:
        if next(overwrites, False):
            repository.put_manifest(IndexManifest.build([theirs]), "list")

    update_tag(repository, "list", add, sleep=interfere)
    final = repository.get_manifest("list")
    assert isinstance(final, IndexManifest)
    assert final.manifests == (theirs, mine)


class ScriptedRegistry:
    """A registry with the referrers API; ``pages`` maps paths to a body and a Link header."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[bytes, str]] = {}
        self.media_type = media_types.OCI_INDEX
        self.requests: list[str] = []
        script = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:  # noqa: N802
                script.requests.append(self.path)
                if self.path not in script.pages:
                    self.answer(404)
                    return
                body, link = script.pages[self.path]
                media_type = script.media_type or parse_manifest(body).media_type
                self.answer(200, body, {"Content-Type": media_type} | ({"Link": link} if link else {}))

            def do_PUT(self) -> None:  # noqa: N802
                body = self.request_body()
                script.requests.append(f"PUT {self.path}")
                manifest = parse_manifest(body)
                assert manifest.subject
                headers = {"Docker-Content-Digest": manifest.digest, "OCI-Subject": manifest.subject.digest}
                self.answer(201, b"", headers)

        self.server = WebServer(Handler)


@pytest.fixture
def scripted() -> Iterator[ScriptedRegistry]:
    script = ScriptedRegistry()
    with script.server:
        yield script


@pytest.fixture
def remote(scripted: ScriptedRegistry) -> RegistryRepository:
    return RegistryClient(RegistryOptions(plain_http=True)).target(Reference(scripted.server.host, "a/b"))


IMAGE = described(b"image", media_types.OCI_MANIFEST)
FIRST, SECOND = (
    Descriptor(media_types.OCI_MANIFEST, described(name).digest, 4, artifact_type=kind)
    for name, kind in ((b"1", SIGNATURE), (b"2", SBOM))
)


def test_referrers_api_in_pages(scripted: ScriptedRegistry, remote: Repository) -> None:
    path = f"/v2/a/b/referrers/{IMAGE.digest}"
    next_page = f'<{path}?page=2>; rel="next"'
    scripted.pages = {
        path: (IndexManifest.build([FIRST]).raw, next_page),
        f"{path}?page=2": (IndexManifest.build([SECOND, FIRST]).raw, ""),
    }
    assert remote.referrers(IMAGE.digest, SIGNATURE) == (FIRST,)
    assert len(scripted.requests) == 2


def test_wrong_artifact_types_are_corrected(scripted: ScriptedRegistry, remote: Repository) -> None:
    # registry of go-containerregistry 0.22
    empty = described(b"{}", media_types.OCI_EMPTY)
    artifact = Manifest.build(empty, [], artifact_type=SBOM, subject=IMAGE)
    listed = replace(artifact.descriptor, artifact_type=media_types.OCI_EMPTY)
    lost = replace(described(b"lost", media_types.OCI_MANIFEST), artifact_type="")
    scripted.media_type = ""
    scripted.pages = {
        f"/v2/a/b/referrers/{IMAGE.digest}": (IndexManifest.build([listed, lost, FIRST]).raw, ""),
        f"/v2/a/b/manifests/{artifact.digest}": (artifact.raw, ""),
    }
    assert remote.referrers(IMAGE.digest, SBOM) == (referrer_descriptor(artifact),)
    assert [item.digest for item in remote.referrers(IMAGE.digest)] == [artifact.digest, lost.digest, FIRST.digest]


def test_registry_with_the_api_needs_no_fallback_tag(scripted: ScriptedRegistry, remote: Repository) -> None:
    artifact = Manifest.build(described(b"{}"), [], artifact_type=SBOM, subject=IMAGE)
    remote.put_manifest(artifact)
    assert scripted.requests == [f"PUT /v2/a/b/manifests/{artifact.digest}"]


def test_fallback_if_the_api_returns_something_else(scripted: ScriptedRegistry, remote: Repository) -> None:
    scripted.pages = {f"/v2/a/b/referrers/{IMAGE.digest}": (b"<html>", "")}
    scripted.media_type = "text/html"
    assert remote.referrers(IMAGE.digest) == ()
    assert scripted.requests[-1] == f"/v2/a/b/manifests/{digest_tag(IMAGE.digest)}"


def test_malformed_referrers(scripted: ScriptedRegistry, remote: Repository) -> None:
    path = f"/v2/a/b/referrers/{IMAGE.digest}"
    scripted.pages = {path: (b'{"schemaVersion":2,"manifests":[{"digest":"x"}]}', "")}
    with pytest.raises(InvalidImage, match=rf"{IMAGE.digest}: list of referrers: manifest\.manifests\[0\]\.digest"):
        remote.referrers(IMAGE.digest)


def test_endless_referrers(scripted: ScriptedRegistry, remote: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opmkit.imagetools.registry.repository.MAX_REFERRERS", 20)
    path = f"/v2/a/b/referrers/{IMAGE.digest}"
    page = IndexManifest.build([]).raw
    scripted.pages = {path: (page, f'<{path}?n=0>; rel="next"')}
    scripted.pages |= {f"{path}?n={number}": (page, f'<{path}?n={number + 1}>; rel="next"') for number in range(25)}
    with pytest.raises(LimitExceeded, match="more than 20 pages of referrers"):
        remote.referrers(IMAGE.digest)
    requests = len(scripted.requests)
    with pytest.raises(LimitExceeded):  # for all images together
        remote.referrers(IMAGE.digest)
    assert len(scripted.requests) == requests + 2


@pytest.mark.parametrize("listed", [(), (FIRST,)])
def test_referrers_are_listed_once(
    scripted: ScriptedRegistry, remote: RegistryRepository, listed: tuple[Descriptor, ...]
) -> None:
    scripted.pages = {f"/v2/a/b/referrers/{IMAGE.digest}": (IndexManifest.build(listed).raw, "")}
    assert remote.has_referrers_api(IMAGE.digest)
    assert remote.referrers(IMAGE.digest) == listed
    assert len(scripted.requests) == 1
    assert remote.referrers(IMAGE.digest) == listed
    assert len(scripted.requests) == 2


def test_digest_tag() -> None:
    assert digest_tag(IMAGE.digest, ".sig") == f"sha256-{IMAGE.digest[7:]}.sig"
    with pytest.raises(InvalidImage):
        digest_tag("../x")


def test_missing_repository(remote: Repository) -> None:
    assert remote.referrers(IMAGE.digest) == ()
    with pytest.raises(NotFound):
        remote.resolve(digest_tag(IMAGE.digest))
