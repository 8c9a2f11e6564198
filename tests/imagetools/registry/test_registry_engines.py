"""Images pushed by podman, buildah and docker, and images pushed for skopeo and podman."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from opmkit.imagetools.image import Image, ImageIndex
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import ConfigChanges, IndexManifest, Platform, media_types
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools.registry import RegistryTool
from tests.kit.engines import DockerDaemon, Engine, skopeo

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.registry import Registry

CSV = b"kind: ClusterServiceVersion\nmetadata: {name: demo.v1.0.0}\n"
DOCKERFILE = """FROM scratch
LABEL package=demo
COPY manifests /manifests/
COPY metadata /metadata/
"""


@pytest.fixture
def tool(tmp_path: Path) -> RegistryTool:
    return RegistryTool(RegistryClient(RegistryOptions(plain_http=True)), ImageStore.open(tmp_path / "store"))


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """Return the build context of a bundle image."""
    directory = tmp_path / "context"
    for name, content in (("manifests/csv.yaml", CSV), ("metadata/annotations.yaml", b"annotations: {}\n")):
        (directory / name).parent.mkdir(parents=True)
        (directory / name).write_bytes(content)
    (directory / "Dockerfile").write_text(DOCKERFILE)
    return directory


def check_image(tool: RegistryTool, reference: Reference, media_type: str) -> None:
    descriptor = tool.resolve(reference)
    assert descriptor.media_type == media_type
    inspected = json.loads(skopeo("inspect", "--tls-verify=false", f"docker://{reference}"))
    assert descriptor.digest == inspected["Digest"]
    image = tool.inspect(reference)
    assert image.labels["package"] == "demo"
    assert dict(image.labels) == inspected["Labels"]
    tree = tool.read_tree(image, ["manifests", "metadata"])
    assert tree == {"manifests/csv.yaml": CSV, "metadata/annotations.yaml": b"annotations: {}\n"}


@pytest.mark.parametrize("media_type", [media_types.OCI_MANIFEST, media_types.DOCKER_MANIFEST])
@pytest.mark.parametrize(("program", "build"), [("podman", "build"), ("buildah", "bud")])
def test_pushed_by_podman_and_buildah(
    registry: Registry, tool: RegistryTool, context: Path, program: str, build: str, media_type: str
) -> None:
    form = "docker" if media_types.is_docker(media_type) else "oci"
    reference = Reference(registry.host, f"engines/{program}", form)
    with Engine(program, registry.host) as engine:
        engine.run(build, "--format", form, "--tag", str(reference), str(context))
        engine.run("push", str(reference))
    check_image(tool, reference, media_type)


def test_pushed_by_docker(registry: Registry, tool: RegistryTool, context: Path) -> None:
    reference = Reference(registry.host, "engines/docker", "1.0")
    with DockerDaemon() as docker:
        docker.run("build", "--tag", str(reference), str(context))
        docker.run("push", str(reference))
    check_image(tool, reference, media_types.DOCKER_MANIFEST)


def test_manifest_list_pushed_by_podman(registry: Registry, tool: RegistryTool, context: Path) -> None:
    reference = Reference(registry.host, "engines/list", "1.0")
    with Engine("podman", registry.host) as engine:
        platforms = "linux/amd64,linux/arm64"
        engine.run("build", "--no-cache", "--platform", platforms, "--manifest", "demo", str(context))
        engine.run("manifest", "push", "--all", "demo", f"docker://{reference}")
    index = tool.load(reference)
    assert isinstance(index, ImageIndex)
    assert sorted(str(image.config.platform) for image in index.images) == ["linux/amd64", "linux/arm64"]
    arm = tool.inspect(reference, Platform("linux", "arm64"))
    assert tool.read_tree(arm, ["manifests"]) == {"manifests/csv.yaml": CSV}


@pytest.mark.parametrize("media_type", [media_types.OCI_MANIFEST, media_types.DOCKER_MANIFEST])
def test_read_by_skopeo(registry: Registry, tool: RegistryTool, tmp_path: Path, media_type: str) -> None:
    form = "docker" if media_types.is_docker(media_type) else "oci"
    reference = Reference(registry.host, "engines/opmkit", form)
    layer = write_layer([LayerFile("manifests/csv.yaml", CSV)], tmp_path)
    image = Image.scratch(media_type=media_type).append([layer], ConfigChanges(labels={"package": "demo"}))
    tool.push(image, reference)
    inspected = json.loads(skopeo("inspect", "--tls-verify=false", f"docker://{reference}"))
    assert inspected["Digest"] == image.digest
    assert inspected["Labels"] == {"package": "demo"}
    assert inspected["Layers"] == [layer.descriptor.digest]
    skopeo("copy", "--src-tls-verify=false", f"docker://{reference}", f"oci:{tmp_path}/copy:1")
    assert (tmp_path / "copy" / "index.json").exists()


def test_index_pulled_by_podman(registry: Registry, tool: RegistryTool, tmp_path: Path) -> None:
    reference = Reference(registry.host, "engines/index", "1.0")
    layer = write_layer([LayerFile("manifests/csv.yaml", CSV)], tmp_path)
    images = [Image.scratch(Platform("linux", name)).append([layer]) for name in ("amd64", "arm64")]
    manifests = [replace(image.manifest.descriptor, platform=image.config.platform) for image in images]
    tool.push(ImageIndex(IndexManifest.build(manifests), tuple(images)), reference)
    with Engine("podman", registry.host) as engine:
        engine.run("pull", "--arch", "arm64", str(reference))
        assert engine.run("image", "inspect", "--format", "{{.Architecture}} {{.Digest}}", str(reference)) in {
            f"arm64 {images[1].digest}",
            f"arm64 {tool.resolve(reference).digest}",
        }
