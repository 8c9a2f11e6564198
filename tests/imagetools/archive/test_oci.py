"""OCI archives, exchanged with skopeo and podman."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.archive import ArchivedLayout, TarArchive, new_archive, write_oci_archive
from opmkit.imagetools.errors import DigestMismatch, InvalidImage, NotFound
from opmkit.imagetools.image import Image, load_image, load_image_or_index
from opmkit.imagetools.spec import Platform
from opmkit.imagetools.store.reader import LayoutReader
from tests.imagetools.archive.helpers import FILES, NAME, content, oci_image, write_archive, write_tar_file
from tests.kit.engines import skopeo
from tests.kit.images import member, multi_image, small_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.engines import Engine


def test_digest_is_unchanged(image: Image, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    assert write_archive(path, image, "oci") == image.manifest.descriptor
    for identifier in ("", "1.0", image.digest):
        read = oci_image(path, identifier)
        assert read == image
        assert content(read) == content(image)
    with pytest.raises(NotFound, match=r"a\.tar: image 2 not found") as caught:
        oci_image(path, "2")
    assert "1.0" in str(caught.value.hint)
    with pytest.raises(NotFound, match=r"manifest sha256:0+ not found"):
        oci_image(path, "sha256:" + "0" * 64)


def test_several_platforms(tmp_path: Path) -> None:
    image = multi_image([small_image(tmp_path, FILES, platform=name) for name in ("linux/amd64", "linux/arm64")])
    with new_archive(tmp_path / "a.tar") as writer:
        assert write_oci_archive(image, writer) == image.index.descriptor
    layout = LayoutReader(ArchivedLayout(TarArchive.open(tmp_path / "a.tar")))
    assert load_image_or_index(layout, "") == replace(image, source=layout)
    assert load_image(layout, "", Platform.parse("linux/arm64")) == image.images[1]
    assert list(layout.tags()) == []


def test_exchange_with_skopeo(image: Image, tmp_path: Path) -> None:
    write_archive(tmp_path / "opmkit.tar", image, "oci")
    assert json.loads(skopeo("inspect", f"oci-archive:{tmp_path}/opmkit.tar:1.0"))["Digest"] == image.digest
    skopeo("copy", "-q", f"oci-archive:{tmp_path}/opmkit.tar", f"oci-archive:{tmp_path}/skopeo.tar:quay.io/me/x:2")
    copied = oci_image(tmp_path / "skopeo.tar", "quay.io/me/x:2")
    assert copied == image
    assert content(copied) == content(image)


def test_invalid_archives(image: Image, tmp_path: Path) -> None:
    write_archive(tmp_path / "whole.tar", image, "oci")
    whole = TarArchive.open(tmp_path / "whole.tar")
    manifest = f"blobs/sha256/{image.digest[7:]}"
    blobs = [f"blobs/sha256/{blob.digest[7:]}" for blob in image.manifest.children]
    names = ["oci-layout", "index.json", manifest, *blobs]
    contents = {name: whole.read(name, 1 << 20) for name in names}

    def changed(name: str, new_content: bytes | None = None) -> Path:
        """Write the archive with other content in one member, or without it."""
        members = [member(key, value) for key, value in contents.items() if key != name]
        replaced = [] if new_content is None else [member(name, new_content)]
        return write_tar_file(tmp_path / "x.tar", *members, *replaced)

    for name, error in (("oci-layout", InvalidImage), ("index.json", InvalidImage), (manifest, NotFound)):
        with pytest.raises(error, match=r"x\.tar"):
            oci_image(changed(name))
    with pytest.raises(NotFound, match=rf"x\.tar: member {names[-1]} not found"):
        content(oci_image(changed(names[-1])))
    with pytest.raises(DigestMismatch, match=rf"x\.tar: blob sha256:{names[-1][-64:]}"):
        content(oci_image(changed(names[-1], contents[names[-1]][:-1] + b"?")))
    with pytest.raises(DigestMismatch, match=r"x\.tar"):
        oci_image(changed(manifest, b"{}"))
    with pytest.raises(InvalidImage, match=r"x\.tar: index\.json is not an image index"):
        oci_image(changed("index.json", image.manifest.raw))
    with pytest.raises(LimitExceeded, match=r"x\.tar: member 'index\.json'"):
        oci_image(changed("index.json", b" " * (65 << 20)))
    write_archive(tmp_path / "docker.tar", image)
    with pytest.raises(InvalidImage, match="does not contain an OCI layout") as caught:
        oci_image(tmp_path / "docker.tar")
    assert "docker-archive:" in str(caught.value.hint)


def test_podman_loads_the_archive(image: Image, tmp_path: Path, container_storage: Engine) -> None:
    with new_archive(tmp_path / "opmkit.tar") as writer:
        write_oci_archive(image, writer, str(NAME))
    container_storage.run("load", "-i", f"{tmp_path}/opmkit.tar")
    assert container_storage.run("image", "inspect", "--format", "{{.Digest}}", str(NAME)) == image.digest
    container_storage.run("rmi", str(NAME))
