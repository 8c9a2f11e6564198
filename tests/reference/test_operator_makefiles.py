"""The Makefiles of public operators build their bundles with a wrapper in the place of operator-sdk.

``OPMKIT_OPERATOR_CHECKOUTS`` is a directory with a checkout of each operator, named like its repository.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit.operator_makefiles import MakefileRun, checkouts

CHECKOUTS = os.environ.get("OPMKIT_OPERATOR_CHECKOUTS", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHECKOUTS, reason="set OPMKIT_OPERATOR_CHECKOUTS to a directory of checkouts"),
]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "checkout", checkouts(Path(CHECKOUTS)) if CHECKOUTS else [Path("none")], ids=lambda path: path.name
)
def test_bundle_is_built_without_downloads(checkout: Path, tmp_path: Path) -> None:
    run = MakefileRun.prepare(checkout, tmp_path)
    run.check()
    assert run.problems == []
