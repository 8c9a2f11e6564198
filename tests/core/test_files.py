"""Translation of errors of the operating system."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.core.errors import DiskError
from opmkit.core.files import disk_errors

if TYPE_CHECKING:
    from pathlib import Path


def test_disk_errors(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="Permission denied") as caught, disk_errors(tmp_path):
        raise PermissionError(13, "Permission denied", str(tmp_path))
    assert "OPM_STORE" in str(caught.value.hint)
    with pytest.raises(OSError, match="no errno"), disk_errors(tmp_path):
        raise OSError("no errno")
