"""Archives are written reproducibly and atomically."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from opmkit.core.errors import DiskError
from opmkit.imagetools.archive import TarWriter
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.image import Image, load_image
from opmkit.imagetools.store import LayoutRepository
from tests.imagetools.archive.helpers import docker_image, write_archive


@pytest.mark.parametrize("kind", ["docker", "oci"])
def test_reproducible(kind: str, image: Image, tmp_path: Path) -> None:
    write_archive(tmp_path / "one.tar", image, kind)
    copy_image(image, LayoutRepository(tmp_path / "layout"), "1")
    write_archive(tmp_path / "two.tar", load_image(LayoutRepository(tmp_path / "layout"), "1"), kind)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    assert (tmp_path / "one.tar").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("kind", ["docker", "oci"])
def test_failed_write_leaves_the_old_archive(kind: str, image: Image, tmp_path: Path) -> None:
    for path in image.local_layers.values():
        path.write_bytes(path.read_bytes()[:-9] + b"something")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/old.tar").write_bytes(b"old")
    for name in ("old.tar", "new.tar"):
        with pytest.raises(ImageToolsError, match="sha256:"):
            write_archive(tmp_path / "out" / name, image, kind)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["old.tar"]
    assert (tmp_path / "out/old.tar").read_bytes() == b"old"


def test_destinations(image: Image, tmp_path: Path) -> None:
    (tmp_path / "link.tar").symlink_to("real.tar")
    write_archive(tmp_path / "link.tar", image)
    assert (tmp_path / "link.tar").is_symlink()
    assert docker_image(tmp_path / "real.tar").config == image.config
    write_archive(tmp_path / "new/directory/a.tar", image)
    for bad in (tmp_path, Path("/dev/null")):
        with pytest.raises(DiskError, match="is not a file"):
            write_archive(bad, image)
    assert Path("/dev/null").is_char_device()


class HeaderFile(io.BytesIO):
    """A file that stores the first block written at its start, and only counts other bytes."""

    header = b""
    position = 0

    def write(self, data: Any) -> int:
        if self.position == 0:
            self.header = data
        self.position += len(data)
        return len(data)

    def tell(self) -> int:
        return self.position

    def seek(self, position: int, _: int = 0) -> int:
        self.position = position
        return position


def test_header_of_a_member_above_8_gib() -> None:
    file, piece = HeaderFile(), bytes(1 << 26)
    assert TarWriter(file).stream("x", (piece for _ in range(130))) == 130 << 26
    assert tarfile.TarInfo.frombuf(file.header, "utf-8", "strict").size == 130 << 26
    assert file.position == 512 + (130 << 26)
