"""Limits on the resources that layers use."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.layer import Limits, find_file, read_tree
from opmkit.imagetools.spec import media_types
from tests.imagetools.layer.helpers import assert_rejected
from tests.kit.images import Member, directory, layer, layer_source, member, tar

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_decompression_bomb(compression: str, tmp_path: Path) -> None:
    many = [member(f"zeros{number}", bytes(1 << 18)) for number in range(40)]
    assert_rejected(layer(*many, compression=compression), tmp_path, LimitExceeded, "exceeds the limit of")


def test_skipped_decompression_bomb(tmp_path: Path) -> None:
    source = layer(member("zeros", bytes(1 << 23)), compression="gzip")
    with pytest.raises(LimitExceeded, match="exceeds the limit of 4194304 decompressed bytes") as caught:
        find_file([source], "x", tmp_path / "x", Limits(total_bytes=1 << 22))
    assert source[0].digest in caught.value.message


def test_decompression_bomb_after_the_end_of_the_archive(tmp_path: Path) -> None:
    content = gzip.compress(tar([member("a", b"1")]) + bytes(1 << 23))
    assert_rejected(layer_source(content, media_types.OCI_LAYER_GZIP), tmp_path, LimitExceeded, "4194304")


def test_limits_apply_to_all_layers_together() -> None:
    source = layer(member("a", bytes(3000)))
    assert read_tree([source], [""], Limits(extracted_bytes=4000))
    with pytest.raises(LimitExceeded, match="exceeds the limit of 4000 extracted bytes"):
        read_tree([source, source], [""], Limits(extracted_bytes=4000))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([member("wanted", bytes(1 << 20))], "limit of 524288 bytes per file"),
        ([member(str(number)) for number in range(1001)], "limit of 1000 entries"),
        ([member("a" * 301)], "limit of 300 bytes per path"),
        ([directory("a/" * 130)], "limit of 128 path components"),
    ],
)
def test_limits(members: list[Member], message: str, tmp_path: Path) -> None:
    assert_rejected(layer(*members), tmp_path, LimitExceeded, message)
