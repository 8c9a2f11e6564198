"""Tables of catalogs made up at random: the newest reference tool lists the same of each, or refuses it as well.

``OPMKIT_REFERENCE_OPM_NEWEST`` names that tool; ``OPMKIT_CATALOGS`` and ``OPMKIT_CATALOGS_SEED`` are those of the
verdicts.
"""

from __future__ import annotations

import os
import random
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.kit.brokencatalogs import break_catalog
from tests.kit.opm import run
from tests.kit.randomcatalogs import random_catalog, write_catalog

if TYPE_CHECKING:
    from pathlib import Path

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST", "")
COUNT, SEED = int(os.environ.get("OPMKIT_CATALOGS", "500")), int(os.environ.get("OPMKIT_CATALOGS_SEED", "0"))
SHARES = 10
TABLES = ("packages", "channels", "bundles")


@pytest.mark.skipif(not REFERENCE, reason="OPMKIT_REFERENCE_OPM_NEWEST does not name the reference tool")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(SHARES))
def test_tables_are_those_of_the_reference(share: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(SEED + share, SEED + COUNT, SHARES):
        root = tmp_path / str(seed)
        root.mkdir()
        dice = random.Random(seed)
        catalog = random_catalog(dice, packages=3)
        broken = [break_catalog(dice, catalog)] if seed % 5 == 0 else []
        write_catalog(dice, catalog, root)
        for table in TABLES:
            argv = ["alpha", "list", table, str(root)]
            theirs = subprocess.run([REFERENCE, *argv], capture_output=True, text=True, check=False)
            status = run(argv)
            told = capsys.readouterr()
            assert (status == 0) is (theirs.returncode == 0), (seed, broken, theirs.stderr, told.err)
            if status == 0:
                assert told.out == theirs.stdout or (
                    table == "packages" and same_but_for_more_names(told.out, theirs.stdout)
                ), (seed, table)


def same_but_for_more_names(ours: str, theirs: str) -> bool:
    """Whether the rows are the same, but for display names where the reference has none: we find more of them."""
    rows = [(line.split(), other.split()) for line, other in zip(ours.splitlines(), theirs.splitlines(), strict=True)]
    return all(mine == other or (len(other) == 2 and [mine[0], mine[-1]] == other) for mine, other in rows)
