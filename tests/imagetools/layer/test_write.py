"""Writing of reproducible layers."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import random
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.core.errors import DiskError
from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.layer import LayerFile, read_tree, write_layer
from opmkit.imagetools.spec import media_types, sha256_digest

if TYPE_CHECKING:
    from pathlib import Path


FILES = {"metadata/annotations.yaml": b"annotations: {}\n", "manifests/a.yaml": b"a: 1\n", "manifests/b.yaml": b""}


def test_reproducible(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(FILES["manifests/a.yaml"])
    files = [LayerFile(path, content) for path, content in FILES.items()]
    expected = write_layer(files, tmp_path)
    from_disk = [file if file.path != "manifests/a.yaml" else LayerFile(file.path, source) for file in files]
    os.utime(source, (5, 5))
    before = os.umask(0o077)
    try:
        again = write_layer(reversed(from_disk), tmp_path)
    finally:
        os.umask(before)
    assert (again.descriptor, again.diff_id) == (expected.descriptor, expected.diff_id)


def test_digest_does_not_change_between_versions(tmp_path: Path) -> None:
    """Another compressor or compression level would change the digests of all images."""
    rng = random.Random(7)
    words = [rng.randbytes(rng.randint(2, 9)).hex() for _ in range(500)]
    text = " ".join(rng.choices(words, k=60_000)).encode()
    layer = write_layer([LayerFile("database/index.db", text), LayerFile("é" * 80, b"x")], tmp_path)
    assert layer.diff_id == "sha256:dd3c641e4de22ac957f3ca2346c4b4c20c9f1a1d630b82233cf13294069545de"
    assert layer.descriptor.digest == "sha256:6fd6d258cb181027255a007b78a4ce533d2db4a6153eeeccdcc687c22ae47f32"


def test_archive_members(tmp_path: Path) -> None:
    files = [LayerFile("b/c/run", b"#!", mode=0o755), LayerFile("b-a", b"1"), LayerFile("b/a", b"22")]
    layer = write_layer(files, tmp_path, mtime=1_700_000_000)
    raw = gzip.decompress(layer.path.read_bytes())
    assert layer.diff_id == sha256_digest(raw)
    assert layer.descriptor.digest == sha256_digest(layer.path.read_bytes())
    assert layer.descriptor.size == layer.path.stat().st_size
    assert layer.descriptor.media_type == media_types.OCI_LAYER_GZIP
    assert len(raw) % tarfile.BLOCKSIZE == 0
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        members = [(entry.name, entry.mode, entry.isdir(), entry.size) for entry in archive]
        owners = {(entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime) for entry in archive}
    assert members == [
        ("b", 0o755, True, 0),
        ("b/a", 0o644, False, 2),
        ("b/c", 0o755, True, 0),
        ("b/c/run", 0o755, False, 2),
        ("b-a", 0o644, False, 1),
    ]
    assert owners == {(0, 0, "", "", 1_700_000_000)}


@pytest.mark.parametrize(
    "paths",
    [
        ["/a"],
        ["../a"],
        ["a/../b"],
        ["a//b"],
        ["./a"],
        [""],
        ["a/"],
        ["a\0b"],
        ["x/.wh.a"],
        [".wh..wh..opq"],
        ["a", "a"],
        ["a", "a/b"],
    ],
)
def test_invalid_paths(tmp_path: Path, paths: list[str]) -> None:
    with pytest.raises(InvalidImage) as caught:
        write_layer([LayerFile(path, b"") for path in paths], tmp_path)
    assert repr(paths[-1]) in caught.value.message
    assert list(tmp_path.iterdir()) == []


PATHS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=120), min_size=1)


@pytest.mark.slow
@given(st.dictionaries(PATHS.map("/".join), st.binary(max_size=1200), max_size=6))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    scratch = tmp_path_factory.mktemp("layer")
    try:
        layer = write_layer([LayerFile(path, content) for path, content in files.items()], scratch)
    except InvalidImage:
        return
    assert read_tree([(layer.descriptor, lambda: layer.path.open("rb"))], [""]) == files


def test_missing_source(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="gone"):
        write_layer([LayerFile("a", tmp_path / "gone")], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_full_disk(tmp_path: Path) -> None:
    """Simulate a full disk with a limit on the size of files."""
    script = """
import resource, sys
from pathlib import Path
from opmkit.core.errors import DiskError
from opmkit.imagetools.layer import LayerFile, write_layer
import random
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_layer([LayerFile("a", random.Random(1).randbytes(500_000))], Path(sys.argv[1]))
except DiskError as error:
    print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_large_file_in_constant_memory(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        for number in range(100):
            file.write(hashlib.sha256(b"%d" % number).digest() * (1 << 15))
    script = """
import resource, sys
from pathlib import Path
from opmkit.imagetools.layer import LayerFile, read_tree, write_layer
write_layer([LayerFile("small", b"")], Path(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
write_layer([LayerFile("large", Path(sys.argv[2]))], Path(sys.argv[1]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    command = [sys.executable, "-c", script, str(tmp_path), str(large)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20_000  # KiB, for 100 MiB
