"""Building, pushing and reading images with docker, podman and buildah."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from opmkit.core.errors import LimitExceeded, OpmkitError
from opmkit.imagetools.build_spec import BuildSpec
from opmkit.imagetools.errors import EngineError, ImageToolsError, NotFound
from opmkit.imagetools.image import Image
from opmkit.imagetools.image_format import ImageFormat
from opmkit.imagetools.layer import LayerFile, Limits
from opmkit.imagetools.reference import Reference, parse_image_reference
from opmkit.imagetools.registry import RegistryClient
from opmkit.imagetools.spec import media_types
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools.registry import RegistryTool
from tests.imagetools.engines.helpers import (
    BUILD_SPEC,
    ENGINES,
    FILES,
    HTTP,
    load_from_registry,
    open_engine,
    push_image,
    use_engine,
)
from tests.kit.engines import skopeo
from tests.kit.images import small_image

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.tools.engine import EngineTool
    from tests.kit.registry import Registry


def test_build_and_push(tool: EngineTool, reference: Reference, tmp_path: Path) -> None:
    digest = tool.build(BUILD_SPEC, None, [reference, reference.with_tag("also")], push=True)
    expected = BUILD_SPEC.build_on(Image.scratch(), tmp_path)
    pushed = load_from_registry(reference)
    assert pushed.digest == digest == load_from_registry(reference.with_tag("also")).digest
    in_engine = tool.inspect(reference)
    for image in (pushed, in_engine):
        assert image.labels == expected.labels
        assert image.config.entrypoint == expected.config.entrypoint
        assert image.config.cmd == expected.config.cmd
        assert image.config.exposed_ports == expected.config.exposed_ports
    assert len(pushed.manifest.layers) == 1
    assert tool.read_tree(reference, ["manifests", "metadata", "elsewhere"]) == FILES


def test_read_files(tool: EngineTool, reference: Reference, tmp_path: Path) -> None:
    push_image(small_image(tmp_path, {**FILES, "deep/er/file": b"here", "etc/hosts": b"mine"}), reference)
    assert tool.read_tree(reference, ["deep/er"]) == {"deep/er/file": b"here"}
    tool.extract(reference, tmp_path / "out")
    out = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*")} - {"etc", "etc/hosts"}
    assert out == {"manifests", "metadata", *FILES, "deep", "deep/er", "deep/er/file"}
    assert (tmp_path / "out/manifests/csv.yaml").read_bytes() == FILES["manifests/csv.yaml"]
    assert tool.copy_file(reference, "/deep/er/file", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"here"
    assert not tool.copy_file(reference, "deep/er/none", tmp_path / "none")
    assert not (tmp_path / "none").exists()
    with pytest.raises(LimitExceeded):
        tool.read_tree(reference, ["deep"], Limits(file_bytes=3))


def test_extract_without_files_of_the_engine(tool: EngineTool, reference: Reference, tmp_path: Path) -> None:
    tool.build(BUILD_SPEC, None, [reference])
    tool.extract(reference, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["manifests", "metadata"]


def test_containers_are_removed(
    tool: EngineTool, engine: str, reference: Reference, request: pytest.FixtureRequest
) -> None:
    tool.build(BUILD_SPEC, None, [reference])
    tool.read_tree(reference, ["manifests"])
    with pytest.raises(LimitExceeded):
        tool.read_tree(reference, ["manifests"], Limits(entries=0))
    started = request.getfixturevalue("docker_daemon" if engine == "docker" else "container_storage")
    listing = {"docker": "docker ps -aq", "podman": "podman ps -aq --external", "buildah": "buildah containers -q"}
    command = listing[engine].split()
    done = subprocess.run(command, env=started.environment, capture_output=True, text=True, check=True)
    assert done.stdout == ""


def test_layers_of_the_base_are_reused(
    tool: EngineTool, reference: Reference, registry: Registry, tmp_path: Path
) -> None:
    base = reference.with_tag("base")
    push_image(small_image(tmp_path, {"bin/opm": os.urandom(50_000)}, labels={"vendor": "someone"}), base)
    digest = tool.build(BUILD_SPEC, base, [reference], push=True)
    base_image, image = load_from_registry(base), load_from_registry(reference)
    assert image.digest == digest
    base_layers = [layer.digest for layer in base_image.manifest.layers]
    assert [layer.digest for layer in image.manifest.layers[:-1]] == base_layers
    assert image.labels["vendor"] == "someone"
    assert tool.copy_file(reference, "bin/opm", tmp_path / "opm")
    assert (tmp_path / "opm").stat().st_size == 50_000
    assert image.labels["package.v1"] == "demo"


def test_base_that_was_not_pushed(tool: EngineTool, reference: Reference, caplog: pytest.LogCaptureFixture) -> None:
    tool.build(BUILD_SPEC, None, [reference])
    second = reference.with_tag("2.0")
    tool.build(
        structs.replace(BUILD_SPEC, files=(LayerFile("more", b""),), entrypoint=None, labels={}), reference, [second]
    )
    assert "using the image with this name in the storage of" in caplog.text
    assert tool.inspect(second).labels["package.v1"] == "demo"
    assert tool.inspect(second).config.entrypoint == ("/bin/opm",)
    assert tool.read_tree(second, ["manifests", "more"]) == {
        "manifests/csv.yaml": FILES["manifests/csv.yaml"],
        "more": b"",
    }


def test_each_tool_resolves_tags_again(engine: str, reference: Reference, tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        push_image(small_image(tmp_path, {"manifests/a": content}), reference)
        assert open_engine(engine, HTTP).read_tree(reference, ["manifests"]) == {"manifests/a": content}


def test_reference_with_digest(tool: EngineTool, reference: Reference, tmp_path: Path) -> None:
    image = small_image(tmp_path, {"manifests/a": b"a"})
    push_image(image, reference)
    push_image(small_image(tmp_path, {"manifests/a": b"b"}), reference)
    by_digest = replace(reference, digest=image.digest)
    assert tool.read_tree(by_digest, ["manifests"]) == {"manifests/a": b"a"}
    assert tool.digest(by_digest) != tool.digest(reference)
    assert tool.digest(by_digest) == tool.digest(reference.with_digest(image.digest))
    tool.build(BUILD_SPEC, by_digest, [reference.with_tag("on")])
    assert "manifests/a" in tool.read_tree(reference.with_tag("on"), ["manifests"])


@pytest.mark.parametrize("engine", ["podman", "buildah"], indirect=True)
@pytest.mark.parametrize("image_format", ImageFormat)
def test_formats(engine: str, image_format: ImageFormat, registry: Registry) -> None:
    reference = Reference(registry.host, f"engines/{engine}/formats", image_format)
    open_engine(engine, HTTP, image_format).build(BUILD_SPEC, None, [reference], push=True)
    image = load_from_registry(reference)
    assert image.manifest.media_type == image_format.manifest_type
    assert image.manifest.config.media_type == media_types.convert_for(
        image_format.manifest_type, media_types.OCI_CONFIG
    )
    if image_format is ImageFormat.OCI:
        assert image.manifest.annotations["note"] == "a b"
    assert json.loads(skopeo("inspect", "--tls-verify=false", f"docker://{reference}"))["Digest"] == image.digest


@pytest.mark.parametrize("engine", ["podman", "buildah"], indirect=True)
def test_reproducible_builds(tool: EngineTool, reference: Reference) -> None:
    spec = structs.replace(
        BUILD_SPEC, labels={str(number): "" for number in range(20)}
    )  # more than one order is possible
    tool.build(spec, None, [reference], push=True)
    time.sleep(1.1)  # the time in seconds must not be in the image
    tool.build(spec, None, [reference.with_tag("later")], push=True)
    first, later = load_from_registry(reference), load_from_registry(reference.with_tag("later"))
    assert (first.config.raw, first.manifest.raw) == (later.config.raw, later.manifest.raw)
    tool.build(structs.replace(spec, created=86400), None, [reference.with_tag("dated")], push=True)
    assert load_from_registry(reference.with_tag("dated")).config.created.startswith("1970-01-02T00:00:00")


def test_engines_read_images_of_each_other(
    registry: Registry, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ENGINES:
        use_engine(name, request, monkeypatch)
    for builder in ENGINES:
        reference = Reference(registry.host, "engines/each-other", builder)
        open_engine(builder, HTTP).build(BUILD_SPEC, None, [reference], push=True)
        for reader in ENGINES:
            assert open_engine(reader, HTTP).read_tree(reference, ["manifests", "metadata"]) == FILES


def test_missing_images(tool: EngineTool, reference: Reference) -> None:
    for missing in (reference.with_tag("none"), reference.with_digest(f"sha256:{'0' * 64}")):
        with pytest.raises(NotFound, match=str(missing)) as caught:
            tool.read_tree(missing, ["manifests"])
        assert str(caught.value.hint)
    with pytest.raises(NotFound):
        tool.build(BUILD_SPEC, reference.with_tag("none"), [reference])


def test_failed_build_reports_its_log(tool: EngineTool, engine: str, reference: Reference) -> None:
    with pytest.raises(EngineError, match=f"{reference}: {engine} build failed: ") as caught:
        tool.build(structs.replace(BUILD_SPEC, exposed_ports=("${port",)), None, [reference])
    assert "COPY rootfs/ /" in caught.value.message
    assert len(caught.value.message) < 6000


def test_file_name_too_long(tool: EngineTool, reference: Reference) -> None:
    with pytest.raises(OpmkitError, match=r"(?i)name too long|bytes per file name"):
        tool.build(BuildSpec((LayerFile("manifests/" + 300 * "x", b""),)), None, [reference])


def test_images_in_layouts(tool: EngineTool, reference: Reference, tmp_path: Path) -> None:
    layout = parse_image_reference(f"oci:{tmp_path}/layout:1")
    RegistryTool(RegistryClient(HTTP), ImageStore.open()).build(BUILD_SPEC, None, [layout])
    assert tool.inspect(layout).labels["package.v1"] == "demo"
    assert tool.read_tree(layout, ["manifests", "metadata"]) == FILES
    tool.extract(layout, tmp_path / "all")
    first = next(iter(FILES))
    assert tool.copy_file(layout, first, tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "all" / first).read_bytes() == FILES[first]
    with pytest.raises(ImageToolsError, match="not the name of an image in a registry"):
        tool.build(BUILD_SPEC, None, [layout])
    with pytest.raises(ImageToolsError, match="not the name of an image in a registry"):
        tool.build(BUILD_SPEC, layout, [reference])
    with pytest.raises(ImageToolsError, match="cannot store a new image by digest"):
        tool.build(BUILD_SPEC, None, [reference.with_digest(f"sha256:{'0' * 64}")])
