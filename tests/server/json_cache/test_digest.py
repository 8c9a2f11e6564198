"""Digests of caches, compared with those of operator-registry 1.73.0."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from opmkit.index.errors import InvalidCatalog
from opmkit.server.json_cache.digest import Fnv1a, fnv1a, hash_tree, tar_header
from tests.kit.cachedcatalog import ODD_TREE_DIGEST, write_odd_tree

if TYPE_CHECKING:
    from pathlib import Path


def plain_fnv1a(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


def test_fnv1a_test_vectors() -> None:
    published = {b"": 0xCBF29CE484222325, b"a": 0xAF63DC4C8601EC8C, b"foobar": 0x85944171F73967E8}
    assert {data: fnv1a(data) for data in published} == published


@pytest.mark.parametrize("seed", range(5))
def test_incremental_hash(seed: int) -> None:
    rng = random.Random(seed)
    pieces = [rng.randbytes(rng.choice([0, 1, 7, 3000])) for _ in range(20)]
    hasher = Fnv1a()
    for piece in pieces:
        hasher.update(piece)
        if rng.random() < 0.5:
            hasher = Fnv1a(hasher.value())
    assert hasher.value() == plain_fnv1a(b"".join(pieces))


def test_large_data() -> None:
    data = random.Random(1).randbytes((1 << 20) + 5)
    hasher = Fnv1a()
    hasher.update(data)
    assert hasher.value() == fnv1a(data)


def test_digest_equals_that_of_operator_registry(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o750)
    catalog = hash_tree(write_odd_tree(tmp_path / "catalog"))
    assert f"{hash_tree(tmp_path / 'cache', catalog):016x}" == ODD_TREE_DIGEST


def test_owners_times_and_links_are_ignored(tmp_path: Path) -> None:
    root = write_odd_tree(tmp_path / "catalog")
    before = hash_tree(root)
    os.utime(root / "b.yaml", (1, 1))
    (root / "another").symlink_to("/")
    if not os.getuid():
        os.chown(root / "b.yaml", 1234, 1234)
        (root / "b.yaml").chmod(0o644)
    assert hash_tree(root) == before


def test_modes_names_and_contents_change_the_digest(tmp_path: Path) -> None:
    root = write_odd_tree(tmp_path / "catalog")
    hashes = {hash_tree(root)}
    (root / "b.yaml").chmod(0o664)
    hashes.add(hash_tree(root))
    (root / "b.yaml").rename(root / "c.yaml")
    hashes.add(hash_tree(root))
    (root / "c.yaml").write_bytes(b"x")
    hashes.add(hash_tree(root))
    (root / "empty").chmod(0o755)
    hashes.add(hash_tree(root))
    assert len(hashes) == 5


def test_file_larger_than_8_gib_has_an_extended_header() -> None:
    header = tar_header("large", 0o644, 1 << 33, directory=False)
    assert b"19 size=8589934592\n" in header
    assert len(header) == 3 * 512


def test_named_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidCatalog, match="pipe: unsupported file type"):
        hash_tree(tmp_path)
