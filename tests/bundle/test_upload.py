"""Archives of bundle directories; tests/e2e/test_service.py has hostile ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.upload import MAX_ARCHIVE_SIZE, unpack_archive
from opmkit.core.errors import DiskError, LimitExceeded

if TYPE_CHECKING:
    from pathlib import Path


def test_large_archives_are_not_read(tmp_path: Path) -> None:
    archive = tmp_path / "upload"
    with archive.open("wb") as file:
        file.truncate(MAX_ARCHIVE_SIZE + 1)
    with pytest.raises(LimitExceeded, match="upload: exceeds the limit"):
        unpack_archive(archive, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_missing_archives_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="No such file"):
        unpack_archive(tmp_path / "missing", tmp_path / "bundle")
