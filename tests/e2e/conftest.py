"""The command in a directory of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.opm import Opm

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def opm(tmp_path: Path) -> Opm:
    """The command in an empty working directory."""
    return Opm(tmp_path)


@pytest.fixture
def opm_http(tmp_path: Path) -> Opm:
    """The same, for registries that speak plain HTTP."""
    return Opm(tmp_path, flags=("--use-http",))
