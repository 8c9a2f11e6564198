"""Images as values: appending, converting and loading."""

from __future__ import annotations

import io
import json
import time
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import InvalidImage, NotFound, UnsupportedImage
from opmkit.imagetools.image import Image, ImageIndex, load_image, load_image_or_index
from opmkit.imagetools.layer import LayerFile, read_tree, write_layer
from opmkit.imagetools.spec import (
    ConfigChanges,
    Descriptor,
    IndexManifest,
    Manifest,
    Platform,
    media_types,
    sha256_digest,
)
from opmkit.imagetools.spec.manifest import MAX_INDEX_MANIFESTS
from opmkit.imagetools.store import LayoutRepository
from tests.kit.images import multi_image, small_image

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from opmkit.imagetools.layer import Layer

EMPTY_CONFIG = Descriptor("application/vnd.example.config+json", sha256_digest(b"{}"), 2)


class LayersUnreadable(LayoutRepository):
    """A layout whose layers must not be read."""

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        assert "layer" not in descriptor.media_type
        assert "rootfs" not in descriptor.media_type
        return super().open_blob(descriptor)


@pytest.fixture
def layer(tmp_path: Path) -> Layer:
    return write_layer([LayerFile("database/index.db", b"db")], tmp_path)


def put(repository: LayoutRepository, content: bytes, media_type: str = "x") -> Descriptor:
    descriptor = Descriptor(media_type, sha256_digest(content), len(content))
    repository.put_blob(descriptor, lambda: io.BytesIO(content))
    return descriptor


@pytest.mark.parametrize("manifest_type", [media_types.OCI_MANIFEST, media_types.DOCKER_MANIFEST])
def test_append_preserves_the_format_and_reads_no_layer(manifest_type: str, layer: Layer, tmp_path: Path) -> None:
    base = small_image(tmp_path, {"a": b"1"}, labels={"x": "1"}, media_type=manifest_type)
    copy_image(base, LayoutRepository(tmp_path / "base"), "1")
    loaded = load_image(LayersUnreadable(tmp_path / "base"), "1")
    assert loaded == base
    changes = ConfigChanges(labels={"y": "2"}, cmd=["serve"])
    image = loaded.append([layer], changes, annotations={"a": "b"})
    assert image.manifest.media_type == manifest_type
    assert image.labels == {"x": "1", "y": "2"}
    assert image.manifest.annotations == {"a": "b"}
    assert image.manifest.layers[:-1] == base.manifest.layers
    assert image.config.diff_ids == (*base.config.diff_ids, layer.diff_id)
    assert len(image.config.history) == 2
    docker = manifest_type == media_types.DOCKER_MANIFEST
    assert image.manifest.config.media_type == (media_types.DOCKER_CONFIG if docker else media_types.OCI_CONFIG)
    expected = media_types.DOCKER_LAYER_GZIP if docker else media_types.OCI_LAYER_GZIP
    assert {layer.media_type for layer in image.manifest.layers} == {expected}
    assert image.manifest.config.digest == image.config.digest == sha256_digest(image.config.raw)


def test_digest_is_reproducible(layer: Layer, tmp_path: Path) -> None:
    first = Image.scratch().append(
        [layer], ConfigChanges(labels={"a": "1", "b": "2"}), annotations={"c": "3", "d": "4"}
    )
    (tmp_path / "2").mkdir()
    copy = write_layer([LayerFile("database/index.db", b"db")], tmp_path / "2")
    second = Image.scratch().append(
        [copy], ConfigChanges(labels={"b": "2", "a": "1"}), annotations={"d": "4", "c": "3"}
    )
    assert first == second
    assert first.digest == second.digest
    assert first.digest != Image.scratch().append([layer], created="2020-01-01T00:00:00Z").digest


def test_read_appended_layers(layer: Layer, tmp_path: Path) -> None:
    copy_image(small_image(tmp_path, {"a": b"1"}), LayoutRepository(tmp_path / "base"), "1")
    image = load_image(LayoutRepository(tmp_path / "base"), "1").append([layer])
    assert read_tree(reversed(image.layers), [""]) == {"a": b"1", "database/index.db": b"db"}
    stripped = image.without_layers({1})
    assert read_tree(reversed(stripped.layers), [""]) == {"a": b"1"}
    assert len(stripped.config.history) == len(stripped.config.diff_ids) == 1
    assert stripped.append([layer]).digest == image.digest


def test_missing_layer(layer: Layer) -> None:
    image = Image(Manifest.build(EMPTY_CONFIG, [layer.descriptor]), Image.scratch().config)
    with pytest.raises(NotFound, match=layer.descriptor.digest):
        image.open_blob(layer.descriptor)


def test_append_to_all_platforms_of_an_index(layer: Layer, tmp_path: Path) -> None:
    platforms = ["linux/amd64", "linux/arm64/v8", "linux/s390x"]
    images = [small_image(tmp_path, {"bin": name.encode()}, platform=name) for name in platforms]
    base = multi_image(images, media_types.DOCKER_LIST)
    copy_image(base, LayoutRepository(tmp_path / "base"), "1")
    loaded = load_image_or_index(LayersUnreadable(tmp_path / "base"), "1")
    assert isinstance(loaded, ImageIndex)
    image = loaded.append([layer], ConfigChanges(labels={"a": "b"}), annotations={"base": "x"})
    assert image.index.media_type == media_types.DOCKER_LIST
    assert image.index.annotations == {"base": "x"}
    assert [str(entry.platform) for entry in image.index.manifests] == platforms
    assert [part.digest for part in image.index.manifests] == [part.digest for part in image.images]
    assert {part.labels["a"] for part in image.images} == {"b"}
    assert image.select(Platform.parse("linux/s390x")).config.architecture == "s390x"
    assert image.without_layers({1}).images[0].config.diff_ids == images[0].config.diff_ids
    arm64 = load_image(LayoutRepository(tmp_path / "base"), "1", Platform.parse("linux/arm64"))
    assert arm64.digest == images[1].digest


def test_attestations_are_copied_but_not_appended_to(layer: Layer, tmp_path: Path) -> None:
    repository = LayoutRepository(tmp_path / "base")
    image = small_image(tmp_path, {"a": b"1"})
    copy_image(image, repository, None)
    attestation = Manifest.build(put(repository, b"{}"), [put(repository, b"signed")])
    repository.put_manifest(attestation)
    attestation_entry = Descriptor(
        attestation.media_type, attestation.digest, len(attestation.raw), Platform("unknown", "unknown")
    )
    image_entry = replace(image.manifest.descriptor, platform=image.config.platform)
    repository.put_manifest(IndexManifest.build([attestation_entry, image_entry]), "1")
    loaded = load_image_or_index(repository, "1")
    assert isinstance(loaded, ImageIndex)
    assert [part.digest for part in loaded.images] == [image.digest]
    copied = LayoutRepository(tmp_path / "copy")
    assert copy_image(loaded, copied, "1").digest == loaded.digest
    assert load_image_or_index(copied, "1") == loaded
    assert copied.has_blob(attestation.layers[0])
    assert [part.digest for part in loaded.append([layer]).index.manifests] == [
        part.digest for part in loaded.append([layer]).images
    ]


def test_convert_docker_images_to_oci(tmp_path: Path) -> None:
    names = ("linux/amd64", "linux/arm64")
    docker = [
        small_image(tmp_path, {"a": b"1"}, platform=name, media_type=media_types.DOCKER_MANIFEST) for name in names
    ]
    image = docker[0].in_format(media_types.OCI_MANIFEST)
    assert image == small_image(tmp_path, {"a": b"1"})
    assert image.in_format(media_types.OCI_MANIFEST) is image
    index = multi_image(docker, media_types.DOCKER_LIST).in_format(media_types.OCI_MANIFEST)
    assert index.index.media_type == media_types.OCI_INDEX
    assert [part.media_type for part in index.index.manifests] == [media_types.OCI_MANIFEST] * 2
    assert index.in_format(media_types.OCI_MANIFEST) is index
    copy_image(docker[0], LayoutRepository(tmp_path / "layout"), "1")
    assert load_image(LayoutRepository(tmp_path / "layout"), "1").digest == docker[0].digest


def test_artifacts_and_invalid_images(tmp_path: Path) -> None:
    repository = LayoutRepository(tmp_path)
    repository.put_manifest(Manifest.build(put(repository, b"{}", EMPTY_CONFIG.media_type), []), "artifact")
    with pytest.raises(UnsupportedImage, match=r"vnd\.example"):
        load_image(repository, "artifact")
    config = json.dumps({"rootfs": {"diff_ids": [sha256_digest(b"")]}}).encode()
    repository.put_manifest(Manifest.build(put(repository, config, media_types.OCI_CONFIG), []), "invalid")
    with pytest.raises(InvalidImage, match="0 layers, its configuration 1"):
        load_image_or_index(repository, "invalid")
    large = Descriptor(media_types.OCI_CONFIG, sha256_digest(b"x"), 1 << 30)
    (tmp_path / "blobs/sha256" / large.digest.partition(":")[2]).touch()
    repository.put_manifest(Manifest.build(large, []), "large")
    with pytest.raises(LimitExceeded, match=large.digest):
        load_image(repository, "large")


def test_nested_indexes(tmp_path: Path) -> None:
    repository = LayoutRepository(tmp_path / "layout")
    image = small_image(tmp_path, {"a": b"1"})
    index = multi_image([image]).index
    copy_image(multi_image([image]), repository, "1")
    for depth in range(2, 6):
        index = IndexManifest.build([index.descriptor])
        repository.put_manifest(index, str(depth))
    assert load_image(repository, "2").digest == image.digest
    with pytest.raises(InvalidImage, match="nested indexes exceed"):
        load_image(repository, "5")
    with pytest.raises(UnsupportedImage, match="unsupported nested index"):
        load_image_or_index(repository, "2")


@pytest.mark.slow
def test_loading_an_index_takes_linear_time(tmp_path: Path) -> None:
    image = small_image(tmp_path, {"a": b"b"})
    children = [
        replace(image.manifest.descriptor, annotations={"number": str(number)}) for number in range(MAX_INDEX_MANIFESTS)
    ]
    index = IndexManifest.build(children)

    class Source(LayersUnreadable):
        def get_manifest(self, identifier: str) -> Manifest | IndexManifest:
            return index if identifier == "1" else image.manifest

        def get_config(self, descriptor: Descriptor) -> bytes:
            return image.config.raw

    started = time.process_time()
    loaded = load_image_or_index(Source(tmp_path), "1")
    assert isinstance(loaded, ImageIndex)
    assert len(loaded.images) == MAX_INDEX_MANIFESTS
    assert time.process_time() - started < 10
