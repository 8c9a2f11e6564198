"""Run rules over one bundle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.profiles import Step
from opmkit.documents.lenient import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.profiles import Profile
    from opmkit.bundle.validation.rule import Rule

FORMAT = "format"
LABELS = "labels"
PACKAGE = "packagemanifest"
OPERATOR = "operator"
CRD_UPGRADE = "crd-upgrade"
MAX_FINDINGS = 1000
"""Listed findings of one rule in one bundle."""


def run_rules(bundle: BundleView, rules: Iterable[Rule]) -> Iterator[Finding]:
    """Yield the findings of the rules for the bundle's compatibility mode, in the order of the rules."""
    for rule in rules:
        if bundle.compat in rule.compat:
            yield from _run_rule(bundle, rule)


def _run_rule(bundle: BundleView, rule: Rule) -> Iterator[Finding]:
    """Yield the first findings of a rule, and one that counts the others, so that reports of any bundle are small."""
    omitted, severity = 0, Severity.WARNING
    for number, finding in enumerate(rule.run(bundle)):
        if number < MAX_FINDINGS:
            yield _locate(bundle, finding)
        else:
            omitted += 1
            severity = Severity.ERROR if finding.severity is Severity.ERROR else severity
    if omitted:
        yield Finding(
            f"{omitted} more findings of this rule, which are not listed",
            severity=severity,
            rule=rule.id,
            validator=rule.validator,
            hint="Correct the listed ones first.",
        )


class ProfileValidator(Struct, frozen=True):
    """Validates bundles with a profile and further ``optional`` validators."""

    profile: Profile
    optional: tuple[str, ...] = ()

    def __call__(self, bundle: BundleView) -> list[Finding]:
        """Return the findings, see `run_profile`."""
        return run_profile(bundle, self.profile, self.optional)

    def import_rules(self, compat: Compat) -> None:
        """Import the rules that run on a bundle in a compatibility mode."""
        from opmkit.bundle.validation.rule_registry import validators  # slow to import

        for step in self.profile.select_steps(compat, self.optional, validators()):
            for name in step.validators:
                validators().get(name)


def validate_labels(bundle: BundleView) -> list[Finding]:
    """Return the findings for the labels of the bundle's image."""
    from opmkit.bundle.validation.rule_registry import validators  # slow to import

    return list(run_rules(bundle, validators()[LABELS]))


def run_profile(bundle: BundleView, profile: Profile, optional: Iterable[str] = ()) -> list[Finding]:
    """Return the findings of a profile's validators and of the ``optional`` ones, until a step ends the run.

    The validator ``format`` is skipped for a bare manifests directory if the profile accepts one. For a directory in
    the package manifest format, only the validator ``packagemanifest`` runs, and for that of an operator, only
    ``operator``. Outside compatibility modes, a problem that several validators find is reported once.

    Raises:
        UnknownName: The profile has no optional validator of such a name.
    """
    from opmkit.bundle.validation.rule_registry import validators  # slow to import

    known, optional = validators(), tuple(optional)
    if _is_package(bundle):
        return list(run_rules(bundle, known[PACKAGE]))
    if profile.prepare and not bundle.operator:
        bundle = profile.prepare(bundle)
    findings = list(run_rules(bundle, known[OPERATOR])) if bundle.operator else []
    steps = [] if bundle.operator else profile.select_steps(bundle.compat, optional, known)
    if bundle.options.replaced_crds and not profile.all_validators:
        steps.append(Step((CRD_UPGRADE,)))
    for step in steps:
        skipped = {FORMAT} if bundle.bare and profile.accepts_bare else set()
        names = [name for name in step.validators if name not in skipped]
        step_findings = [finding for name in names for finding in run_rules(bundle, known.get(name, ()))]
        findings += step_findings
        if step.final and any(finding.severity is Severity.ERROR for finding in step_findings):
            break
    selected = frozenset(optional)
    reported = [
        profile.grade(finding, selected)
        for finding in findings
        if finding.severity is Severity.ERROR or profile.min_severity is Severity.WARNING
    ]
    return _deduplicate(reported) if bundle.compat is Compat.OPMKIT else reported


def _is_package(bundle: BundleView) -> bool:
    """Return whether the bundle is a directory in the package manifest format, see `is_package_directory`."""
    has_versions = bundle.bare and any(directory for directory in bundle.directories)
    return has_versions and any(text(file.object.get("packageName")) for file in bundle.files_in(""))


def _deduplicate(findings: Iterable[Finding]) -> list[Finding]:
    """Drop findings that another validator reported before at the same location."""
    first_validators: dict[object, str] = {}
    distinct = []
    for finding in findings:
        key = (finding.rule, finding.subject, finding.file, finding.line, finding.column)
        if first_validators.setdefault(key, finding.validator) == finding.validator:
            distinct.append(finding)
    return distinct


def _locate(bundle: BundleView, finding: Finding) -> Finding:
    """Add line, column and excerpt to a finding in a file of the bundle."""
    if finding.file not in bundle.files:
        return finding
    content = bundle.manifest(finding.file).content
    line, column = (finding.line, finding.column) if finding.line else content.locate(finding.path)
    return replace(finding, line=line, column=column, excerpt=content.excerpt(line))
