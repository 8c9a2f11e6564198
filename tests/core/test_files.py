"""Translation of errors of the operating system."""

from __future__ import annotations

from pathlib import Path

import pytest

from opmkit.core.errors import DiskError
from opmkit.core.files import disk_errors, read_limited


def test_disk_errors(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="Permission denied") as caught, disk_errors(tmp_path):
        raise PermissionError(13, "Permission denied", str(tmp_path))
    assert "OPM_STORE" in str(caught.value.hint)
    with pytest.raises(OSError, match="no errno"), disk_errors(tmp_path):
        raise OSError("no errno")


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_name_that_no_file_can_have(name: str) -> None:
    with pytest.raises(DiskError, match="invalid path"), disk_errors(Path(name)):
        read_limited(Path(name))
