"""Docker archives, exchanged with skopeo, docker and podman."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from opmkit.core.errors import OpmkitError
from opmkit.imagetools.archive import TarArchive, new_archive, write_docker_archive
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import DigestMismatch, ImageToolsError, InvalidImage, NotFound, UnsupportedImage
from opmkit.imagetools.image import Image, load_image
from opmkit.imagetools.layer import Compression, LayerFile, write_layer
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.spec import Manifest, media_types, sha256_digest
from opmkit.imagetools.store import LayoutRepository
from tests.imagetools.archive.helpers import NAME, content, docker_image, oci_image, write_archive, write_tar_file
from tests.kit.engines import skopeo
from tests.kit.images import Member, layer_source, member, symlink, tar, written_layer
from tests.kit.requirements import require

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.engines import DockerDaemon, Engine


def test_configuration_and_content_are_unchanged(image: Image, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    descriptor = write_archive(path, image)
    for read in (docker_image(path), docker_image(path, NAME), docker_image(path, None, 0)):
        assert read.manifest.descriptor == descriptor
        assert read.config == image.config
        assert content(read) == content(image)
    assert descriptor.media_type == media_types.DOCKER_MANIFEST


@pytest.mark.parametrize("compression", Compression)
def test_layers_are_uncompressed(compression: Compression, tmp_path: Path) -> None:
    layer = written_layer({"a": b"1" * 10_000}, tmp_path, compression)
    write_archive(tmp_path / "a.tar", Image.scratch().append([layer, layer]))
    archive = TarArchive.open(tmp_path / "a.tar")
    assert sha256_digest(archive.read(f"{layer.diff_id[7:]}.tar", 1 << 20)) == layer.diff_id
    assert content(docker_image(tmp_path / "a.tar")) == {"a": b"1" * 10_000}


def test_layers_are_compressed_by_a_copy_to_a_layout(image: Image, tmp_path: Path) -> None:
    write_archive(tmp_path / "a.tar", image)
    layout = LayoutRepository(tmp_path / "layout")
    copied = copy_image(docker_image(tmp_path / "a.tar"), layout, "1")
    loaded = load_image(layout, "1")
    assert loaded.digest == copied.digest
    assert loaded.config == image.config
    assert [layer.digest for layer in loaded.manifest.layers] == [layer.digest for layer in image.manifest.layers]
    assert loaded.in_format(media_types.OCI_MANIFEST).digest == image.digest  # the compression is reproducible


def test_append_to_an_archived_image(image: Image, tmp_path: Path) -> None:
    write_archive(tmp_path / "a.tar", image)
    layer = write_layer([LayerFile("more", b"more")], tmp_path)
    appended = docker_image(tmp_path / "a.tar").in_format(media_types.OCI_MANIFEST).append([layer])
    layout = LayoutRepository(tmp_path / "layout")
    copy_image(appended, layout, "1")
    assert content(load_image(layout, "1")) == {**content(image), "more": b"more"}
    assert load_image(layout, "1").digest == image.append([layer]).digest
    write_archive(tmp_path / "b.tar", appended)
    assert content(docker_image(tmp_path / "b.tar")) == {**content(image), "more": b"more"}


def test_images_that_cannot_be_written(image: Image, tmp_path: Path) -> None:
    layers = [
        structs.replace(layer, media_type="application/vnd.docker.image.rootfs.foreign.diff.tar.gzip")
        for layer in image.manifest.layers
    ]
    foreign = replace(image, manifest=Manifest.build(image.manifest.config, layers))
    with pytest.raises(UnsupportedImage, match="cannot contain foreign layers"):
        write_archive(tmp_path / "a.tar", foreign)
    mismatched = replace(image, manifest=Manifest.build(image.manifest.config, image.manifest.layers[::-1]))
    with pytest.raises(InvalidImage, match=rf"{image.config.diff_ids[0]}: content does not match"):
        write_archive(tmp_path / "a.tar", mismatched)
    assert not (tmp_path / "a.tar").exists()


def test_exchange_with_skopeo(image: Image, tmp_path: Path) -> None:
    write_archive(tmp_path / "opmkit.tar", image)
    skopeo("copy", "-q", f"docker-archive:{tmp_path}/opmkit.tar:{NAME}", f"oci:{tmp_path}/layout:x")
    assert content(load_image(LayoutRepository(tmp_path / "layout"), "x")) == content(image)
    skopeo(
        "copy", "-q", f"docker-archive:{tmp_path}/opmkit.tar", f"docker-archive:{tmp_path}/skopeo.tar:quay.io/me/x:2"
    )
    copied = docker_image(tmp_path / "skopeo.tar", Reference.parse("quay.io/me/x:2"))
    assert copied.config == image.config
    assert content(copied) == content(image)


def test_exchange_with_docker(image: Image, tmp_path: Path, docker_daemon: DockerDaemon) -> None:
    write_archive(tmp_path / "opmkit.tar", image)
    docker_daemon.run("load", "-i", f"{tmp_path}/opmkit.tar")
    docker_daemon.run("tag", str(NAME), "lagoon:other")
    other = image.append(changes=None, created="2020-01-01T00:00:00Z")
    with new_archive(tmp_path / "other.tar") as writer:
        write_docker_archive(other, writer, Reference.parse("lagoon:second"))
    docker_daemon.run("load", "-i", f"{tmp_path}/other.tar")
    docker_daemon.run("save", "-o", f"{tmp_path}/saved.tar", str(NAME), "lagoon:other", "lagoon:second")
    for name, expected in ((str(NAME), image), ("lagoon:other", image), ("lagoon:second", other)):
        read = docker_image(tmp_path / "saved.tar", Reference.parse(name))
        assert read.config == expected.config
        assert content(read) == content(image)
    docker_daemon.run("rmi", "lagoon:other", "lagoon:second", str(NAME))


@pytest.mark.parametrize("archive_format", ["docker-archive", "oci-archive"])
def test_exchange_with_podman(archive_format: str, image: Image, tmp_path: Path, container_storage: Engine) -> None:
    write_archive(tmp_path / "opmkit.tar", image)
    container_storage.run("load", "-i", f"{tmp_path}/opmkit.tar")
    container_storage.run("save", "-q", "--format", archive_format, "-o", f"{tmp_path}/saved.tar", str(NAME))
    container_storage.run("rmi", str(NAME))
    load = docker_image if archive_format == "docker-archive" else oci_image
    read = load(tmp_path / "saved.tar")
    assert read.config.diff_ids == image.config.diff_ids
    assert read.labels == image.labels
    assert content(read) == content(image)


def save_as_docker_25(image: Image, tmp_path: Path) -> Path:
    """Write an archive like docker 25 with containerd storage: a layout with compressed layers, and manifest.json."""
    copy_image(image, LayoutRepository(tmp_path / "layout"), "1.0")
    item = {
        "Config": f"blobs/sha256/{image.config.digest[7:]}",
        "RepoTags": ["lagoon:1.0"],
        "Layers": [f"blobs/sha256/{layer.digest[7:]}" for layer in image.manifest.layers],
        "LayerSources": {},
    }
    (tmp_path / "layout/manifest.json").write_text(json.dumps([item]))
    command = [require("tar"), "-C", f"{tmp_path}/layout", "--exclude=opmkit.lock", "--exclude=ingest", "-cf"]
    subprocess.run([*command, f"{tmp_path}/new.tar", "."], check=True)
    return tmp_path / "new.tar"


def test_archive_of_docker_25_is_both_kinds(image: Image, tmp_path: Path) -> None:
    path = save_as_docker_25(image, tmp_path)
    assert oci_image(path, "1.0") == image
    read = docker_image(path, Reference.parse("lagoon:1.0"))
    assert read.config == image.config
    assert content(read) == content(image)
    assert [layer.digest for layer in read.manifest.layers] == [layer.digest for layer in image.manifest.layers]
    write_archive(tmp_path / "again.tar", read)
    assert content(docker_image(tmp_path / "again.tar")) == content(image)


LAYER = layer_source(tar([member("a", b"1")]))[0]
TAR = tar([member("a", b"1")])
CONFIG = json.dumps({"os": "linux", "rootfs": {"type": "layers", "diff_ids": [LAYER.digest]}}).encode()
ITEM = {"Config": "c.json", "RepoTags": ["x:1"], "Layers": ["1/layer.tar"]}


def docker_archive(path: Path, manifest: Any, config: bytes = CONFIG, *layers: Member) -> Path:
    """Write an archive with this manifest.json, by default with the layer of ITEM."""
    raw = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    layers = layers or (member("1/layer.tar", TAR),)
    return write_tar_file(path, member("c.json", config), *layers, member("manifest.json", raw))


def test_several_images(tmp_path: Path) -> None:
    items = [ITEM, {**ITEM, "RepoTags": ["docker.io/library/y:1", "NO name"]}, {**ITEM, "RepoTags": None}]
    path = docker_archive(tmp_path / "x.tar", items)
    x, y, z = (Reference.parse(name) for name in ("x:1", "y:1", "z:1"))
    for name, position in ((x, None), (y, None), (None, 2)):
        assert content(docker_image(path, name, position)) == {"a": b"1"}
    for name, position in ((None, None), (z, None), (None, 3)):
        with pytest.raises(NotFound, match=r"x\.tar: ") as caught:
            docker_image(path, name, position)
        assert "x:1, docker.io/library/y:1" in str(caught.value.hint)
    with pytest.raises(NotFound, match=r"several images docker\.io/library/x:1"):
        docker_image(docker_archive(path, [ITEM, ITEM]), x)
    with pytest.raises(NotFound, match="contains no image"):
        docker_image(docker_archive(path, []))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (b"[", "manifest.json: invalid JSON"),
        (b"[" * 1000 + b"]" * 1000, "manifest.json: JSON nesting exceeds"),
        (b"[" + b" " * (5 << 20) + b"]", "member 'manifest.json' exceeds the limit"),
        ({}, "manifest.json: expected a list, got {}"),
        (["x"], "manifest.json[0]: expected an object, got 'x'"),
        ([{**ITEM, "Config": 1}], "manifest.json[0].Config: expected a string, got 1"),
        ([{**ITEM, "Config": "other.json"}], "member 'other.json' not found"),
        ([{**ITEM, "Config": "../c.json"}], "member '../c.json' not found"),
        ([{**ITEM, "Config": "1/layer.tar"}], "x.tar: 1/layer.tar: config: invalid JSON"),
        ([{**ITEM, "Layers": []}], "lists 0 layers, the configuration c.json 1"),
        ([{**ITEM, "Layers": "1/layer.tar"}], "manifest.json[0].Layers: expected"),
        ([{**ITEM, "Layers": ["2/layer.tar"]}], "member '2/layer.tar' not found"),
        ([{**ITEM, "Layers": ["/etc/passwd"]}], "member '/etc/passwd' not found"),
        ([{**ITEM, "RepoTags": [1]}], "manifest.json[0].RepoTags[0]: expected a string, got 1"),
    ],
)
def test_invalid_manifests(manifest: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(OpmkitError) as caught:
        docker_image(docker_archive(tmp_path / "x.tar", manifest))
    assert caught.value.message.startswith(f"{tmp_path}/x.tar: ")
    assert message in caught.value.message


def test_layers_that_do_not_match_their_digests(tmp_path: Path) -> None:
    for damaged in (TAR[:-512], TAR + bytes(512), TAR[:-1] + b"?", b""):
        path = docker_archive(tmp_path / "x.tar", [ITEM], CONFIG, member("1/layer.tar", damaged))
        with pytest.raises(DigestMismatch, match=rf"x\.tar: blob {LAYER.digest}"):
            content(docker_image(path))
        with pytest.raises(ImageToolsError):
            copy_image(docker_image(path), LayoutRepository(tmp_path / "layout"), "1")
        assert not (tmp_path / "layout/index.json").exists()
    link = docker_archive(tmp_path / "x.tar", [ITEM], CONFIG, symlink("1/layer.tar", "../../../etc/passwd"))
    with pytest.raises(InvalidImage, match=r"x\.tar: member '1/layer.tar' not found"):
        docker_image(link)


def test_other_kinds_of_archives(image: Image, tmp_path: Path) -> None:
    write_archive(tmp_path / "oci.tar", image, "oci")
    with pytest.raises(InvalidImage, match="contains an OCI layout") as caught:
        docker_image(tmp_path / "oci.tar")
    assert str(caught.value.hint) == f"use oci-archive:{tmp_path}/oci.tar"
    with pytest.raises(UnsupportedImage, match=r"before 1\.10"):
        docker_image(write_tar_file(tmp_path / "old.tar", member("repositories", b"{}")))
    with pytest.raises(InvalidImage, match=r"manifest\.json not found"):
        docker_image(write_tar_file(tmp_path / "sources.tar", member("setup.py")))
