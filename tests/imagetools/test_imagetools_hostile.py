"""Hostile images are rejected with one error, or are harmless."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.forkserver import Command
from tests.kit.hostile import HOSTILE
from tests.kit.hostile_builders import HostileRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.forkserver import Done, ForkServer

MAX_MEMORY = 256 << 20
"""Bytes of memory that a command may use for any image."""


@pytest.fixture(scope="module")
def hostile_registry() -> Iterator[HostileRegistry]:
    with HostileRegistry() as registry:
        yield registry


def files_below(directory: Path) -> dict[Path, tuple[int, bytes]]:
    """Return the mode and content of all files below a directory."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path: (path.stat().st_mode, path.read_bytes()) for path in files}


def assert_result(done: Done, reference: str, expected_error: str) -> None:
    """Check that a command succeeds, or prints one error with this text and the name of the image."""
    errors = [line for line in done.output.splitlines() if line.startswith("Error: ")]
    assert "Traceback" not in done.output
    assert (done.status, len(errors)) == ((1, 1) if expected_error else (0, 0)), done.output
    assert all(expected_error in error and reference.rpartition(":")[0] in error for error in errors), done.output
    assert all(character.isprintable() or character == "\n" for character in done.output)
    assert done.memory < MAX_MEMORY


def assert_harmless(directory: Path) -> None:
    """Check that there are only files, directories and links within the directory, without setuid bits."""
    for path in directory.rglob("*"):
        mode = path.lstat().st_mode
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
        assert not mode & (stat.S_ISUID | stat.S_ISGID) or stat.S_ISLNK(mode)
        assert Path(os.path.realpath(path)).is_relative_to(directory.resolve())


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_images(name: str, forkserver: ForkServer, hostile_registry: HostileRegistry, tmp_path: Path) -> None:
    image = HOSTILE[name]
    reference = hostile_registry.put(re.sub("[^a-z0-9]+", "-", name.lower()), image.build())
    for directory in ("outside", "temp"):
        (tmp_path / directory).mkdir()
    (tmp_path / "outside/file").write_bytes(b"good")
    bundle, index = tmp_path / "bundle", tmp_path / "index"
    env = {"TMPDIR": str(tmp_path / "temp"), "OPM_STORE": str(tmp_path / "store")}
    add = ("index", "add", "-b", reference, "-i", "scratch", "-t", f"oci:{index}:1", "--use-http")
    before = files_below(tmp_path)

    (unpacked,) = forkserver.run([Command(["bundle", "unpack", reference, "--out", str(bundle), "--use-http"], env)])
    (added,) = forkserver.run([Command(add, env)])

    assert_result(unpacked, reference, image.error)
    assert_result(added, reference, image.index_add_error)
    assert (bundle.exists(), index.exists()) == (not image.error, not image.index_add_error)
    assert_harmless(bundle)
    for path, content in image.files.items():
        assert ((bundle / path).read_bytes() if (bundle / path).exists() else None) == content
    after = files_below(tmp_path)
    assert {path: after.get(path) for path in before} == before
    assert {path.name for path in tmp_path.iterdir()} <= {"outside", "temp", "store", "bundle", "index"}
    assert hostile_registry.unexpected_paths == []
