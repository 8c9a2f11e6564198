"""Rules of the validator ``format`` about dependencies: what a bundle requires of other bundles."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, cast

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.cel import DISTRIBUTION, CompilerMissing, compile_problem
from opmkit.bundle.validation.compat import OPMKIT_ONLY, Compat
from opmkit.bundle.validation.dependencies import CEL, GVK, LABEL, PACKAGE, Dependencies, Requirement, read_dependencies
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.rules.format import VALIDATOR, is_laid_out
from opmkit.bundle.versions import VersionRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.rule import Check

_HEAD = "dependencies:\n- type: "
_GVK = f"{_HEAD}olm.gvk\n  value: "
_PACKAGE = f"{_HEAD}olm.package\n  value: "
_CONSTRAINT = f"{_HEAD}olm.constraint\n  value: "
_GOOD_GVK = f"{_GVK}{{group: example.com, version: v1, kind: Demo}}"
_GOOD_PACKAGE = f"{_PACKAGE}{{packageName: demo, version: '>=1.0.0 <2.0.0'}}"
_GOOD_CEL = f"{_CONSTRAINT}\n    cel: {{rule: \"properties.exists(p, p.type == 'certified')\"}}"


def _found(bundle: BundleView) -> Dependencies:
    return read_dependencies(bundle) if is_laid_out(bundle) else Dependencies()


def each(kind: str) -> Callable[[Callable[[Requirement], Iterable[Finding]]], Check]:
    """Make a check of a function that judges one requirement of a type; its faults leave their file open."""

    def decorate(judge: Callable[[Requirement], Iterable[Finding]]) -> Check:
        @wraps(judge)
        def check(bundle: BundleView) -> Iterator[Finding]:
            found = _found(bundle)
            for requirement in found.requirements:
                if requirement.type == kind:
                    for finding in judge(requirement):
                        yield replace(finding, file=found.file)

        return cast("Check", check)

    return decorate


@rule(
    "DEP-UNPARSABLE",
    VALIDATOR,
    Severity.ERROR,
    "a dependency can't be read",
    hint="Write it as a type (olm.gvk, olm.package, olm.label or olm.constraint) and the value of that type.",
    bad=f"{_HEAD}olm.crd\n  value: {{name: demos.example.com}}",
    good=_GOOD_GVK,
)
def unparsable(bundle: BundleView) -> Iterator[Finding]:
    """A dependency that the resolver can't read is one on nothing: the operator is installed without what it needs.

    The type must be one of the four, and the value a mapping of texts; a text that holds JSON is none.
    """
    found = _found(bundle)
    for finding in found.unreadable:
        yield replace(finding, file=found.file)


def _empty(requirement: Requirement, member: str) -> Iterator[Finding]:
    if not requirement.members[member]:
        yield Finding(f"the {member} of the required API is empty", path=requirement.at(member))


@rule(
    "DEP-GVK-GROUP",
    VALIDATOR,
    Severity.ERROR,
    "a required API has no group",
    hint="Name the group of the API, such as example.com.",
    bad=f"{_GVK}{{version: v1, kind: Demo}}",
    good=_GOOD_GVK,
)
@each(GVK)
def gvk_group(requirement: Requirement) -> Iterator[Finding]:
    """An API is known by its group, version and kind together."""
    return _empty(requirement, "group")


@rule(
    "DEP-GVK-VERSION",
    VALIDATOR,
    Severity.ERROR,
    "a required API has no version",
    hint="Name the version of the API, such as v1.",
    bad=f"{_GVK}{{group: example.com, kind: Demo}}",
    good=_GOOD_GVK,
)
@each(GVK)
def gvk_version(requirement: Requirement) -> Iterator[Finding]:
    """An API is known by its group, version and kind together."""
    return _empty(requirement, "version")


@rule(
    "DEP-GVK-KIND",
    VALIDATOR,
    Severity.ERROR,
    "a required API has no kind",
    hint="Name the kind of the API's objects.",
    bad=f"{_GVK}{{group: example.com, version: v1}}",
    good=_GOOD_GVK,
)
@each(GVK)
def gvk_kind(requirement: Requirement) -> Iterator[Finding]:
    """An API is known by its group, version and kind together."""
    return _empty(requirement, "kind")


@rule(
    "DEP-PACKAGE-NAME",
    VALIDATOR,
    Severity.ERROR,
    "a required package has no name",
    hint="Name the package in packageName.",
    bad=f"{_PACKAGE}{{name: demo, version: '>=1.0.0'}}",
    good=_GOOD_PACKAGE,
)
@each(PACKAGE)
def package_name(requirement: Requirement) -> Iterator[Finding]:
    """The package is found by its name, which stands in ``packageName``."""
    if not requirement.members["packageName"]:
        yield Finding("the packageName of the required package is empty", path=requirement.at("packageName"))


@rule(
    "DEP-PACKAGE-VERSION",
    VALIDATOR,
    Severity.ERROR,
    "a required package has no range of versions",
    hint="Give a range, such as >=1.0.0 <2.0.0: as version in olm.package, as versionRange in a constraint.",
    bad=f"{_PACKAGE}{{packageName: demo, versionRange: '>=1.0.0'}}",
    good=_GOOD_PACKAGE,
)
@each(PACKAGE)
def package_version(requirement: Requirement) -> Iterator[Finding]:
    """Which versions will do has to be said, even if all do (``>=0.0.0``)."""
    if not requirement.members["version"]:
        yield Finding("the required package has no range of versions", path=requirement.path)


@rule(
    "DEP-PACKAGE-RANGE",
    VALIDATOR,
    Severity.ERROR,
    "the range of versions of a required package can't be read",
    hint="Write comparisons of full versions with spaces between, and || between alternatives: >=1.0.0 <2.0.0 || 3.x",
    bad=f"{_PACKAGE}{{packageName: demo, version: '^1.0'}}",
    good=_GOOD_PACKAGE,
)
def package_range(bundle: BundleView) -> Iterator[Finding]:
    """A range is made of ``=``, ``!``, ``<``, ``<=``, ``>``, ``>=`` and full versions, or wildcards such as ``1.2.x``.

    All that stand side by side must hold. ``||`` stands alone, between spaces, and separates alternatives. The
    references accept an alternative without versions (``1.0.0 || || 2.0.0``), on which the resolver breaks down.
    """
    found = _found(bundle)
    for requirement in found.requirements:
        if requirement.type == PACKAGE and (text := requirement.members["version"]):
            problem = _range_problem(text, complete=bundle.compat is Compat.OPMKIT)
            member = "versionRange" if "package" in requirement.path else "version"
            if problem:
                yield Finding(f"the range {text[:200]!r} can't be read: {problem}", found.file, requirement.at(member))


def _range_problem(text: str, *, complete: bool) -> str:
    try:
        versions = VersionRange.parse(text)
    except ValueError as error:
        return str(error)
    return "it has an alternative without versions" if complete and not versions.is_complete else ""


@rule(
    "DEP-LABEL",
    VALIDATOR,
    Severity.ERROR,
    "a required label is empty",
    hint="Name the label.",
    bad=f"{_HEAD}olm.label\n  value: {{name: certified}}",
    good=f"{_HEAD}olm.label\n  value: {{label: certified}}",
)
@each(LABEL)
def label(requirement: Requirement) -> Iterator[Finding]:
    """The resolver looks for a bundle with a property ``olm.label`` of that text."""
    if not requirement.members["label"]:
        yield Finding("the required label is empty", path=requirement.path)


@rule(
    "DEP-CEL-MISSING",
    VALIDATOR,
    Severity.ERROR,
    "a constraint constrains nothing",
    hint="Give it one of cel, package, gvk, all, any and not.",
    bad=f"{_CONSTRAINT}{{failureMessage: a certified operator is needed}}",
    good=_GOOD_CEL,
)
@each(CEL)
def cel_missing(requirement: Requirement) -> Iterator[Finding]:
    """A constraint needs something that must hold. The references know rules (``cel``) alone."""
    if not requirement.members:
        yield Finding("the constraint has nothing that must hold, such as a rule (cel)", path=requirement.path)


@rule(
    "DEP-CEL-RULE",
    VALIDATOR,
    Severity.ERROR,
    "the rule of a constraint is empty",
    hint="Write a rule in cel.rule.",
    bad=f"{_CONSTRAINT}{{cel: {{rule: ''}}}}",
    good=_GOOD_CEL,
)
@each(CEL)
def cel_rule(requirement: Requirement) -> Iterator[Finding]:
    """The rule is an expression in the Common Expression Language that is true for the bundles that will do."""
    if requirement.members.get("rule") == "":
        yield Finding("the rule of the constraint is empty", path=requirement.at("rule"))


_NO_COMPILER = (
    f"Install {DISTRIBUTION}, or validate the bundle on a platform that has wheels of it: "
    "macOS, or Linux with glibc 2.27 or newer, on x86_64 or aarch64."
)


@rule(
    "DEP-CEL-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "the rule of a constraint does not compile, or yields something else than true or false",
    hint="Put the expression right: it may use properties, a list of {type, value}, and semver_compare(a, b).",
    bad=f"{_CONSTRAINT}{{cel: {{rule: property.type == 'certified'}}}}",
    good=_GOOD_CEL,
)
@each(CEL)
def cel_invalid(requirement: Requirement) -> Iterator[Finding]:
    """The resolver compiles the rule before it chooses bundles; types are checked, and the result must be a boolean.

    A value out of ``properties`` may be anything, so it has to be compared with something to yield true or false.
    """
    text = requirement.members.get("rule")
    if not text:
        return
    try:
        problem = compile_problem(text)
    except CompilerMissing as error:  # not a warning: a bundle that is not fully validated does not pass
        yield Finding(f"the rule cannot be checked: {error}", path=requirement.at("rule"), hint=_NO_COMPILER)
        return
    if problem:
        yield Finding(f"the rule is not valid: {problem}", path=requirement.at("rule"))


@rule(
    "DEP-CONSTRAINT-SHAPE",
    VALIDATOR,
    Severity.ERROR,
    "a constraint has members that it may not have, or is too large",
    hint="Write one of cel, package, gvk, all, any and not, with failureMessage beside it if you like.",
    bad=f"{_CONSTRAINT}{{package: {{packageName: demo, version: '>=1.0.0'}}}}",
    good=f"{_CONSTRAINT}{{package: {{packageName: demo, versionRange: '>=1.0.0'}}}}",
    compat=OPMKIT_ONLY,
)
def constraint_shape(bundle: BundleView) -> Iterator[Finding]:
    """The resolver refuses a constraint with a member that it does not know, and one of more than 131072 bytes.

    Constraints within ``all``, ``any`` and ``not`` are judged as those around them; an empty list of them says nothing.
    """
    found = _found(bundle)
    for finding in found.misshapen:
        yield replace(finding, file=found.file)
