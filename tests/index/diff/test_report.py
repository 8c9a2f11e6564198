"""Reports of differences in Markdown."""

from __future__ import annotations

from opmkit.index.diff.differences import Difference, DifferenceKind
from opmkit.index.diff.report import MAX_FAILURES, gate_as_markdown


def test_table_of_a_failed_gate_is_limited() -> None:
    failure = Difference(DifferenceKind.REMOVED_BUNDLE, "a|b", bundle="`c`\n")
    report = gate_as_markdown([failure] * (MAX_FAILURES + 5), ["removed"])
    assert report.startswith(f"### Gate failed: {MAX_FAILURES + 5} differences of the kinds `removed`\n")
    assert report.count("| removed bundle | `a\\|b` |  | `` `c`\\n `` |  |") == MAX_FAILURES
    assert report.endswith("and 5 more")
