"""Members of untrusted tar archives."""

from __future__ import annotations

import gzip
import os
import subprocess
import tarfile
import threading
from typing import TYPE_CHECKING

import pytest

from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.imagetools.archive import TarArchive, reader
from opmkit.imagetools.errors import InvalidImage, NotFound
from opmkit.imagetools.layer import Limits
from tests.imagetools.archive.helpers import write_tar_file
from tests.kit import zstd
from tests.kit.images import Member, directory, hardlink, member, symlink, tar
from tests.kit.requirements import require

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_members_are_read_concurrently_in_any_order(tmp_path: Path) -> None:
    contents = {f"d/{number}": os.urandom(300_000) for number in range(8)}
    archive = TarArchive.open(
        write_tar_file(tmp_path / "a.tar", directory("d/"), *map(member, contents, contents.values()))
    )
    read_contents: dict[str, bytes] = {}

    def read(name: str) -> None:
        with archive.stream(f"./{name}") as stream:
            read_contents[name] = stream.read()

    threads = [threading.Thread(target=read, args=(name,)) for name in reversed(contents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_contents == contents
    assert "d" not in archive
    assert archive.member("d/3").size == 300_000


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress])
def test_compressed_archives(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(compress(tar([member("x", b"1")])))
    assert TarArchive.open(tmp_path / "a").read("x", 10) == b"1"


def test_archive_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    content = tar([member("x", b"1" * 100_000)])
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
    writer.start()
    assert TarArchive.open(tmp_path / "pipe").read("x", 200_000) == b"1" * 100_000
    writer.join()


def test_links_within_the_archive(tmp_path: Path) -> None:
    links = [symlink("a/s", "../b/x"), hardlink("h", "./b/x"), symlink("c", "a/s"), symlink("up", "../../b/x")]
    archive = TarArchive.open(write_tar_file(tmp_path / "a.tar", *links, member("b/x", b"1")))
    for name in ("a/s", "h", "c", "up", "b/x"):
        assert name in archive
        assert archive.read(name, 10) == b"1"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([member("../x", b"1")], "'../x' points outside the archive"),
        ([member("a/../../x", b"1")], "points outside the archive"),
        ([member("x", b"1"), member("./x", b"2")], "duplicate member 'x'"),
        ([member("x", b"1"), symlink("x", "y")], "duplicate member 'x'"),
        ([member("x", kind=tarfile.CHRTYPE)], "'x' is a device or a named pipe"),
        ([member("x", kind=tarfile.FIFOTYPE)], "'x' is a device or a named pipe"),
        ([symlink("x", "y"), symlink("y", "x")], "'x': too many levels of links"),
        ([symlink("x", "x")], "too many levels of links"),
        ([symlink("x", "/etc/passwd")], "member 'x' not found"),
        ([symlink("x", "../../etc/passwd")], "member 'x' not found"),
        ([hardlink("x", "y")], "member 'x' not found"),
        ([], "member 'x' not found"),
        ([directory("x")], "member 'x' not found"),
    ],
)
def test_invalid_members(members: list[Member], message: str, tmp_path: Path) -> None:
    path = write_tar_file(tmp_path / "evil.tar", member("before", b""), *members)
    with pytest.raises(InvalidImage) as caught:
        TarArchive.open(path).read("x", 10)
    assert caught.value.message.startswith(f"{path}: ")
    assert message in caught.value.message
    assert str(caught.value.hint)


def test_sparse_member(tmp_path: Path) -> None:
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(1 << 20)
    subprocess.run([require("tar"), "--sparse", "-cf", "a.tar", "holes"], cwd=tmp_path, check=True)
    with pytest.raises(InvalidImage, match=r"'holes' is not a plain file"):
        TarArchive.open(tmp_path / "a.tar")


ARCHIVE = tar([member("first", b"1" * 5000), member("x", b"2" * 5000)])


@pytest.mark.parametrize("length", [0, 1, 511, 512, 3000, 5632, 6000, 6655, 6656, 8000, 11143])
def test_truncated_archives(length: int, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(ARCHIVE[:length])
    with pytest.raises(InvalidImage, match=r"a\.tar"):
        TarArchive.open(tmp_path / "a.tar").read("x", 10_000)
    (tmp_path / "a.tgz").write_bytes(gzip.compress(ARCHIVE)[: length // 100])
    with pytest.raises(InvalidImage, match=r"a\.tgz"):
        TarArchive.open(tmp_path / "a.tgz").read("x", 10_000)


@pytest.mark.parametrize("end", [b"", bytes(512), bytes(1024), bytes(10240)])
def test_end_blocks_are_optional(end: bytes, tmp_path: Path) -> None:
    whole = ARCHIVE.rstrip(b"\0")
    (tmp_path / "a.tar").write_bytes(whole + bytes(-len(whole) % 512) + end)
    assert TarArchive.open(tmp_path / "a.tar").read("x", 10_000) == b"2" * 5000


def damage_header(archive: bytes) -> bytes:
    """Break the checksum of the second header."""
    return archive[:5632] + b"?" + archive[5633:]


def negative_size(archive: bytes) -> bytes:
    """Set the size of the first member to -512, in base 256, with the right checksum."""
    header = bytearray(archive[:512])
    header[124:136] = (-512).to_bytes(12, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + archive[512:]


@pytest.mark.parametrize("damage", [damage_header, negative_size, lambda _: b"no tar at all" * 1000])
def test_damaged_archives(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(damage(ARCHIVE))
    with pytest.raises(InvalidImage, match=r"a\.tar"):
        TarArchive.open(tmp_path / "a.tar")


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tar_file(tmp_path / "a.tar", *(member(str(number)) for number in range(11)), member("big", bytes(100)))
    assert "10" in TarArchive.open(path)
    with pytest.raises(LimitExceeded, match=r"a\.tar: member 'big' exceeds the limit of 99 bytes"):
        TarArchive.open(path).read("big", 99)
    monkeypatch.setattr(reader, "MAX_MEMBERS", 11)
    with pytest.raises(LimitExceeded, match=r"a\.tar: exceeds the limit of 11 members"):
        TarArchive.open(path)
    bomb = tmp_path / "bomb"
    bomb.write_bytes(gzip.compress(bytes(3 << 20)))
    monkeypatch.setattr(reader, "DISK_LIMITS", Limits(total_bytes=2 << 20))
    with pytest.raises(LimitExceeded, match="bomb: exceeds the limit of 2097152 decompressed bytes"):
        TarArchive.open(bomb)


def test_large_header(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("x")
        info.pax_headers = {"comment": "c" * 100_000}
        archive.addfile(info)
    with pytest.raises(InvalidImage, match="header"):
        TarArchive.open(path)


def test_missing_archive(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="file does not exist"):
        TarArchive.open(tmp_path / "none.tar")
    with pytest.raises(DiskError, match="directory"):
        TarArchive.open(tmp_path)


def test_archive_truncated_while_it_is_read(tmp_path: Path) -> None:
    path = write_tar_file(tmp_path / "a.tar", member("x", bytes(5_000_000)))
    archive = TarArchive.open(path)
    os.truncate(path, 1_000_000)
    with pytest.raises(InvalidImage, match="truncated while it was read"):
        archive.read("x", 10_000_000)
