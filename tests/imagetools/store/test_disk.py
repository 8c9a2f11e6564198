"""Translation of errors of the operating system."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import StoreError
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from pathlib import Path


def test_disk_errors(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="Permission denied") as caught, disk_errors(tmp_path):
        raise PermissionError(13, "Permission denied", str(tmp_path))
    assert "OPM_STORE" in str(caught.value.hint)
    with pytest.raises(OSError, match="no errno"), disk_errors(tmp_path):
        raise OSError("no errno")
