"""Fixtures of the tests with a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.kit.opm import Opm


@pytest.fixture
def opm_http(opm: Opm) -> Opm:
    """Return the command in an empty working directory with ``--use-http``."""
    return replace(opm, flags=("--use-http",))
