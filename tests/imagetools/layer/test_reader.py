"""Layers that are damaged or unsafe."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opmkit.imagetools.errors import ImageToolsError, InvalidImage
from opmkit.imagetools.layer import extract_tree, read_tree
from opmkit.imagetools.spec import media_types
from tests.imagetools.layer.helpers import assert_rejected
from tests.kit import zstd
from tests.kit.images import Member, directory, hardlink, layer, layer_source, member, symlink, tar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    "entry",
    [
        member("../evil", b"x"),
        member("a/../../evil", b"x"),
        member("/../evil", b"x"),
        member("a/..", b"x"),
        directory("../evil"),
        symlink("../evil", "x"),
        hardlink("../evil", "x"),
        member("../.wh.evil"),
        member("a/../.wh..wh..opq"),
    ],
)
def test_entries_outside_the_image(entry: Member, tmp_path: Path) -> None:
    name = entry[0].name.partition("/.wh")[0]
    assert_rejected(layer(entry), tmp_path, InvalidImage, "points outside the image", name)


@pytest.mark.parametrize("target", ["../../etc/passwd", "a/../../../etc/passwd"])
def test_hard_links_outside_the_image(target: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidImage, match="points outside the image"):
        read_tree([layer(hardlink("a", target))], [""])
    with pytest.raises(InvalidImage, match="points outside the image"):
        extract_tree([layer(hardlink("a", target))], tmp_path)


@pytest.mark.parametrize("name", [".wh.", ".wh..", ".wh...", "a/.wh..."])
def test_invalid_whiteouts(name: str, tmp_path: Path) -> None:
    assert_rejected(layer(member(name)), tmp_path, InvalidImage, "invalid whiteout", name)


def pax_header(size: int, kind: bytes = b"x") -> bytes:
    """Return a header that announces a pax header, or another one, of this size."""
    info = tarfile.TarInfo("pax")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_large_header(kind: bytes, tmp_path: Path) -> None:
    content = gzip.compress(pax_header(1 << 33, kind) + bytes(1 << 20))
    assert_rejected(layer_source(content, media_types.OCI_LAYER_GZIP), tmp_path, InvalidImage, "header of")


def test_many_consecutive_headers(tmp_path: Path) -> None:
    assert_rejected(layer_source(pax_header(0) * 5000 + bytes(1024)), tmp_path, InvalidImage, "invalid tar archive")


def test_negative_size(tmp_path: Path) -> None:
    header = bytearray(tarfile.TarInfo("a").tobuf(tarfile.USTAR_FORMAT))
    header[124:136] = b"\xff" * 11 + b"\x00"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    assert_rejected(layer_source(bytes(header) + bytes(2048)), tmp_path, InvalidImage)


def test_sparse_file(tmp_path: Path) -> None:
    info = tarfile.TarInfo("wanted")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "99"}
    body = b"1\n0\n1\n".ljust(512, b"\0") + b"x"
    info.size = len(body)
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(body))
    assert_rejected(layer_source(output.getvalue()), tmp_path, InvalidImage, "sparse")


ARCHIVE = tar([member("manifests/a", os.urandom(3000)), member("wanted", os.urandom(2000))])


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd.compress])
@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.7])
def test_truncated_layer(compress: Callable[[bytes], bytes], fraction: float, tmp_path: Path) -> None:
    content = compress(ARCHIVE[: 13 * 512])
    assert_rejected(layer_source(content[: int(len(content) * fraction)]), tmp_path, InvalidImage)


def test_damage_after_the_first_entry(tmp_path: Path) -> None:
    content = bytearray(tar([member("a", b"1"), member("wanted", b"2")]))
    content[1024 + 10] ^= 1
    assert_rejected(layer_source(bytes(content)), tmp_path, InvalidImage, "damaged header")


@pytest.mark.parametrize(
    "content", [b"hello", b"<html>" * 200, gzip.compress(b"hello", mtime=0), b"\x28\xb5\x2f\xfdxxxx"]
)
def test_not_an_archive(content: bytes, tmp_path: Path) -> None:
    assert_rejected(layer_source(content), tmp_path, InvalidImage, "invalid tar archive")


@given(st.binary(max_size=2000), st.integers(0, 6000))
@settings(max_examples=200)
def test_any_damage_raises_an_error_with_the_digest(noise: bytes, offset: int) -> None:
    content = ARCHIVE[:offset] + noise + ARCHIVE[offset + len(noise) :]
    for blob in (content, gzip.compress(ARCHIVE)[:offset] + noise):
        try:
            read_tree([layer_source(blob)], [""])
        except ImageToolsError as error:
            assert "sha256:" in error.message  # noqa: PT017


def test_missing_end_blocks_and_empty_blob() -> None:
    content = tar([member("a", b"1")])[: 2 * 512]
    assert read_tree([layer_source(content)], [""]) == {"a": b"1"}
    assert read_tree([layer_source(b"")], [""]) == {}
