"""Copying of images to repositories."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from opmkit.core.errors import DiskError
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.image import Image, load_image_or_index
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.spec import media_types
from opmkit.imagetools.store import LayoutRepository
from tests.kit.images import multi_image, small_image

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.repository import BlobOpener, ImageSource
    from opmkit.imagetools.spec import Descriptor, IndexManifest, Manifest


class RecordingRepository(LayoutRepository):
    """A layout that records writes, and fails on one blob."""

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
            raise DiskError("simulated failure")
        super().put_blob(descriptor, opener, mount_from=mount_from)

    def put_manifest(
        self, manifest: Manifest | IndexManifest, tag: str | None = None, *, replacing: str | None = None
    ) -> Descriptor:
        self.manifests.append((manifest.digest, tag))
        return super().put_manifest(manifest, tag, replacing=replacing)


class CountingProgress:
    """A progress receiver that adds up the reports."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.done = 0
        self.ended = 0
        self.lock = threading.Lock()

    def begin(self, label: str, total: int | None, unit: str = "bytes") -> None:
        assert label
        self.total = total

    def advance(self, count: int) -> None:
        with self.lock:
            self.done += count

    def end(self) -> None:
        self.ended += 1


def test_order_of_blobs_manifests_and_tag(tmp_path: Path) -> None:
    images = [small_image(tmp_path, {"same": b"1"}, platform=name) for name in ("linux/amd64", "linux/arm64")]
    image = multi_image(images)
    target = RecordingRepository(tmp_path / "target")
    progress = CountingProgress()
    assert copy_image(image, target, "1", progress=progress).digest == image.digest
    sizes = {blob.digest: blob.size for child in images for blob in child.manifest.children}
    assert sorted(target.blobs) == sorted(sizes)
    assert target.manifests == [(images[0].digest, None), (images[1].digest, None), (image.digest, "1")]
    assert (progress.total, progress.done, progress.ended) == (sum(sizes.values()), sum(sizes.values()), 1)
    assert load_image_or_index(target, "1") == replace(image, source=target)


def test_only_remote_layers_are_mounted(tmp_path: Path) -> None:
    source = LayoutRepository(tmp_path / "source")
    base = small_image(tmp_path, {"a": b"1"})
    copy_image(base, source, "1")
    loaded = load_image_or_index(source, "1")
    assert isinstance(loaded, Image)
    layer = write_layer([LayerFile("b", b"2")], tmp_path)
    target = RecordingRepository(tmp_path / "target")
    copy_image(loaded.append([layer]), target, None, workers=1)
    mounts = dict(zip(target.blobs, target.mounts, strict=True))
    assert mounts[base.manifest.layers[0].digest] is source
    assert mounts[layer.descriptor.digest] is None


def test_failure_creates_no_tag(tmp_path: Path) -> None:
    layers = [write_layer([LayerFile(f"f{number}", b"1")], tmp_path) for number in range(20)]
    image = Image.scratch().append(layers)
    target = RecordingRepository(tmp_path / "target", fails_on=layers[3].descriptor.digest)
    progress = CountingProgress()
    with pytest.raises(DiskError, match="simulated failure"):
        copy_image(image, target, "1", workers=2, progress=progress)
    assert target.manifests == []
    assert list(target.tags()) == []
    assert progress.ended == 1
    target.fails_on = ""
    copy_image(image, target, "1")
    assert list(target.tags()) == ["1"]


def test_missing_layer_leaves_the_tag_unchanged(tmp_path: Path) -> None:
    target = LayoutRepository(tmp_path / "target")
    old = small_image(tmp_path, {"a": b"1"})
    copy_image(old, target, "1")
    (tmp_path / "new").mkdir()
    new = small_image(tmp_path / "new", {"a": b"2"})
    for path in new.local_layers.values():
        path.unlink()
    with pytest.raises(DiskError, match="No such file"):
        copy_image(new, target, "1")
    assert target.resolve("1").digest == old.digest
    with pytest.raises(NotFound):
        target.resolve("2")


def test_foreign_layers_are_not_copied(tmp_path: Path) -> None:
    image = small_image(tmp_path, {"a": b"1"})
    foreign = structs.replace(
        image.manifest.layers[0],
        media_type="application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        urls=("https://example.com/layer",),
    )
    manifest = type(image.manifest).build(image.manifest.config, [foreign])
    target = RecordingRepository(tmp_path / "target")
    copy_image(replace(image, manifest=manifest), target, "1")
    assert target.blobs == [manifest.config.digest]
