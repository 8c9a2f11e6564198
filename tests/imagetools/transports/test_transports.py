"""Copies between registries, layouts, archives and engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import (
    EngineError,
    EngineUnavailable,
    InvalidReference,
    NotFound,
    UnsupportedImage,
)
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import LayerFile, write_layer, write_tar
from opmkit.imagetools.reference import Reference, parse_image_reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import ConfigChanges, media_types
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools.registry import RegistryTool
from opmkit.imagetools.transports import check_platform_support, pin_reference
from tests.kit.images import multi_image, small_image
from tests.kit.requirements import require

if TYPE_CHECKING:
    from collections.abc import Callable

    NewReference = Callable[[str, str], str]
    from pathlib import Path

    from tests.kit.engines import DockerDaemon, Engine
    from tests.kit.registry import Registry


FILES = {"manifests/a.yaml": b"a: 1\n", "é": b"\0" * 1000}
LOSSLESS = ("registry", "store", "oci", "oci-archive")
"""Kinds of places that store manifests and layers unchanged."""
KINDS = (*LOSSLESS, "docker-archive", "docker-daemon", "containers-storage")


@pytest.fixture
def tool(tmp_path: Path) -> RegistryTool:
    return RegistryTool(RegistryClient(RegistryOptions(plain_http=True)), ImageStore.open(tmp_path / "store"))


@pytest.fixture
def new_reference(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], str]:
    """Return a function that creates a unique reference from the kind of a place and a name."""
    unique = tmp_path.name.lower().replace("_", "-")

    def create(kind: str, suffix: str) -> str:
        name = f"quay.io/copies/{unique}-{suffix}:1"
        if kind == "registry":
            registry: Registry = request.getfixturevalue("registry")
            return f"docker://{registry.host}/copies/{unique}-{suffix}:1"
        if kind == "docker-daemon":
            daemon: DockerDaemon = request.getfixturevalue("docker_daemon")
            monkeypatch.setenv("DOCKER_HOST", daemon.url)
        if kind == "containers-storage":
            storage: Engine = request.getfixturevalue("container_storage")
            for variable, value in storage.settings.items():
                monkeypatch.setenv(variable, value)
        files = {"oci": f"{tmp_path}/{suffix}:1", "oci-archive": f"{tmp_path}/{suffix}.tar:1"}
        return f"{kind}:{files.get(kind) or (f'{tmp_path}/{suffix}.tar:{name}' if kind == 'docker-archive' else name)}"

    return create


def read_files(tool: RegistryTool, image: Image) -> dict[str, bytes]:
    return tool.read_tree(image, [""])


@pytest.mark.slow
@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_copy_between_all_kinds(
    source: str, target: str, tool: RegistryTool, new_reference: NewReference, tmp_path: Path
) -> None:
    base = small_image(tmp_path, FILES, labels={"a": "b"})
    image = base.append([write_layer([LayerFile("top", b"top")], tmp_path)], ConfigChanges(env={"X": "y"}))
    first, second = (
        parse_image_reference(new_reference(source, "source")),
        parse_image_reference(new_reference(target, "target")),
    )
    pushed = tool.push(image, first)
    copied = tool.push(tool.load(first), second)
    loaded = tool.inspect(second)
    assert read_files(tool, loaded) == {**FILES, "top": b"top"}
    assert loaded.config == image.config
    if source in LOSSLESS:
        assert pushed.digest == image.digest
    if source in LOSSLESS and target in (*LOSSLESS, "containers-storage"):
        assert copied.digest == image.digest
    if source in LOSSLESS and target in LOSSLESS:
        assert loaded == image
    archive = parse_image_reference(f"oci-archive:{tmp_path}/archive.tar")
    pushed = tool.push(loaded.in_format(media_types.OCI_MANIFEST), archive)
    assert pushed.digest == image.digest  # compression is reproducible


@pytest.mark.slow
@pytest.mark.parametrize("target", KINDS)
def test_multi_platform_image(
    target: str,
    tool: RegistryTool,
    new_reference: NewReference,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    image = multi_image([small_image(tmp_path, FILES, platform=name) for name in ("linux/arm64", "linux/amd64")])
    reference = parse_image_reference(new_reference(target, "index"))
    tool.push(image, reference)
    if target in LOSSLESS:
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


def test_pin_reference() -> None:
    digest = "sha256:" + "0" * 64
    for text in ("quay.io/a/b:1", "oci:a:1", "oci-archive:a.tar:1", "store:a:1"):
        pinned = pin_reference(parse_image_reference(text), digest)
        assert pinned.endswith(f":1@{digest}")
        parse_image_reference(pinned)
    for text in ("docker-archive:a.tar:x:1", "docker-daemon:x", "containers-storage:x"):
        assert pin_reference(parse_image_reference(text), digest) == text


def test_references_that_cannot_be_written(tool: RegistryTool, tmp_path: Path) -> None:
    image = small_image(tmp_path, FILES)
    for text in (f"docker-daemon:sha256:{'0' * 64}", f"docker-archive:{tmp_path}/a.tar:@0"):
        with pytest.raises(InvalidReference, match=text.partition(":")[0]):
            tool.push(image, parse_image_reference(text))


def test_image_not_found_in_an_engine(tool: RegistryTool, new_reference: NewReference) -> None:
    for kind in ("docker-daemon", "containers-storage"):
        reference = parse_image_reference(new_reference(kind, "missing"))
        with pytest.raises(NotFound) as caught:
            tool.load(reference)
        assert caught.value.message.startswith(f"{reference}: ")
        assert str(caught.value.hint)


def test_image_of_the_daemon_by_its_id(tool: RegistryTool, new_reference: NewReference, tmp_path: Path) -> None:
    image = small_image(tmp_path, FILES)
    tool.push(image, parse_image_reference(new_reference("docker-daemon", "named")))
    assert tool.inspect(parse_image_reference(f"docker-daemon:{image.config.digest}")).config == image.config


def test_unavailable_engines(tool: RegistryTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = small_image(tmp_path, FILES)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setenv("PATH", str(tmp_path))
    for text in ("docker-daemon:x", "containers-storage:x"):
        reference = parse_image_reference(text)
        for access in (lambda: tool.load(reference), lambda: tool.push(image, reference)):  # noqa: B023
            with pytest.raises(EngineUnavailable) as caught:
                access()
            assert str(caught.value.hint)


def test_image_that_the_daemon_rejects(new_reference: NewReference, tool: RegistryTool, tmp_path: Path) -> None:
    image = Image.scratch().append([write_tar([b"not a tar archive" * 1000], tmp_path)])
    with pytest.raises(EngineError, match="docker cannot load the image"):
        tool.push(image, parse_image_reference(new_reference("docker-daemon", "bad")))


@pytest.mark.slow
@pytest.mark.parametrize("media_type", [media_types.OCI_MANIFEST, media_types.DOCKER_MANIFEST])
@pytest.mark.parametrize("program", ["podman", "buildah", "skopeo"])
def test_programs_that_access_the_storage(
    program: str,
    media_type: str,
    tool: RegistryTool,
    new_reference: NewReference,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    image = small_image(tmp_path, FILES, labels={"a": "b"}, media_type=media_type)
    reference = parse_image_reference(new_reference("containers-storage", program))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / program).symlink_to(require(program))
    with monkeypatch.context() as only_one_program:
        only_one_program.setenv("PATH", str(tmp_path / "bin"))
        assert tool.push(image, reference).digest == image.digest
        read = tool.inspect(reference)
        assert read_files(tool, read) == FILES
    assert (read.config, read.manifest.media_type) == (image.config, media_type)
    assert tool.push(read, Reference.parse(new_reference("registry", program))).digest == image.digest
