"""Directories that only their user can access."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from opmkit.core.errors import DiskError
from opmkit.core.files import private_directory

if TYPE_CHECKING:
    from pathlib import Path


def test_private_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = tmp_path / f"opmkit-{os.getuid()}"
    assert private_directory() == directory
    assert directory.stat().st_mode & 0o777 == 0o700
    directory.chmod(0o770)
    with pytest.raises(DiskError, match="only this user can write to"):
        private_directory()
    directory.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    directory.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DiskError, match="only this user can write to") as caught:
        private_directory()
    assert "TMPDIR" in str(caught.value.hint)
