"""Results of `opm alpha bundle validate --tag` on the bundles of the corpora."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.profiles import PROFILES
from opmkit.bundle.validation.run import run_profile
from tests.kit.shared import SHARED, cases, needs_shared
from tests.kit.validation import view_of_directory

if TYPE_CHECKING:
    from tests.kit.shared import Case

pytestmark = needs_shared


@pytest.mark.parametrize("compat", [pytest.param(Compat.OPM_1_26, marks=pytest.mark.long), Compat.NEWEST])
@pytest.mark.parametrize("case", cases("bundle-validate"), ids=str)
def test_results_equal_the_record(case: Case, compat: Compat) -> None:
    record = case.record
    argv = record["argv"]
    optional = argv[argv.index("--optional-validators") + 1].split(",") if "--optional-validators" in argv else []
    root = SHARED / record["bundles_dir"]
    directories = {path.name.lower(): path for path in root.iterdir()} if case.name == "invalid" else {}
    results = {}
    for result in record["results"]:
        view = view_of_directory(directories.get(result["bundle"]) or root / result["bundle"], compat=compat)
        results[result["bundle"]] = "fail" if run_profile(view, PROFILES["opm"], optional) else "ok"
    assert len(results) >= 15
    assert results == {result["bundle"]: result["verdict"] for result in record["results"]}
