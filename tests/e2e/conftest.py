"""The command for the registries of the tests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.kit.opm import Opm


@pytest.fixture
def opm_http(opm: Opm) -> Opm:
    """The command in an empty working directory, for registries that speak plain HTTP."""
    return replace(opm, flags=("--use-http",))
