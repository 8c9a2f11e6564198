"""Catalogs made up at random, sound and broken: the newest reference tool comes to the same verdict on each.

``OPMKIT_REFERENCE_OPM_NEWEST`` names that tool, or else ``OPMKIT_REFERENCE_OPM`` if it is new enough.
``OPMKIT_CATALOGS`` is the number of catalogs (500), ``OPMKIT_CATALOGS_SEED`` what they are made from (0).
"""

from __future__ import annotations

import os
import random
import subprocess
from functools import cache
from typing import TYPE_CHECKING

import pytest

from opmkit.index.fbc.check.result import validate
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.load import load_directory
from tests.kit.brokencatalogs import break_catalog
from tests.kit.randomcatalogs import random_catalog, write_catalog

if TYPE_CHECKING:
    from pathlib import Path

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST") or os.environ.get("OPMKIT_REFERENCE_OPM", "")
COUNT, SEED = int(os.environ.get("OPMKIT_CATALOGS", "500")), int(os.environ.get("OPMKIT_CATALOGS_SEED", "0"))
SHARES = 10
"""Tests that the catalogs are dealt to."""


@cache
def is_new_enough() -> bool:
    """Whether the tool has the rules of the newest release, which came later than a form for its verdicts."""
    told = subprocess.run([REFERENCE, "validate", "--help"], capture_output=True, text=True, check=False)
    return "--output" in told.stdout


@pytest.mark.skipif(not REFERENCE, reason="no environment variable names the newest reference tool")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(SHARES))
def test_verdicts_are_those_of_the_reference(share: int, tmp_path: Path) -> None:
    if not is_new_enough():
        pytest.skip(f"{REFERENCE} is older than the rules")
    for seed in range(SEED + share, SEED + COUNT, SHARES):
        root = tmp_path / str(seed)
        root.mkdir()
        broken = made_up(seed, root)
        theirs = subprocess.run([REFERENCE, "validate", str(root)], capture_output=True, text=True, check=False)
        ours = validate(load_directory(root), Compat.NEWEST)
        assert ours.passed is (theirs.returncode == 0), (seed, broken, theirs.stderr, ours.errors)


def made_up(seed: int, root: Path) -> list[str]:
    """Write a catalog, of five one sound and the others with one or two things broken, and tell what these are."""
    dice = random.Random(seed)
    catalog = random_catalog(dice)
    broken = [break_catalog(dice, catalog) for _ in range(dice.randint(1, 2) if seed % 5 else 0)]
    write_catalog(dice, catalog, root)
    return broken
