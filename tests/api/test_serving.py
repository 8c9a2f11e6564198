"""Servers of the public API; the tests of the commands cover what they answer."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from opmkit import CatalogError, Opm
from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

CATALOG = FIXTURES / "catalogs" / "valid"


def test_a_cache_is_built_and_enforced(tmp_path: Path) -> None:
    opm, cache = Opm(store=tmp_path / "store"), tmp_path / "cache"
    with pytest.raises(CatalogError, match="cache"):
        opm.build_catalog_cache(str(CATALOG), cache, enforce=True)
    opm.build_catalog_cache(str(CATALOG), cache)
    opm.build_catalog_cache(str(CATALOG), cache, enforce=True)
    assert any(cache.iterdir())


def test_a_catalog_is_served_until_the_timeout() -> None:
    program = (
        "import logging, sys; logging.basicConfig(level=logging.INFO); from opmkit import Opm, ServerSettings; "
        "Opm().serve_catalog(sys.argv[1], ServerSettings(port=0, processes=1, timeout=0))"
    )
    command = [sys.executable, "-c", program, str(CATALOG)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "timeout expired, shutting down" in done.stderr


def test_only_an_image_with_a_database_is_served_as_one(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="catalog directory"):
        Opm(store=tmp_path / "store").serve_database(tmp_path / "index.db", image=str(CATALOG))
    with pytest.raises(CatalogError, match="No such file"):
        Opm(store=tmp_path / "store").serve_database(tmp_path / "index.db")
