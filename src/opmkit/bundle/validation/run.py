"""Running rules over a bundle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.bundle_view import text
from opmkit.bundle.validation.rule import Dialect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.profiles import Profile
    from opmkit.bundle.validation.rule import Fault, Rule

FORMAT = "format"
LABELS = "labels"
PACKAGE = "packagemanifest"


def run_rules(bundle: BundleView, rules: Iterable[Rule]) -> Iterator[Finding]:
    """What the rules that hold in the bundle's dialect find, in the order of the rules."""
    for one in rules:
        if bundle.dialect in one.dialects:
            for fault in one.check(bundle):
                yield _finding(bundle, one, fault)


@dataclass(frozen=True, slots=True)
class ProfileJudge:
    """Judges bundles by a profile and the ``optional`` validators asked for by name."""

    profile: Profile
    optional: tuple[str, ...] = ()

    def __call__(self, bundle: BundleView) -> list[Finding]:
        """Do as `run_profile` does."""
        return run_profile(bundle, self.profile, self.optional)


def judge_labels(bundle: BundleView) -> list[Finding]:
    """Judge the labels of a bundle's image."""
    from opmkit.bundle.validation.rule_registry import validators  # all rules, which take a while to load

    return list(run_rules(bundle, validators()[LABELS]))


def run_profile(bundle: BundleView, profile: Profile, optional: Iterable[str] = ()) -> list[Finding]:
    """What the validators of a profile find, and those asked for by name, until a step ends the run.

    A directory of manifests alone has no format to judge, and that of a package manifest has no other validator.
    Where validators repeat each other, our own dialect tells each fault but once.

    Raises:
        UnknownName: for an optional validator that the profile does not have.
    """
    from opmkit.bundle.validation.rule_registry import validators  # all rules, which take a while to load

    known = validators()
    if _is_package(bundle):
        return list(run_rules(bundle, known[PACKAGE]))
    found: list[Finding] = []
    for step in profile.chosen(bundle.dialect, optional, known):
        names = [name for name in step.validators if name != FORMAT or not bundle.bare]
        told = [finding for name in names for finding in run_rules(bundle, known.get(name, ()))]
        found += told
        if step.final and any(finding.severity is Severity.ERROR for finding in told):
            break
    shown = [one for one in found if one.severity is Severity.ERROR or profile.least is Severity.WARNING]
    return _once(shown) if bundle.dialect is Dialect.OPMKIT else shown


def _is_package(bundle: BundleView) -> bool:
    """Return whether the bundle is a directory in the package manifest format, see `is_package_directory`."""
    has_versions = bundle.bare and any(directory for directory in bundle.directories)
    return has_versions and any(text(file.object.get("packageName")) for file in bundle.below(""))


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """The findings without those that another validator told before of the same place."""
    tellers: dict[object, str] = {}
    kept = []
    for one in findings:
        key = (one.rule, one.subject, one.file, one.line, one.column)
        if tellers.setdefault(key, one.validator) == one.validator:
            kept.append(one)
    return kept


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
