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
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from opmkit.imagetools.errors import InvalidImage, StoreError
from opmkit.imagetools.layer import Compression, LayerFile, read_tree, write_layer
from opmkit.imagetools.spec import media_types, sha256_digest

if TYPE_CHECKING:
    from pathlib import Path


FILES = {"metadata/annotations.yaml": b"annotations: {}\n", "manifests/a.yaml": b"a: 1\n", "manifests/b.yaml": b""}


def test_order_time_and_umask_make_no_difference(tmp_path: Path) -> None:
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


def test_the_bytes_never_change(tmp_path: Path) -> None:
    """A new compressor, or another level, would give every image ever built another digest: it takes a decision."""
    rng = random.Random(7)
    words = [rng.randbytes(rng.randint(2, 9)).hex() for _ in range(500)]
    text = " ".join(rng.choices(words, k=60_000)).encode()
    layer = write_layer([LayerFile("database/index.db", text), LayerFile("é" * 80, b"x")], tmp_path)
    assert layer.diff_id == "sha256:dd3c641e4de22ac957f3ca2346c4b4c20c9f1a1d630b82233cf13294069545de"
    assert layer.descriptor.digest == "sha256:6fd6d258cb181027255a007b78a4ce533d2db4a6153eeeccdcc687c22ae47f32"


def test_what_is_in_the_archive(tmp_path: Path) -> None:
    files = [LayerFile("b/c/run", b"#!", mode=0o755), LayerFile("b-a", b"1"), LayerFile("b/a", b"22")]
    layer = write_layer(files, tmp_path, mtime=1_700_000_000)
    raw = gzip.decompress(layer.path.read_bytes())
    assert layer.diff_id == sha256_digest(raw)
    assert layer.descriptor.digest == sha256_digest(layer.path.read_bytes())
    assert layer.descriptor.size == layer.path.stat().st_size
    assert layer.descriptor.media_type == media_types.OCI_LAYER_GZIP
    assert len(raw) % tarfile.BLOCKSIZE == 0
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        found = [(entry.name, entry.mode, entry.isdir(), entry.size) for entry in archive]
        owners = {(entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime) for entry in archive}
    assert found == [
        ("b", 0o755, True, 0),
        ("b/a", 0o644, False, 2),
        ("b/c", 0o755, True, 0),
        ("b/c/run", 0o755, False, 2),
        ("b-a", 0o644, False, 1),
    ]
    assert owners == {(0, 0, "", "", 1_700_000_000)}


def test_the_gzip_header_names_neither_time_nor_system(tmp_path: Path) -> None:
    layer = write_layer([LayerFile("a", b"")], tmp_path, mtime=99)
    assert layer.path.read_bytes()[:10] == b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


@pytest.mark.parametrize("compression", Compression)
def test_compressions_share_the_diff_id(tmp_path: Path, compression: Compression) -> None:
    files = [LayerFile(path, content) for path, content in FILES.items()]
    layer = write_layer(files, tmp_path, compression=compression)
    decompress = {"gzip": gzip.decompress, "zstd": _unzstd, "none": bytes}[compression]
    assert sha256_digest(decompress(layer.path.read_bytes())) == layer.diff_id
    assert layer.diff_id == write_layer(files, tmp_path).diff_id
    assert read_tree([(layer.descriptor, lambda: layer.path.open("rb"))], [""]) == FILES


def _unzstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


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
def test_paths_that_a_layer_can_not_have(tmp_path: Path, paths: list[str]) -> None:
    with pytest.raises(InvalidImage) as caught:
        write_layer([LayerFile(path, b"") for path in paths], tmp_path)
    assert repr(paths[-1]) in caught.value.message
    assert list(tmp_path.iterdir()) == []


PATHS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=120), min_size=1)


@given(st.dictionaries(PATHS.map("/".join), st.binary(max_size=1200), max_size=6))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    scratch = tmp_path_factory.mktemp("layer")
    try:
        layer = write_layer([LayerFile(path, content) for path, content in files.items()], scratch)
    except InvalidImage:
        return
    assert read_tree([(layer.descriptor, lambda: layer.path.open("rb"))], [""]) == files


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="gone"):
        write_layer([LayerFile("a", tmp_path / "gone")], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """The limit on a file's size stands in for the end of the disk."""
    script = """
import resource, sys
from pathlib import Path
from opmkit.imagetools.errors import StoreError
from opmkit.imagetools.layer import LayerFile, write_layer
import random
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_layer([LayerFile("a", random.Random(1).randbytes(500_000))], Path(sys.argv[1]))
except StoreError as error:
    print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_large_file_takes_no_memory(tmp_path: Path) -> None:
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
