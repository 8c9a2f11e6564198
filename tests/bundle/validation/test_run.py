"""Running of rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY, Compat
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.run import MAX_FINDINGS, run_rules
from tests.kit.validation import view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.validation.bundle_view import BundleView


@rule("DEMO-KIND", "demo", Severity.WARNING, "a kind", hint="name another", compat=OPMKIT_ONLY, variable_severity=True)
def _demo(bundle: BundleView) -> Iterator[Finding]:
    """All of them."""
    for manifest in bundle.manifests:
        yield Finding("it has a kind", manifest.path, ("kind",), manifest.kind, severity=Severity.WARNING)
    yield Finding("as a whole", hint="start again")


def test_findings_are_completed_by_their_rule() -> None:
    bundle = view({"manifests/a.yaml": b"\nkind: A\n"})
    assert list(run_rules(bundle, [_demo])) == [
        Finding(
            *("it has a kind", "manifests/a.yaml", ("kind",), "A", "name another", 2, 1),
            severity=Severity.WARNING,
            rule="DEMO-KIND",
            validator="demo",
        ),
        Finding("as a whole", hint="start again", rule="DEMO-KIND", validator="demo"),
    ]
    severities = [finding.severity for finding in run_rules(bundle, [replace(_demo, variable_severity=False)])]
    assert severities == [Severity.WARNING, Severity.WARNING]
    assert _demo.explanation == "All of them."
    assert list(run_rules(view(bundle.files, compat=Compat.NEWEST), [_demo])) == []


@rule("DEMO-MANY", "demo", Severity.WARNING, "many", hint="fewer", variable_severity=True)
def _many(bundle: BundleView) -> Iterator[Finding]:
    """Many."""
    for number in range(MAX_FINDINGS + 2):
        severity = Severity.ERROR if number == MAX_FINDINGS + 1 else Severity.WARNING
        yield Finding(f"finding {number}", severity=severity)


def test_more_findings_of_a_rule_than_reports_can_hold_are_counted() -> None:
    *listed, last = run_rules(view({}), [_many])
    assert [finding.message for finding in listed] == [f"finding {number}" for number in range(MAX_FINDINGS)]
    assert (last.message, last.rule) == ("2 more findings of this rule, which are not listed", "DEMO-MANY")
    assert last.severity is Severity.ERROR  # as one of those that are not listed
