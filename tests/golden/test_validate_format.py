"""Findings of the validator ``format`` compared with those of the Go validators on the corpora."""

from __future__ import annotations

import pytest

from opmkit.bundle.validation.compat import Compat
from tests.kit.shared import needs_shared
from tests.kit.validation import deviations, recorded_bundles

pytestmark = needs_shared


@pytest.mark.parametrize(
    ("compat", "corpora"), [(Compat.OPM_1_26, ("bundles", "invalid-api")), (Compat.NEWEST, ("invalid-api",))]
)
def test_format_findings_equal_the_recorded_ones(compat: Compat, corpora: tuple[str, ...]) -> None:
    """The newest release has no records for the corpus ``bundles``."""
    bundles = [bundle for bundle in recorded_bundles(compat, *corpora) if bundle.layout == "bundle"]
    assert len(bundles) > 300
    assert deviations(bundles, "format") == {}
