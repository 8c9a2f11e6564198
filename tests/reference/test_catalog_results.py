"""Validation results of random valid and broken catalogs equal those of the newest Go opm.

``OPMKIT_REFERENCE_OPM_NEWEST`` is its path, or ``OPMKIT_REFERENCE_OPM`` if that is new enough. ``OPMKIT_CATALOGS`` is
the number of catalogs (500), ``OPMKIT_CATALOGS_SEED`` the first seed (0).
"""

from __future__ import annotations

import os
import random
import subprocess
from functools import cache
from typing import TYPE_CHECKING

import pytest

from opmkit.index.fbc.check.result import validate
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.load import load_directory
from tests.kit.brokencatalogs import break_catalog
from tests.kit.randomcatalogs import random_catalog, write_catalog

if TYPE_CHECKING:
    from pathlib import Path

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST") or os.environ.get("OPMKIT_REFERENCE_OPM", "")
COUNT, SEED = int(os.environ.get("OPMKIT_CATALOGS", "500")), int(os.environ.get("OPMKIT_CATALOGS_SEED", "0"))
SHARES = 10
"""Number of tests that share the catalogs."""


@cache
def is_new_enough() -> bool:
    """Return whether Go opm has the rules of the newest release, which is later than its ``validate --output``."""
    help_text = subprocess.run([REFERENCE, "validate", "--help"], capture_output=True, text=True, check=False)
    return "--output" in help_text.stdout


@pytest.mark.skipif(not REFERENCE, reason="set OPMKIT_REFERENCE_OPM_NEWEST to the path of the newest Go opm")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(SHARES))
def test_random_catalogs_pass_or_fail_as_in_go_opm(share: int, tmp_path: Path) -> None:
    if not is_new_enough():
        pytest.skip(f"{REFERENCE} is too old")
    for seed in range(SEED + share, SEED + COUNT, SHARES):
        root = tmp_path / str(seed)
        root.mkdir()
        broken = write_random_catalog(seed, root)
        theirs = subprocess.run([REFERENCE, "validate", str(root)], capture_output=True, text=True, check=False)
        ours = validate(load_directory(root), CatalogCompat.NEWEST)
        assert ours.passed is (theirs.returncode == 0), (seed, broken, theirs.stderr, ours.errors)


def write_random_catalog(seed: int, root: Path) -> list[str]:
    """Write a catalog with no changes (for every fifth seed), or one or two that break it, and return their names."""
    rng = random.Random(seed)
    catalog = random_catalog(rng)
    broken = [break_catalog(rng, catalog) for _ in range(rng.randint(1, 2) if seed % 5 else 0)]
    write_catalog(rng, catalog, root)
    return broken
