"""The container tool ``none`` with a registry, layouts and the embedded store."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from opmkit.core.errors import LimitExceeded
from opmkit.core.private_files import UntrustedFile
from opmkit.imagetools.build_spec import BuildSpec
from opmkit.imagetools.errors import ImageToolsError, InsecureTransport, NotFound, RegistryUnavailable
from opmkit.imagetools.image import Image, ImageIndex
from opmkit.imagetools.image_format import ImageFormat
from opmkit.imagetools.layer import FoundFile, LayerFile, Limits, write_layer
from opmkit.imagetools.reference import LayoutReference, Reference, parse_image_reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RetryPolicy
from opmkit.imagetools.spec import ConfigChanges, IndexManifest, Platform, media_types
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools import open_tool
from opmkit.imagetools.tools.registry import RegistryTool
from tests.kit.content import noise

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.registry import Registry

FILES = {"manifests/csv.yaml": b"kind: ClusterServiceVersion\n", "metadata/annotations.yaml": b"annotations: {}\n"}
LABELS = {"operators.operatorframework.io.bundle.package.v1": "demo"}


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore.open(tmp_path / "store")


@pytest.fixture
def tool(store: ImageStore) -> RegistryTool:
    client = RegistryClient(RegistryOptions(plain_http=True), retry=RetryPolicy(sleep=lambda _: None))
    return RegistryTool(client, store)


@pytest.fixture
def reference(registry: Registry, request: pytest.FixtureRequest) -> Reference:
    return Reference(registry.host, f"tools/{request.node.name.partition('[')[0]}", "1.0")


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """An image with two layers, the lower one large."""
    base = write_layer([LayerFile("base/noise", noise(200_000, seed=21))], tmp_path)
    top = write_layer([LayerFile(path, content) for path, content in FILES.items()], tmp_path)
    return Image.scratch().append([base]).append([top], ConfigChanges(labels=LABELS))


def blob_reads(registry: Registry, reference: Reference) -> list[str]:
    """Return the digests of the blobs that were read from a repository."""
    blobs = f"/{reference.repository}/blobs/"
    requests = [request for request in registry.requests() if request.method == "GET" and blobs in request.path]
    return [request.path.rpartition("/")[2] for request in requests]


def test_push_and_read(tool: RegistryTool, image: Image, reference: Reference, tmp_path: Path) -> None:
    descriptor = tool.push(image, reference)
    assert descriptor.digest == image.digest
    assert tool.resolve(reference) == descriptor
    assert tool.inspect(reference) == image
    assert tool.load(reference) == image
    assert dict(tool.inspect(reference).labels) == LABELS
    assert tool.read_tree(reference, ["manifests", "metadata"]) == FILES
    tool.extract(reference, tmp_path / "out")
    assert (tmp_path / "out/manifests/csv.yaml").read_bytes() == FILES["manifests/csv.yaml"]
    assert (tmp_path / "out/base/noise").stat().st_size == 200_000


def test_inspect_reads_no_layers(tool: RegistryTool, image: Image, reference: Reference, registry: Registry) -> None:
    tool.push(image, reference)
    tool.inspect(reference)
    tool.resolve(reference)
    assert blob_reads(registry, reference) == [image.manifest.config.digest]


def test_layers_are_cached(
    tool: RegistryTool, image: Image, reference: Reference, registry: Registry, store: ImageStore
) -> None:
    tool.push(image, reference)
    pulled = tool.inspect(reference)
    for _ in range(2):
        assert tool.read_tree(pulled, ["manifests", "metadata"]) == FILES
    layers = [layer.digest for layer in image.manifest.layers]
    read_digests = blob_reads(registry, reference)
    assert sorted(read_digests) == sorted([*layers, image.manifest.config.digest])
    assert all(store.find_blob(layer) for layer in image.manifest.layers)
    assert store.list() == []


def test_store_that_is_not_writable(
    image: Image, reference: Reference, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    store = ImageStore.open(tmp_path / "file" / "store")
    tool = RegistryTool(RegistryClient(RegistryOptions(plain_http=True)), store)
    tool.push(image, reference)
    assert tool.read_tree(reference, ["manifests", "metadata"]) == FILES
    assert "without caching it" in caplog.text


def test_store_that_another_user_may_have_written(
    tool: RegistryTool, image: Image, reference: Reference, store: ImageStore, caplog: pytest.LogCaptureFixture
) -> None:
    missing = reference.with_tag("missing")
    tool.save(image, missing)
    tool.push(image, reference)
    store.layout.path.chmod(0o770)
    before = sorted(store.layout.path.rglob("*"))
    for _ in range(2):
        assert tool.read_tree(reference, ["manifests", "metadata"]) == FILES
        with pytest.raises(NotFound):
            tool.inspect(missing)
    assert tool.contains_name(tool.inspect(reference), "csv.yaml")
    assert [record.message for record in caplog.records] == [
        f"{store.layout.path}: not trusted: other users can write to it; continuing without the store"
    ]
    with pytest.raises(UntrustedFile):
        tool.save(image, missing)
    assert sorted(store.layout.path.rglob("*")) == before


def test_find_file_reads_no_lower_layers(
    tool: RegistryTool, image: Image, reference: Reference, registry: Registry, tmp_path: Path
) -> None:
    tool.push(image, reference)
    pushed = tool.inspect(reference)
    assert tool.find_file(pushed, "manifests/csv.yaml", tmp_path / "csv") == FoundFile(1, only_file=False)
    assert (tmp_path / "csv").read_bytes() == FILES["manifests/csv.yaml"]
    assert image.manifest.layers[0].digest not in blob_reads(registry, reference)
    assert tool.find_file(pushed, "base/noise", tmp_path / "noise") == FoundFile(0, only_file=True)
    assert tool.find_file(pushed, "base/none", tmp_path / "none") is None


def test_find_file_in_a_built_image(tool: RegistryTool, image: Image, tmp_path: Path) -> None:
    assert tool.find_file(image, "manifests/csv.yaml", tmp_path / "csv") == FoundFile(1, only_file=False)
    assert tool.read_tree(image, ["metadata"]) == {
        "metadata/annotations.yaml": FILES["metadata/annotations.yaml"],
    }


def test_limits(tool: RegistryTool, image: Image, tmp_path: Path) -> None:
    with pytest.raises(LimitExceeded):
        tool.read_tree(image, [""], Limits(entries=1))
    with pytest.raises(LimitExceeded):
        tool.extract(image, tmp_path / "out", limits=Limits(file_bytes=100))
    with pytest.raises(LimitExceeded):
        tool.find_file(image, "base/noise", tmp_path / "noise", Limits(file_bytes=100))


def test_layouts(tool: RegistryTool, image: Image, tmp_path: Path, store: ImageStore) -> None:
    reference = parse_image_reference(f"oci:{tmp_path}/layout:1.0")
    for put in (tool.push, tool.save):
        assert put(image, reference).digest == image.digest
    assert tool.resolve(reference).digest == image.digest
    assert tool.read_tree(reference, ["manifests"]) == {"manifests/csv.yaml": FILES["manifests/csv.yaml"]}
    assert tool.resolve(LayoutReference(tmp_path / "layout")).digest == image.digest
    assert not store.layout.path.exists()
    with pytest.raises(NotFound):
        tool.resolve(parse_image_reference(f"oci:{tmp_path}/layout:2.0"))


def test_saved_image_is_used_until_it_is_pushed(
    tool: RegistryTool, image: Image, reference: Reference, store: ImageStore, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(NotFound):
        tool.inspect(reference)
    tool.save(image, reference)
    assert [stored.name for stored in store.list()] == [str(reference)]
    with caplog.at_level(logging.WARNING):
        assert tool.inspect(reference) == image
    assert "embedded store" in caplog.text
    assert tool.read_tree(reference, ["manifests", "metadata"]) == FILES
    other = image.append(changes=ConfigChanges(labels={"from": "registry"}))
    tool.push(other, reference)
    assert tool.inspect(reference).digest == other.digest


def test_saved_image_of_an_unavailable_registry(tool: RegistryTool, image: Image) -> None:
    reference = Reference("registry.invalid", "team/app")
    with pytest.raises(RegistryUnavailable):
        tool.resolve(reference)
    tool.save(image, reference)
    assert tool.resolve(reference).digest == image.digest
    with pytest.raises(RegistryUnavailable):
        tool.resolve(reference.with_tag("other"))


def test_saved_image_of_a_registry_that_denies_access(
    tool: RegistryTool, image: Image, basic_registry: Registry
) -> None:
    reference = Reference(basic_registry.host, "team/app", "1.0")
    tool.save(image, reference)
    assert tool.load(reference) == image


def test_saved_image_is_not_used_after_a_tls_failure(store: ImageStore, image: Image, registry: Registry) -> None:
    tool = RegistryTool(RegistryClient(RegistryOptions()), store)
    reference = Reference(registry.host, "tools/https", "1.0")
    tool.save(image, reference)
    with pytest.raises(InsecureTransport):
        tool.resolve(reference)


def test_push_a_saved_image(tool: RegistryTool, image: Image, reference: Reference) -> None:
    tool.save(image, reference)
    assert tool.push(tool.load(reference), reference).digest == image.digest
    assert tool.resolve(reference).digest == image.digest


def test_layers_of_the_base_are_mounted(
    image: Image, reference: Reference, registry: Registry, store: ImageStore, tmp_path: Path
) -> None:
    client = RegistryClient(RegistryOptions(plain_http=True))
    tool = RegistryTool(client, store)
    tool.push(image, reference)
    before = client.transfer_stats
    added = write_layer([LayerFile("database/index.db", b"new")], tmp_path)
    target = Reference(registry.host, f"{reference.repository}/target", "2.0")
    tool.push(tool.inspect(reference).append([added]), target)
    assert client.transfer_stats.read - before.read < 5000
    assert client.transfer_stats.written - before.written < 5000
    assert len(tool.inspect(target).manifest.layers) == 3


def test_all_platforms(tool: RegistryTool, image: Image, reference: Reference) -> None:
    arm = Image.scratch(Platform("linux", "arm64"))
    images = (image, arm)
    manifests = [replace(image.manifest.descriptor, platform=image.config.platform) for image in images]
    multi = ImageIndex(IndexManifest.build(manifests), images)
    assert tool.push(multi, reference) == multi.index.descriptor
    assert tool.load(reference) == multi
    assert tool.inspect(reference, Platform("linux", "arm64")) == arm
    assert tool.inspect(reference, Platform("linux", "amd64")) == image
    with pytest.raises(NotFound):
        tool.inspect(reference, Platform("windows", "amd64"))


def test_docker_format_is_retained(tool: RegistryTool, reference: Reference, tmp_path: Path) -> None:
    layer = write_layer([LayerFile("manifests/a", b"a")], tmp_path)
    image = Image.scratch(media_type=media_types.DOCKER_MANIFEST).append([layer])
    assert tool.push(image, reference).media_type == media_types.DOCKER_MANIFEST
    assert tool.read_tree(reference, ["manifests"]) == {"manifests/a": b"a"}


def test_reference_without_a_tag(tool: RegistryTool, image: Image, reference: Reference) -> None:
    bare = Reference(reference.registry, reference.repository)
    tool.push(image, bare)
    assert tool.resolve(bare.with_tag("latest")).digest == image.digest
    assert tool.resolve(bare.with_digest(image.digest)).digest == image.digest


def test_open_tool(store: ImageStore) -> None:
    options = RegistryOptions()
    for name, opened in {"none": "none", "registry": "none", "docker": "docker", "podman": "podman"}.items():
        assert open_tool(name, options=options, store=store).name == opened
    with pytest.raises(ImageToolsError, match='unknown container tool "crane"') as caught:
        open_tool("crane", options=options, store=store)
    assert "docker, podman, buildah" in str(caught.value.hint)


def test_build(tool: RegistryTool, image: Image, reference: Reference, tmp_path: Path) -> None:
    spec = BuildSpec(tuple(LayerFile(path, content) for path, content in FILES.items()), labels=LABELS, cmd=("serve",))
    scratch = BuildSpec.build_on(spec, Image.scratch(), tmp_path)
    assert tool.build(spec, None, [reference, reference.with_tag("also")]) == scratch.digest
    assert tool.digest(reference) == tool.digest(reference.with_tag("also")) == scratch.digest
    base = reference.with_tag("base")
    tool.push(image, base)
    assert tool.build(spec, base, [reference], push=True) == spec.build_on(image, tmp_path).digest
    assert tool.copy_file(reference, "base/noise", tmp_path / "noise")
    assert not tool.copy_file(reference, "base/none", tmp_path / "none")


def test_build_in_docker_format(store: ImageStore, image: Image, reference: Reference) -> None:
    options = RegistryOptions(plain_http=True)
    tool = open_tool("none", options=options, store=store, image_format=ImageFormat.DOCKER)
    base = reference.with_tag("base")
    assert isinstance(tool, RegistryTool)
    tool.push(image, base)
    tool.build(BuildSpec((LayerFile("a", b"a"),)), base, [reference], push=True)
    manifest = tool.inspect(reference).manifest
    descriptors = (manifest.descriptor, *manifest.children)
    assert all(media_types.is_docker(descriptor.media_type) for descriptor in descriptors)


def test_package_does_not_import_clients() -> None:
    script = "import sys, opmkit.imagetools.tools; print(*{'requests', 'oras', 'urllib3'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""
