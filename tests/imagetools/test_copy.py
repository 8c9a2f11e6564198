from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import (
    EngineError,
    EngineUnavailable,
    InvalidReference,
    NotFound,
    StoreError,
    UnsupportedImage,
)
from opmkit.imagetools.image import Image, load_image_or_index
from opmkit.imagetools.layer import LayerFile, write_layer, write_tar
from opmkit.imagetools.reference import Reference, parse_image_reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import ConfigChanges, media_types
from opmkit.imagetools.store import ImageStore, LayoutRepository
from opmkit.imagetools.tools.registry import RegistryTool
from opmkit.imagetools.transports import check_platform_support, pin_reference
from tests.kit.images import multi_image, small_image
from tests.kit.requirements import require

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opmkit.imagetools.repository import BlobOpener, ImageSource
    from opmkit.imagetools.spec import Descriptor, IndexManifest, Manifest
    from tests.kit.engines import DockerDaemon, Engine
    from tests.kit.registry import Registry


class Recording(LayoutRepository):
    """A layout that notes what is asked of it, and fails where it is told to."""

    def __init__(self, path: Path, fails_on: str = "") -> None:
        super().__init__(path)
        self.blobs: list[str] = []
        self.mounts: list[ImageSource | None] = []
        self.manifests: list[tuple[str, str | None]] = []
        self.fails_on = fails_on

    def put_blob(self, descriptor: Descriptor, opener: BlobOpener, *, mount_from: ImageSource | None = None) -> None:
        if descriptor.media_type != media_types.OCI_MANIFEST and descriptor.media_type != media_types.OCI_INDEX:
            self.blobs.append(descriptor.digest)
            self.mounts.append(mount_from)
        if descriptor.digest == self.fails_on:
            raise StoreError("told to")
        super().put_blob(descriptor, opener, mount_from=mount_from)

    def put_manifest(
        self, manifest: Manifest | IndexManifest, tag: str | None = None, *, replacing: str | None = None
    ) -> Descriptor:
        self.manifests.append((manifest.digest, tag))
        return super().put_manifest(manifest, tag, replacing=replacing)


class Counting:
    """A progress that adds up."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.done = 0
        self.ended = 0
        self.lock = threading.Lock()

    def begin(self, label: str, total: int | None) -> None:
        assert label
        self.total = total

    def advance(self, count: int) -> None:
        with self.lock:
            self.done += count

    def end(self) -> None:
        self.ended += 1


def test_blobs_once_manifests_then_the_tag(tmp_path: Path) -> None:
    images = [small_image(tmp_path, {"same": b"1"}, platform=name) for name in ("linux/amd64", "linux/arm64")]
    image = multi_image(images)
    target = Recording(tmp_path / "target")
    progress = Counting()
    assert copy_image(image, target, "1", progress=progress).digest == image.digest
    parts = {part.digest: part.size for one in images for part in one.manifest.children}
    assert sorted(target.blobs) == sorted(parts)
    assert target.manifests == [(images[0].digest, None), (images[1].digest, None), (image.digest, "1")]
    assert (progress.total, progress.done, progress.ended) == (sum(parts.values()), sum(parts.values()), 1)
    assert load_image_or_index(target, "1") == replace(image, source=target)


def test_local_layers_come_from_disk_others_may_be_mounted(tmp_path: Path) -> None:
    source = LayoutRepository(tmp_path / "source")
    base = small_image(tmp_path, {"a": b"1"})
    copy_image(base, source, "1")
    loaded = load_image_or_index(source, "1")
    assert isinstance(loaded, Image)
    layer = write_layer([LayerFile("b", b"2")], tmp_path)
    target = Recording(tmp_path / "target")
    copy_image(loaded.append([layer]), target, None, workers=1)
    mounts = dict(zip(target.blobs, target.mounts, strict=True))
    assert mounts[base.manifest.layers[0].digest] is source
    assert mounts[layer.descriptor.digest] is None


def test_a_failure_leaves_no_tag(tmp_path: Path) -> None:
    layers = [write_layer([LayerFile(f"f{number}", b"1")], tmp_path) for number in range(20)]
    image = Image.scratch().append(layers)
    target = Recording(tmp_path / "target", fails_on=layers[3].descriptor.digest)
    progress = Counting()
    with pytest.raises(StoreError, match="told to"):
        copy_image(image, target, "1", workers=2, progress=progress)
    assert target.manifests == []
    assert list(target.tags()) == []
    assert progress.ended == 1
    target.fails_on = ""
    copy_image(image, target, "1")
    assert list(target.tags()) == ["1"]


def test_an_old_tag_stays_when_a_layer_is_gone(tmp_path: Path) -> None:
    target = LayoutRepository(tmp_path / "target")
    old = small_image(tmp_path, {"a": b"1"})
    copy_image(old, target, "1")
    (tmp_path / "new").mkdir()
    new = small_image(tmp_path / "new", {"a": b"2"})
    for path in new.local_layers.values():
        path.unlink()
    with pytest.raises(StoreError, match="No such file"):
        copy_image(new, target, "1")
    assert target.resolve("1").digest == old.digest
    with pytest.raises(NotFound):
        target.resolve("2")


def test_layers_kept_elsewhere_are_not_copied(tmp_path: Path) -> None:
    image = small_image(tmp_path, {"a": b"1"})
    foreign = replace(
        image.manifest.layers[0],
        media_type="application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        urls=("https://example.com/layer",),
    )
    manifest = type(image.manifest).build(image.manifest.config, [foreign])
    target = Recording(tmp_path / "target")
    copy_image(replace(image, manifest=manifest), target, "1")
    assert target.blobs == [manifest.config.digest]


# --- between places of every kind

FILES = {"manifests/a.yaml": b"a: 1\n", "é": b"\0" * 1000}
KEEPERS = ("registry", "store", "oci", "oci-archive")
"""The places that keep a manifest and its layers byte for byte."""
PLACES = (*KEEPERS, "docker-archive", "docker-daemon", "containers-storage")


@pytest.fixture
def tool(tmp_path: Path) -> RegistryTool:
    return RegistryTool(RegistryClient(RegistryOptions(plain_http=True)), ImageStore.open(tmp_path / "store"))


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """A function from the kind of a place, and a word, to a reference there that no one else uses."""
    unique = tmp_path.name.lower().replace("_", "-")

    def reference(kind: str, word: str) -> str:
        name = f"quay.io/copies/{unique}-{word}:1"
        if kind == "registry":
            registry: Registry = request.getfixturevalue("registry")
            return f"docker://{registry.host}/copies/{unique}-{word}:1"
        if kind == "docker-daemon":
            daemon: DockerDaemon = request.getfixturevalue("docker_daemon")
            monkeypatch.setenv("DOCKER_HOST", daemon.url)
        if kind == "containers-storage":
            storage: Engine = request.getfixturevalue("container_storage")
            for variable, value in storage.settings.items():
                monkeypatch.setenv(variable, value)
        files = {"oci": f"{tmp_path}/{word}:1", "oci-archive": f"{tmp_path}/{word}.tar:1"}
        return f"{kind}:{files.get(kind) or (f'{tmp_path}/{word}.tar:{name}' if kind == 'docker-archive' else name)}"

    return reference


def files_of(tool: RegistryTool, image: Image) -> dict[str, bytes]:
    return tool.read_tree(image, [""])


@pytest.mark.parametrize("to", PLACES)
@pytest.mark.parametrize("start", PLACES)
def test_between_any_two_places(
    start: str, to: str, tool: RegistryTool, place: Callable[[str, str], str], tmp_path: Path
) -> None:
    base = small_image(tmp_path, FILES, labels={"a": "b"})
    image = base.append([write_layer([LayerFile("top", b"top")], tmp_path)], ConfigChanges(env={"X": "y"}))
    first, second = parse_image_reference(place(start, "start")), parse_image_reference(place(to, "to"))
    put = tool.push(image, first)
    moved = tool.push(tool.load(first), second)
    copied = tool.inspect(second)
    assert files_of(tool, copied) == {**FILES, "top": b"top"}
    assert copied.config == image.config
    if start in KEEPERS:
        assert put.digest == image.digest
    if start in KEEPERS and to in (*KEEPERS, "containers-storage"):
        assert moved.digest == image.digest
    if start in KEEPERS and to in KEEPERS:
        assert copied == image
    back = parse_image_reference(f"oci-archive:{tmp_path}/back.tar")
    assert tool.push(copied.as_oci(), back).digest == image.digest  # compressed anew, to the same bytes


@pytest.mark.parametrize("to", PLACES)
def test_an_image_for_several_platforms(
    to: str, tool: RegistryTool, place: Callable[[str, str], str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    image = multi_image([small_image(tmp_path, FILES, platform=name) for name in ("linux/arm64", "linux/amd64")])
    reference = parse_image_reference(place(to, "several"))
    tool.push(image, reference)
    if to in KEEPERS:
        check_platform_support(image, reference)
        assert tool.load(reference).digest == image.digest
        assert not caplog.text
        return
    assert tool.inspect(reference).config == image.images[1].config
    assert f"{reference}: only one platform is supported here; writing linux/amd64" in caplog.text
    with pytest.raises(UnsupportedImage, match=r"only one platform is supported here") as caught:
        check_platform_support(image, reference)
    assert "platform" in str(caught.value.hint)
    check_platform_support(image.images[0], reference)


def test_how_the_result_is_named() -> None:
    digest = "sha256:" + "0" * 64
    for text in ("quay.io/a/b:1", "oci:a:1", "oci-archive:a.tar:1", "store:a:1"):
        named = pin_reference(parse_image_reference(text), digest)
        assert named.endswith(f":1@{digest}")
        parse_image_reference(named)
    for text in ("docker-archive:a.tar:x:1", "docker-daemon:x", "containers-storage:x"):
        assert pin_reference(parse_image_reference(text), digest) == text


def test_places_where_nothing_can_be_put(tool: RegistryTool, tmp_path: Path) -> None:
    image = small_image(tmp_path, FILES)
    for text in (f"docker-daemon:sha256:{'0' * 64}", f"docker-archive:{tmp_path}/a.tar:@0"):
        with pytest.raises(InvalidReference, match=text.partition(":")[0]):
            tool.push(image, parse_image_reference(text))


def test_images_that_an_engine_hasn_t(tool: RegistryTool, place: Callable[[str, str], str]) -> None:
    for kind in ("docker-daemon", "containers-storage"):
        reference = parse_image_reference(place(kind, "missing"))
        with pytest.raises(NotFound) as caught:
            tool.load(reference)
        assert caught.value.message.startswith(f"{reference}: ")
        assert str(caught.value.hint)


def test_an_image_of_a_daemon_by_its_id(tool: RegistryTool, place: Callable[[str, str], str], tmp_path: Path) -> None:
    image = small_image(tmp_path, FILES)
    tool.push(image, parse_image_reference(place("docker-daemon", "named")))
    assert tool.inspect(parse_image_reference(f"docker-daemon:{image.config.digest}")).config == image.config


def test_engines_that_are_not_there(tool: RegistryTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = small_image(tmp_path, FILES)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setenv("PATH", str(tmp_path))
    for text in ("docker-daemon:x", "containers-storage:x"):
        reference = parse_image_reference(text)
        for use in (lambda: tool.load(reference), lambda: tool.push(image, reference)):  # noqa: B023
            with pytest.raises(EngineUnavailable) as caught:
                use()
            assert str(caught.value.hint)


def test_what_the_daemon_refuses_to_load(place: Callable[[str, str], str], tool: RegistryTool, tmp_path: Path) -> None:
    image = Image.scratch().append([write_tar([b"no archive" * 1000], tmp_path)])
    with pytest.raises(EngineError, match="docker cannot load the image"):
        tool.push(image, parse_image_reference(place("docker-daemon", "bad")))


@pytest.mark.parametrize("media_type", [media_types.OCI_MANIFEST, media_types.DOCKER_MANIFEST])
@pytest.mark.parametrize("program", ["podman", "buildah", "skopeo"])
def test_any_program_moves_images_of_the_storage(
    program: str,
    media_type: str,
    tool: RegistryTool,
    place: Callable[[str, str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    image = small_image(tmp_path, FILES, labels={"a": "b"}, media_type=media_type)
    reference = parse_image_reference(place("containers-storage", program))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / program).symlink_to(require(program))
    with monkeypatch.context() as alone:
        alone.setenv("PATH", str(tmp_path / "bin"))
        assert tool.push(image, reference).digest == image.digest
        read = tool.inspect(reference)
        assert files_of(tool, read) == FILES
    assert (read.config, read.manifest.media_type) == (image.config, media_type)
    assert tool.push(read, Reference.parse(place("registry", program))).digest == image.digest
