"""The validators of layout, loading and kinds against what the references found in the bundles of the corpora."""

from __future__ import annotations

import pytest

from opmkit.bundle.validation.compat import Compat
from tests.kit.shared import needs_shared
from tests.kit.validation import deviations, judged

pytestmark = needs_shared


@pytest.mark.parametrize(
    ("compat", "corpora"), [(Compat.OPM_1_26, ("bundles", "invalid-api")), (Compat.NEWEST, ("invalid-api",))]
)
def test_the_format_of_bundles_is_judged_as_recorded(compat: Compat, corpora: tuple[str, ...]) -> None:
    """Format is judged of bundles alone; the newer reference was not asked about those of the catalogs."""
    bundles = [one for one in judged(compat, *corpora) if one.layout == "bundle"]
    assert len(bundles) > 300
    assert deviations(bundles, "format") == {}
