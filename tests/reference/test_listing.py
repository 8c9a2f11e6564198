"""Lists of random catalogs equal those of the newest Go opm, which fails for the same ones.

``OPMKIT_REFERENCE_OPM_NEWEST`` is its path; ``OPMKIT_CATALOGS`` and ``OPMKIT_CATALOGS_SEED`` are those of
``test_catalog_results``.
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


@pytest.mark.skipif(not REFERENCE, reason="set OPMKIT_REFERENCE_OPM_NEWEST to the path of the newest Go opm")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(SHARES))
def test_lists_equal_those_of_go_opm(share: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(SEED + share, SEED + COUNT, SHARES):
        root = tmp_path / str(seed)
        root.mkdir()
        rng = random.Random(seed)
        catalog = random_catalog(rng, packages=3)
        broken = [break_catalog(rng, catalog)] if seed % 5 == 0 else []
        write_catalog(rng, catalog, root)
        for table in TABLES:
            argv = ["alpha", "list", table, str(root)]
            theirs = subprocess.run([REFERENCE, *argv], capture_output=True, text=True, check=False)
            status = run(argv)
            captured = capsys.readouterr()
            assert (status == 0) is (theirs.returncode == 0), (seed, broken, theirs.stderr, captured.err)
            if status == 0:
                assert captured.out == theirs.stdout or (
                    table == "packages" and equal_except_additional_names(captured.out, theirs.stdout)
                ), (seed, table)


def equal_except_additional_names(ours: str, theirs: str) -> bool:
    """Return whether the rows are equal, except that opmkit finds display names that Go opm omits."""
    rows = [(line.split(), other.split()) for line, other in zip(ours.splitlines(), theirs.splitlines(), strict=True)]
    return all(mine == other or (len(other) == 2 and [mine[0], mine[-1]] == other) for mine, other in rows)
