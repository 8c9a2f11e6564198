"""Reports of differences in Markdown."""

from __future__ import annotations

from opmkit.bundle.permissions.kinds import Danger, DangerKind, PermissionScope
from opmkit.index.diff.differences import Difference, DifferenceKind, list_differences
from opmkit.index.diff.model import ChangeKind, IndexDiff, PackageChange
from opmkit.index.diff.report import MAX_FAILURES, diff_as_markdown, diff_as_text, gate_as_markdown
from opmkit.index.fbc.permissions import PermissionChange


def test_table_of_a_failed_gate_is_limited() -> None:
    failure = Difference(DifferenceKind.REMOVED_BUNDLE, "a|b", bundle="`c`\n")
    report = gate_as_markdown([failure] * (MAX_FAILURES + 5), ["removed"])
    assert report.startswith(f"### Gate failed: {MAX_FAILURES + 5} differences of the kinds `removed`\n")
    assert report.count("| removed bundle | `a\\|b` |  | `` `c`\\n `` |  |") == MAX_FAILURES
    assert report.endswith("and 5 more")


def test_updates_with_dangerous_permissions() -> None:
    danger = Danger(DangerKind.SECRETS, "read all secrets", PermissionScope.CLUSTER, "reef\x1b")
    changes = (
        PermissionChange("reef", "reef.v1", "reef.v2", (danger,)),
        PermissionChange("reef", "reef.v1", "reef.v3", problem="broken"),
    )
    diff = IndexDiff((PackageChange(ChangeKind.CHANGED, "reef", "a", "b", (), ()),), permissions=changes)
    assert diff_as_text(diff).splitlines()[-2:] == [
        "! reef.v1 to reef.v2: reef\\x1b may now read all secrets in every namespace (secrets)",
        "! reef.v1 to reef.v3: broken",
    ]
    assert "### Updates with dangerous permissions\n\n| Package | New permissions |\n" in diff_as_markdown(diff)
    *_, first, second = list_differences(diff)
    assert (first.kind, first.package, first.bundle) == (DifferenceKind.GAINED_PERMISSION, "reef", "reef.v2")
    assert (second.bundle, second.details) == ("reef.v3", "reef.v1 to reef.v3: broken")
    assert diff.to_dict()["permissions"][1]["problem"] == "broken"
