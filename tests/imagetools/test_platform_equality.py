"""Comparison of the images for all platforms of an image index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.image import MAX_PLATFORMS
from opmkit.imagetools.layer import MEMORY_LIMITS
from opmkit.imagetools.platform_equality import ComparedContent
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import Descriptor, IndexManifest, Platform, media_types
from opmkit.imagetools.store import ImageStore, LayoutRepository
from opmkit.imagetools.tools.registry import RegistryTool
from tests.kit.content import put_image
from tests.kit.images import multi_image, small_image

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opmkit.imagetools.image import Image

FILES = {"manifests/csv.yaml": b"kind: ClusterServiceVersion\n", "metadata/annotations.yaml": b"annotations: {}\n"}
ATTESTATION = {"vnd.docker.reference.type": "attestation-manifest"}
CONTENT = ComparedContent("io.bundle.", lambda labels: ["manifests", *labels.values()], MEMORY_LIMITS)


class Layout:
    """A layout with the images of an index, and the tool that reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.repository = LayoutRepository(path / "layout")
        self.tool = RegistryTool(RegistryClient(RegistryOptions()), ImageStore.open(path / "store"))

    def image(self, platform: str, files: dict[str, bytes] | None = None, **labels: str) -> Image:
        labels = {name.replace("_", "."): value for name, value in labels.items()}
        return small_image(self.path, FILES if files is None else files, labels=labels, platform=platform)

    def push(self, *images: Image) -> tuple[Descriptor, ...]:
        """Store the index of images, and return the descriptors in it."""
        index = multi_image(images)
        self.tool.push(index, parse_image_reference(f"oci:{self.path / 'layout'}:1"))
        return index.index.manifests

    def put_index(self, manifests: Sequence[Descriptor]) -> None:
        self.repository.put_manifest(IndexManifest.build(manifests), "1")

    def check(self) -> dict[str, bytes]:
        """Return the files that are read after the check."""
        reference = parse_image_reference(f"oci:{self.path / 'layout'}:1")
        return self.tool.read_tree(self.tool.require_equal_platforms(reference, CONTENT), ["manifests", "metadata"])


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def test_equal_layers_are_not_read(layout: Layout) -> None:
    layout.push(layout.image("linux/amd64"), layout.image("linux/arm64", architecture="arm64"))
    assert layout.check() == FILES


def test_other_layers_with_equal_files(layout: Layout) -> None:
    others = {**FILES, "usr/bin/tool": b"for arm64", "metadata/annotations.yaml": b"read by nobody here\n"}
    layout.push(layout.image("linux/amd64"), layout.image("linux/arm64", others))
    assert layout.check() == FILES


@pytest.mark.parametrize(
    "changed",
    [
        {**FILES, "manifests/role.yaml": b"kind: ClusterRole\n"},
        {**FILES, "manifests/csv.yaml": b"kind: Role\n"},
        {"manifests/csv.yaml/x": b""},
        {},
    ],
    ids=["added", "changed", "directory", "removed"],
)
@pytest.mark.parametrize("first", ["linux/amd64", "linux/s390x"])
def test_other_files(layout: Layout, first: str, changed: dict[str, bytes]) -> None:
    layout.push(layout.image(first), layout.image("linux/arm64"), layout.image("linux/ppc64le", changed))
    message = f"image 1 for {first} and image 3 for linux/ppc64le differ in manifests/"
    with pytest.raises(ImageToolsError, match=message):
        layout.check()


def test_directories_that_labels_name(layout: Layout) -> None:
    label = {"io_bundle_manifests": "operator"}
    files = {**FILES, "operator/a.yaml": b"a"}
    layout.push(layout.image("linux/amd64", files, **label), layout.image("linux/arm64", FILES, **label))
    with pytest.raises(ImageToolsError, match=r"differ in operator/a\.yaml"):
        layout.check()


def test_other_labels(layout: Layout) -> None:
    layout.push(layout.image("linux/amd64", io_bundle_package="a"), layout.image("linux/arm64", io_bundle_package="b"))
    with pytest.raises(ImageToolsError, match=r"differ in the label io\.bundle\.package"):
        layout.check()


def test_attestations_are_no_platforms(layout: Layout) -> None:
    manifests = layout.push(layout.image("linux/amd64"), layout.image("linux/arm64"))
    statement = put_image(layout.repository, "statement", b"{}").descriptor
    unknown = replace(statement, platform=Platform("unknown", "unknown"), annotations=ATTESTATION)
    layout.put_index([unknown, *manifests])
    assert layout.check() == FILES


@pytest.mark.parametrize("changes", [{"annotations": ATTESTATION}, {"artifact_type": "application/vnd.a"}])
def test_images_that_are_called_artifacts_count(layout: Layout, changes: dict[str, object]) -> None:
    """A container runtime selects them, as it only reads the platform."""
    first, second = layout.push(layout.image("linux/amd64"), layout.image("linux/arm64", {"manifests/a": b""}))
    layout.put_index([first, replace(second, **changes)])
    with pytest.raises(ImageToolsError, match="differ in manifests/a"):
        layout.check()


def test_images_without_a_platform_count(layout: Layout) -> None:
    first, second = layout.push(layout.image("linux/amd64"), layout.image("linux/arm64", {"manifests/a": b""}))
    layout.put_index([first, replace(second, platform=None)])
    with pytest.raises(ImageToolsError, match="image 2 for any platform differ in manifests/a"):
        layout.check()


def test_nested_indexes_are_rejected(layout: Layout) -> None:
    (manifest,) = layout.push(layout.image("linux/amd64"))
    inner = IndexManifest.build([manifest])
    layout.repository.put_manifest(inner, None)
    layout.put_index([manifest, replace(inner.descriptor, platform=Platform("linux", "arm64"))])
    with pytest.raises(ImageToolsError, match="unsupported nested index"):
        layout.check()


def test_missing_images_are_named(layout: Layout) -> None:
    manifest = layout.push(layout.image("linux/amd64"))[0]
    layout.put_index([manifest])
    index = IndexManifest.build([manifest, Descriptor(media_types.OCI_MANIFEST, f"sha256:{'0' * 64}", 9)])
    (layout.path / "layout" / "blobs" / "sha256" / index.digest[7:]).write_bytes(index.raw)
    path = layout.path / "layout" / "index.json"
    text = path.read_text()
    old = layout.repository.resolve("1")
    path.write_text(text.replace(old.digest, index.digest).replace(f'"size":{old.size}', f'"size":{len(index.raw)}'))
    with pytest.raises(ImageToolsError, match=r"image 2 for any platform: .*000 not found"):
        layout.check()


def test_number_of_images_is_limited(layout: Layout) -> None:
    (manifest,) = layout.push(layout.image("linux/amd64"))
    layout.put_index([manifest] * MAX_PLATFORMS)
    assert layout.check() == FILES
    layout.put_index([manifest] * (MAX_PLATFORMS + 1))
    with pytest.raises(ImageToolsError, match="33 images exceed the limit of 32"):
        layout.check()


def test_image_for_one_platform(layout: Layout) -> None:
    layout.tool.push(layout.image("linux/arm64"), parse_image_reference(f"oci:{layout.path / 'layout'}:1"))
    assert layout.check() == FILES
