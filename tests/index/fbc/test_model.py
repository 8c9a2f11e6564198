"""Catalogs as values."""

from __future__ import annotations

from pathlib import Path

import pytest

from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.load import load_files, read_blobs
from opmkit.index.fbc.model import Catalog

CATALOGS = Path(__file__).parents[3] / "fixtures" / "catalogs"


def test_valid_catalog() -> None:
    packages = Catalog.from_blobs(read_blobs(CATALOGS / "valid")).packages
    assert list(packages) == ["demo", "extra"]
    demo = packages["demo"]
    assert (demo.default_channel, list(demo.channels), len(demo.bundles)) == ("stable", ["alpha", "stable"], 3)
    assert demo.channels["alpha"].heads == ("demo.v1.1.0",)
    assert demo.channels["alpha"].entries["demo.v1.1.0"].skips == ("demo.v1.0.1",)


def test_invalid_catalog_is_rejected_with_all_errors() -> None:
    raw = (CATALOGS / "invalid" / "bundle-version.yaml").read_bytes()
    blobs = load_files([("catalog.yaml", raw)]).blobs
    with pytest.raises(InvalidCatalog) as error:
        Catalog.from_blobs(blobs)
    assert error.value.message.count("is not a semantic version") == 3
