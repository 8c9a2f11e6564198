"""Detection of compressions, decompression and reproducible compression."""

from __future__ import annotations

import gzip
import io
import os
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.layer import Compression, LayerFile, read_tree, write_layer
from opmkit.imagetools.layer.compression import (
    MAGIC_SIZE,
    decompress,
    detect_compression,
    layer_media_type,
)
from opmkit.imagetools.layer.compressor import GzipCompressor
from opmkit.imagetools.spec import media_types, sha256_digest
from tests.imagetools.layer.helpers import assert_rejected
from tests.kit import zstd
from tests.kit.images import layer, layer_source, member, tar, written_layer

if TYPE_CHECKING:
    from pathlib import Path


ARCHIVE = tar([member("manifests/a", os.urandom(3000)), member("wanted", os.urandom(2000))])


def test_truncated_gzip() -> None:
    content = gzip.compress(tar([member("a", b"1" * 2000)]))
    for length in range(5, len(content) - 1):
        with pytest.raises(InvalidImage):
            read_tree([layer_source(content[:length], media_types.OCI_LAYER_GZIP)], [""])


@pytest.mark.parametrize(
    "media_type", [media_types.OCI_LAYER_GZIP, media_types.DOCKER_LAYER_GZIP, media_types.OCI_LAYER_ZSTD]
)
def test_media_type_of_another_compression(media_type: str, tmp_path: Path) -> None:
    compress = gzip.compress if media_type.endswith("zstd") else zstd.compress
    for content in (compress(ARCHIVE), ARCHIVE):
        message = f"media type is {media_type}, but content is"
        assert_rejected(layer_source(content, media_type), tmp_path, InvalidImage, message)


def test_gzip_with_several_members_and_padding() -> None:
    content = tar([member("a", b"1" * 5000)])
    split = gzip.compress(content[:3000]) + gzip.compress(content[3000:]) + bytes(512)
    assert read_tree([layer_source(split, media_types.OCI_LAYER_GZIP)], [""]) == {"a": b"1" * 5000}


def test_compression_is_detected_for_a_type_without_suffix() -> None:
    for compression in ("", "gzip", "zstd"):
        _, opener = layer(member("a", b"1"), compression=compression)
        with opener() as stream:
            content = stream.read()
        assert read_tree([layer_source(content, media_types.DOCKER_LAYER)], [""]) == {"a": b"1"}


FILES = {"metadata/annotations.yaml": b"annotations: {}\n", "manifests/a.yaml": b"a: 1\n", "manifests/b.yaml": b""}


def test_gzip_header_without_time_and_system(tmp_path: Path) -> None:
    layer = write_layer([LayerFile("a", b"")], tmp_path, mtime=99)
    assert layer.path.read_bytes()[:10] == b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


@pytest.mark.parametrize("compression", Compression)
def test_diff_id_does_not_depend_on_the_compression(tmp_path: Path, compression: Compression) -> None:
    layer = written_layer(FILES, tmp_path, compression)
    assert sha256_digest(_decompress(layer.path.read_bytes(), compression)) == layer.diff_id
    assert layer.descriptor.media_type == layer_media_type(compression)
    assert layer.diff_id == written_layer(FILES, tmp_path, Compression.GZIP).diff_id
    assert read_tree([(layer.descriptor, lambda: layer.path.open("rb"))], [""]) == FILES


def _decompress(data: bytes, compression: Compression) -> bytes:
    match compression:
        case Compression.GZIP:
            return gzip.decompress(data)
        case Compression.ZSTD:
            return zstd.decompress(data)
        case Compression.NONE:
            return data


def _compress(data: bytes, compression: Compression) -> bytes:
    match compression:
        case Compression.GZIP:
            compressor = GzipCompressor()
            return compressor.compress(data) + compressor.flush()
        case Compression.ZSTD:
            return zstd.compress(data)
        case Compression.NONE:
            return data


@pytest.mark.parametrize("compression", Compression)
def test_detection(compression: Compression) -> None:
    content = _compress(ARCHIVE, compression)
    assert detect_compression(content[:MAGIC_SIZE]) is compression
    assert detect_compression(b"") is Compression.NONE
    assert decompress(io.BufferedReader(io.BytesIO(content))).read(len(ARCHIVE)) == ARCHIVE  # type: ignore[arg-type]


def test_media_types() -> None:
    assert layer_media_type(Compression.ZSTD) == media_types.OCI_LAYER_ZSTD
    assert layer_media_type(Compression.NONE, media_types.DOCKER_MANIFEST) == media_types.DOCKER_LAYER
