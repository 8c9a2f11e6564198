"""The rule of findings of external validators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.external import RULE
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import BundleView


@rule(
    RULE,
    "external",
    Severity.ERROR,
    "finding of an external validator",
    hint="See the documentation of the external validator.",
    bad='{"Name": "demo", "Errors": [{"Detail": "the license is missing"}], "Warnings": []}',
    good='{"Name": "demo", "Errors": [], "Warnings": []}',
    variable_severity=True,
)
def external(_bundle: BundleView) -> Iterator[Finding]:
    """External validators are programs. They print findings as JSON, and determine their severities."""
    return iter(())
