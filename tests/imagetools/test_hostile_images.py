"""A corpus of malicious images: each is rejected with one clear error, or does no harm."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.forkserver import Command
from tests.kit.hostile import HOSTILE, HostileRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.forkserver import Done, ForkServer

MAX_MEMORY = 256 << 20
"""Maximum memory in bytes for reading an image."""


@pytest.fixture(scope="module")
def hostile_registry() -> Iterator[HostileRegistry]:
    with HostileRegistry() as started:
        yield started


def snapshot(directory: Path) -> dict[Path, tuple[int, bytes]]:
    """Return the modes and contents of all files below a directory."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path: (path.stat().st_mode, path.read_bytes()) for path in files}


def check_output(done: Done, reference: str, says: str) -> None:
    """Check that one error names the image and contains ``says``, or that there is none, and check the memory use."""
    errors = [line for line in done.output.splitlines() if line.startswith("Error: ")]
    assert "Traceback" not in done.output
    assert (done.status, len(errors)) == ((1, 1) if says else (0, 0)), done.output
    assert all(says in error and reference.rpartition(":")[0] in error for error in errors), done.output
    assert all(character.isprintable() or character == "\n" for character in done.output)
    assert done.memory < MAX_MEMORY


def check_tree(tree: Path) -> None:
    """Check that a tree has no special files and no links out of it."""
    for path in tree.rglob("*"):
        mode = path.lstat().st_mode
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
        assert not mode & (stat.S_ISUID | stat.S_ISGID) or stat.S_ISLNK(mode)
        assert Path(os.path.realpath(path)).is_relative_to(tree.resolve())


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_images(name: str, forkserver: ForkServer, hostile_registry: HostileRegistry, tmp_path: Path) -> None:
    image = HOSTILE[name]
    reference = hostile_registry.put(re.sub("[^a-z0-9]+", "-", name.lower()), image.make())
    for directory in ("outside", "temp"):
        (tmp_path / directory).mkdir()
    (tmp_path / "outside/file").write_bytes(b"good")
    tree, index = tmp_path / "tree", tmp_path / "index"
    env = {"TMPDIR": str(tmp_path / "temp"), "OPM_STORE": str(tmp_path / "store")}
    add = ("index", "add", "-b", reference, "-i", "scratch", "-t", f"oci:{index}:1", "--use-http")
    before = snapshot(tmp_path)

    (unpacked,) = forkserver.run([Command(["bundle", "unpack", reference, "--out", str(tree), "--use-http"], env)])
    (added,) = forkserver.run([Command(add, env)])

    check_output(unpacked, reference, image.says)
    check_output(added, reference, image.says_of_adding)
    assert (tree.exists(), index.exists()) == (not image.says, not image.says_of_adding)
    check_tree(tree)
    for path, content in image.holds.items():
        assert ((tree / path).read_bytes() if (tree / path).exists() else None) == content
    after = snapshot(tmp_path)
    assert {path: after.get(path) for path in before} == before
    assert {path.name for path in tmp_path.iterdir()} <= {"outside", "temp", "store", "tree", "index"}
    assert hostile_registry.asked == []
