"""The digest of operator-registry's json cache, against digests that operator-registry 1.73.0 computed."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from opmkit.index.errors import InvalidCatalog
from opmkit.index.server.json_cache.digest import Fnv1a, fnv1a, hash_tree, tar_header
from tests.kit.cachedcatalog import ODD_TREE_DIGEST, write_odd_tree

if TYPE_CHECKING:
    from pathlib import Path


def plain_fnv1a(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


def test_fnv1a_has_the_published_values() -> None:
    published = {b"": 0xCBF29CE484222325, b"a": 0xAF63DC4C8601EC8C, b"foobar": 0x85944171F73967E8}
    assert {data: fnv1a(data) for data in published} == published


@pytest.mark.parametrize("seed", range(5))
def test_pieces_hash_like_the_whole(seed: int) -> None:
    chance = random.Random(seed)
    pieces = [chance.randbytes(chance.choice([0, 1, 7, 3000])) for _ in range(20)]
    hasher = Fnv1a()
    for piece in pieces:
        hasher.update(piece)
        if chance.random() < 0.5:
            hasher = Fnv1a(hasher.value())
    assert hasher.value() == plain_fnv1a(b"".join(pieces))


def test_a_large_piece_hashes_like_the_whole() -> None:
    data = random.Random(1).randbytes((1 << 20) + 5)
    hasher = Fnv1a()
    hasher.update(data)
    assert hasher.value() == fnv1a(data)


def test_a_tree_has_the_digest_of_operator_registry(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o750)
    catalog = hash_tree(write_odd_tree(tmp_path / "catalog"))
    assert f"{hash_tree(tmp_path / 'cache', catalog):016x}" == ODD_TREE_DIGEST


def test_owner_time_and_links_do_not_count(tmp_path: Path) -> None:
    root = write_odd_tree(tmp_path / "catalog")
    before = hash_tree(root)
    os.utime(root / "b.yaml", (1, 1))
    (root / "another").symlink_to("/")
    if not os.getuid():
        os.chown(root / "b.yaml", 1234, 1234)
        (root / "b.yaml").chmod(0o644)
    assert hash_tree(root) == before


def test_modes_names_and_contents_count(tmp_path: Path) -> None:
    root = write_odd_tree(tmp_path / "catalog")
    seen = {hash_tree(root)}
    (root / "b.yaml").chmod(0o664)
    seen.add(hash_tree(root))
    (root / "b.yaml").rename(root / "c.yaml")
    seen.add(hash_tree(root))
    (root / "c.yaml").write_bytes(b"x")
    seen.add(hash_tree(root))
    (root / "empty").chmod(0o755)
    seen.add(hash_tree(root))
    assert len(seen) == 5


def test_a_file_beyond_8_gib_gets_an_extended_header() -> None:
    header = tar_header("large", 0o644, 1 << 33, directory=False)
    assert b"19 size=8589934592\n" in header
    assert len(header) == 3 * 512


def test_a_named_pipe_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidCatalog, match="pipe: unsupported file type"):
        hash_tree(tmp_path)
