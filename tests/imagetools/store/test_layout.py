"""OCI image layouts on disk, exchanged with skopeo and umoci."""

from __future__ import annotations

import io
import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import DigestMismatch, InvalidImage, NotFound
from opmkit.imagetools.image import Image, load_image, load_image_or_index
from opmkit.imagetools.layer import read_tree
from opmkit.imagetools.spec import ConfigChanges, Descriptor, IndexManifest, media_types, sha256_digest
from opmkit.imagetools.store import ImageStore, LayoutRepository
from tests.kit.images import multi_image, small_image
from tests.kit.requirements import require

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return small_image(tmp_path, {"manifests/a.yaml": b"a: 1\n", "é/" + "x" * 120: b"\0" * 1000}, labels={"a": "b"})


def run(*command: str) -> str:
    """Run a program and return its standard output."""
    path = require(command[0])
    return subprocess.run([path, *command[1:]], capture_output=True, text=True, check=True, timeout=120).stdout


def test_resolve(image: Image, tmp_path: Path) -> None:
    layout = LayoutRepository(tmp_path / "layout")
    copy_image(image, layout, None)
    assert layout.resolve("").digest == layout.resolve(image.digest).digest == image.digest
    assert list(layout.tags()) == []
    copy_image(image, layout, "1")
    assert layout.resolve("").digest == layout.resolve("1").digest == image.digest
    assert len(layout.layout.read_index().manifests) == 1
    other = image.append([], ConfigChanges(labels={"x": "y"}))
    copy_image(other, layout, "2")
    assert list(layout.tags()) == ["1", "2"]
    with pytest.raises(NotFound, match="more than one image") as caught:
        layout.resolve("")
    assert "1, 2" in str(caught.value.hint)
    with pytest.raises(NotFound, match="image 3 not found") as caught:
        layout.resolve("3")
    assert "1, 2" in str(caught.value.hint)
    with pytest.raises(NotFound, match=r"manifest sha256:0+ not found"):
        layout.resolve("sha256:" + "0" * 64)


def test_children_of_an_index_are_not_listed(tmp_path: Path) -> None:
    image = multi_image([small_image(tmp_path, {"a": b"1"}, platform=name) for name in ("linux/amd64", "linux/arm64")])
    layout = LayoutRepository(tmp_path / "layout")
    for tag in (None, "1", None):
        copy_image(image, layout, tag)
        assert {manifest.digest for manifest in layout.layout.read_index().manifests} == {image.digest}
    assert load_image(layout, image.images[1].digest) == image.images[1]


def test_reproducible(image: Image, tmp_path: Path) -> None:
    for name in ("one", "two"):
        copy_image(image, LayoutRepository(tmp_path / name), "1")

    def content(name: str) -> dict[str, bytes]:
        root = tmp_path / name
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    assert content("one") == content("two")


def test_missing_layout(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(NotFound, match="not an OCI image layout"):
            LayoutRepository(path).resolve("1")
    with pytest.raises(NotFound, match="not an OCI image layout"):
        list(LayoutRepository(tmp_path).tags())


def test_directory_with_other_files_is_rejected(image: Image, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/notes").touch()
    with pytest.raises(DiskError, match="other files"):
        copy_image(image, LayoutRepository(tmp_path / "home"), "1")
    assert {path.name for path in (tmp_path / "home").iterdir()} - {"opmkit.lock"} == {"notes"}


def create_layout(path: Path, manifests: list[Descriptor] | bytes) -> LayoutRepository:
    """Create a layout with this index.json or these manifests in it."""
    path.mkdir(exist_ok=True)
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    if isinstance(manifests, bytes):
        (path / "index.json").write_bytes(manifests)
    else:
        entries = [manifest.to_json() for manifest in manifests]
        (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": entries}, indent=1))
    return LayoutRepository(path)


def test_index_in_an_index(image: Image, tmp_path: Path) -> None:
    inner = LayoutRepository(tmp_path / "layout")
    copy_image(multi_image([image]), inner, "inner")
    index = IndexManifest.build([inner.resolve("inner")])
    inner.put_blob(index.descriptor, lambda: io.BytesIO(index.raw))
    named = Descriptor(
        index.media_type, index.digest, len(index.raw), annotations={"org.opencontainers.image.ref.name": "v1/x"}
    )
    layout = create_layout(tmp_path / "layout", [named])
    assert load_image(layout, "v1/x").digest == load_image(layout, "").digest == image.digest
    copy_image(image, layout, "mine")
    assert list(layout.tags()) == ["mine", "v1/x"]


def test_invalid_layouts(image: Image, tmp_path: Path) -> None:
    assert list(create_layout(tmp_path / "empty", []).tags()) == []
    with pytest.raises(NotFound, match="contains no image"):
        create_layout(tmp_path / "empty", []).resolve("")
    (tmp_path / "empty/index.json").unlink()
    assert list(LayoutRepository(tmp_path / "empty").tags()) == []
    with pytest.raises(InvalidImage, match=f"^{tmp_path}/a/index.json: manifest.schemaVersion: expected 2"):
        create_layout(tmp_path / "a", b"{}").resolve("1")
    with pytest.raises(InvalidImage, match="not an image index"):
        create_layout(tmp_path / "b", image.manifest.raw).resolve("1")
    with pytest.raises(LimitExceeded):
        create_layout(tmp_path / "c", b" " * (65 << 20)).resolve("1")
    with pytest.raises(NotFound, match=r"blob sha256:[0-9a-f]+ not found"):
        load_image_or_index(create_layout(tmp_path / "d", [image.manifest.descriptor]), "")
    large = Descriptor(media_types.OCI_MANIFEST, sha256_digest(b""), 1 << 40)
    with pytest.raises(LimitExceeded, match=large.digest):
        load_image_or_index(create_layout(tmp_path / "e", [large]), "")


def test_damaged_blobs(image: Image, tmp_path: Path) -> None:
    layout = LayoutRepository(tmp_path / "layout")
    copy_image(image, layout, "1")
    for blob in (image.manifest.layers[0], image.manifest.config):
        path = layout.layout.blob_path(blob.digest)
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        with pytest.raises(DigestMismatch, match=blob.digest):
            layout.get_config(blob)
    with pytest.raises(LimitExceeded):
        layout.get_config(Descriptor("x", image.digest, 1 << 40))
    path = layout.layout.blob_path(image.digest)
    path.write_bytes(b"?")
    with pytest.raises(DigestMismatch):
        layout.get_manifest("1")
    assert not layout.has_blob(Descriptor("x", image.digest, 2))
    assert layout.has_blob(Descriptor("x", image.digest, 1))


@pytest.mark.parametrize("media_type", [media_types.OCI_MANIFEST, media_types.DOCKER_MANIFEST])
def test_skopeo_reads_a_layout(media_type: str, tmp_path: Path) -> None:
    image = small_image(tmp_path, {"a": b"1"}, labels={"a": "b"}, media_type=media_type)
    image = image.in_format(media_types.OCI_MANIFEST)
    copy_image(image, LayoutRepository(tmp_path / "layout"), "1.0")
    inspected = json.loads(run("skopeo", "inspect", f"oci:{tmp_path}/layout:1.0"))
    assert inspected["Digest"] == image.digest
    assert inspected["Labels"] == {"a": "b"}
    assert inspected["Layers"] == [image.manifest.layers[0].digest]
    run("skopeo", "copy", "-q", f"oci:{tmp_path}/layout:1.0", f"oci:{tmp_path}/copy:x")
    copied = load_image(LayoutRepository(tmp_path / "copy"), "x")
    assert read_tree(copied.layers, [""]) == {"a": b"1"}
    assert copied.digest == image.digest


def test_skopeo_copies_all_platforms(tmp_path: Path) -> None:
    image = multi_image([small_image(tmp_path, {"a": b"1"}, platform=name) for name in ("linux/amd64", "linux/arm64")])
    copy_image(image, LayoutRepository(tmp_path / "layout"), "1")
    run("skopeo", "copy", "-q", "--all", f"oci:{tmp_path}/layout:1", f"oci:{tmp_path}/copy:x")
    assert load_image_or_index(LayoutRepository(tmp_path / "copy"), "x").digest == image.digest


def test_skopeo_reads_the_store_by_full_name(image: Image, tmp_path: Path) -> None:
    store = ImageStore.open(tmp_path / "store")
    copy_image(image, store.repository("quay.io/ns/name"), "1")
    inspected = json.loads(run("skopeo", "inspect", f"oci:{tmp_path}/store:quay.io/ns/name:1"))
    assert inspected["Digest"] == image.digest


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_skopeo_writes_a_layout(compression: str, image: Image, tmp_path: Path) -> None:
    copy_image(image, LayoutRepository(tmp_path / "layout"), "1")
    options = ["--dest-compress", "--dest-compress-format", compression, "-q"]
    run("skopeo", "copy", *options, f"oci:{tmp_path}/layout:1", f"dir:{tmp_path}/dir")
    run("skopeo", "copy", "-q", f"dir:{tmp_path}/dir", f"oci:{tmp_path}/back:1")
    back = load_image(LayoutRepository(tmp_path / "back"), "1")
    assert back.config.diff_ids == image.config.diff_ids
    assert read_tree(back.layers, [""]) == read_tree(image.layers, [""])


def test_umoci_changes_a_layout(image: Image, tmp_path: Path) -> None:
    layout = LayoutRepository(tmp_path / "layout")
    copy_image(image, layout, "1")
    bundle = tmp_path / "bundle"
    run("umoci", "unpack", "--rootless", "--image", f"{tmp_path}/layout:1", str(bundle))
    assert (bundle / "rootfs/manifests/a.yaml").read_bytes() == b"a: 1\n"
    (bundle / "rootfs/manifests/a.yaml").unlink()
    (bundle / "rootfs/manifests/b.yaml").write_bytes(b"b: 2\n")
    run("umoci", "repack", "--image", f"{tmp_path}/layout:2", str(bundle))
    changed = load_image(layout, "2")
    assert read_tree(reversed(changed.layers), ["manifests"]) == {"manifests/b.yaml": b"b: 2\n"}
    assert load_image(layout, "1").digest == image.digest
