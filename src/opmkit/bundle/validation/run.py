"""Running rules over a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.validation.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.bundle.validation.bundle import BundleView
    from opmkit.bundle.validation.rule import Fault, Rule


def run_rules(bundle: BundleView, rules: Iterable[Rule]) -> Iterator[Finding]:
    """What the rules that hold in the bundle's dialect find, in the order of the rules."""
    for one in rules:
        if bundle.dialect in one.dialects:
            for fault in one.check(bundle):
                yield _finding(bundle, one, fault)


def _finding(bundle: BundleView, rule: Rule, fault: Fault) -> Finding:
    line, column, excerpt = fault.line, fault.column, ""
    if fault.file in bundle.files:
        content = bundle.manifest(fault.file).content
        if not line:
            line, column = content.locate(fault.path)
        excerpt = content.excerpt(line)
    return Finding(
        rule.id,
        rule.validator,
        fault.severity or rule.severity,
        fault.message,
        fault.remedy or rule.remedy,
        fault.subject,
        fault.file,
        line,
        column,
        excerpt,
    )
