"""Rules of the validator ``format``: dependencies of a bundle."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, cast

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.property_types import GVK, LABEL, PACKAGE
from opmkit.bundle.validation.cache_key import CEL_DISTRIBUTION
from opmkit.bundle.validation.cel import CompilerMissing, compile_problem
from opmkit.bundle.validation.compat import OPMKIT_ONLY, Compat
from opmkit.bundle.validation.dependencies import CEL, Dependencies, Requirement, read_dependencies
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.rules.format import VALIDATOR, is_laid_out
from opmkit.bundle.versions import VersionRange
from opmkit.core.hints import install_extra

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


def _dependencies(bundle: BundleView) -> Dependencies:
    return read_dependencies(bundle) if is_laid_out(bundle) else Dependencies()


def requirement_check(kind: str) -> Callable[[Callable[[Requirement], Iterable[Finding]]], Check]:
    """Return a decorator that turns a check of one requirement of a type into a check of the bundle."""

    def decorate(check_requirement: Callable[[Requirement], Iterable[Finding]]) -> Check:
        @wraps(check_requirement)
        def check(bundle: BundleView) -> Iterator[Finding]:
            dependencies = _dependencies(bundle)
            for requirement in dependencies.requirements:
                if requirement.type == kind:
                    for finding in check_requirement(requirement):
                        yield replace(finding, file=dependencies.file)

        return cast("Check", check)

    return decorate


@rule(
    "DEP-UNPARSABLE",
    VALIDATOR,
    Severity.ERROR,
    "invalid dependency",
    hint="Write a type (olm.gvk, olm.package, olm.label or olm.constraint) and a value of that type.",
    bad=f"{_HEAD}olm.crd\n  value: {{name: demos.example.com}}",
    good=_GOOD_GVK,
)
def unparsable(bundle: BundleView) -> Iterator[Finding]:
    """The resolver ignores a dependency that it cannot read, so the operator is installed without what it needs.

    The type must be one of the four, and the value a mapping of strings, not a string that contains JSON.
    """
    dependencies = _dependencies(bundle)
    for finding in dependencies.errors:
        yield replace(finding, file=dependencies.file)


def _empty(requirement: Requirement, member: str) -> Iterator[Finding]:
    if not requirement.members[member]:
        yield Finding(f"{member} of the required API is empty", path=requirement.at(member))


@rule(
    "DEP-GVK-GROUP",
    VALIDATOR,
    Severity.ERROR,
    "a required API has no group",
    hint="Set the group of the API, such as example.com.",
    bad=f"{_GVK}{{version: v1, kind: Demo}}",
    good=_GOOD_GVK,
)
@requirement_check(GVK)
def gvk_group(requirement: Requirement) -> Iterator[Finding]:
    """An API is identified by group, version and kind."""
    return _empty(requirement, "group")


@rule(
    "DEP-GVK-VERSION",
    VALIDATOR,
    Severity.ERROR,
    "a required API has no version",
    hint="Set the version of the API, such as v1.",
    bad=f"{_GVK}{{group: example.com, kind: Demo}}",
    good=_GOOD_GVK,
)
@requirement_check(GVK)
def gvk_version(requirement: Requirement) -> Iterator[Finding]:
    """An API is identified by group, version and kind."""
    return _empty(requirement, "version")


@rule(
    "DEP-GVK-KIND",
    VALIDATOR,
    Severity.ERROR,
    "a required API has no kind",
    hint="Set the kind of the API.",
    bad=f"{_GVK}{{group: example.com, version: v1}}",
    good=_GOOD_GVK,
)
@requirement_check(GVK)
def gvk_kind(requirement: Requirement) -> Iterator[Finding]:
    """An API is identified by group, version and kind."""
    return _empty(requirement, "kind")


@rule(
    "DEP-PACKAGE-NAME",
    VALIDATOR,
    Severity.ERROR,
    "a required package has no name",
    hint="Set packageName to the name of the package.",
    bad=f"{_PACKAGE}{{name: demo, version: '>=1.0.0'}}",
    good=_GOOD_PACKAGE,
)
@requirement_check(PACKAGE)
def package_name(requirement: Requirement) -> Iterator[Finding]:
    """The resolver looks up the package by ``packageName``."""
    if not requirement.members["packageName"]:
        yield Finding("packageName of the required package is empty", path=requirement.at("packageName"))


@rule(
    "DEP-PACKAGE-VERSION",
    VALIDATOR,
    Severity.ERROR,
    "a required package has no version range",
    hint="Set a range such as >=1.0.0 <2.0.0, as version in olm.package or versionRange in a constraint.",
    bad=f"{_PACKAGE}{{packageName: demo, versionRange: '>=1.0.0'}}",
    good=_GOOD_PACKAGE,
)
@requirement_check(PACKAGE)
def package_version(requirement: Requirement) -> Iterator[Finding]:
    """The range is required; ``>=0.0.0`` allows all versions."""
    if not requirement.members["version"]:
        yield Finding("the required package has no version range", path=requirement.path)


@rule(
    "DEP-PACKAGE-RANGE",
    VALIDATOR,
    Severity.ERROR,
    "invalid version range of a required package",
    hint="Separate comparisons by spaces and alternatives by ||, as in >=1.0.0 <2.0.0 || 3.x",
    bad=f"{_PACKAGE}{{packageName: demo, version: '^1.0'}}",
    good=_GOOD_PACKAGE,
)
def package_range(bundle: BundleView) -> Iterator[Finding]:
    """A range consists of ``=``, ``!``, ``<``, ``<=``, ``>`` or ``>=`` and full versions, or of wildcards: ``1.2.x``.

    All comparisons between two ``||`` must match. The Go validators accept an alternative without versions
    (``1.0.0 || || 2.0.0``), on which the resolver crashes.
    """
    dependencies = _dependencies(bundle)
    for requirement in dependencies.requirements:
        if requirement.type == PACKAGE and (text := requirement.members["version"]):
            problem = _range_problem(text, complete=bundle.compat is Compat.OPMKIT)
            member = "versionRange" if "package" in requirement.path else "version"
            if problem:
                yield Finding(f"invalid range {text[:200]!r}: {problem}", dependencies.file, requirement.at(member))


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
    hint="Set label to the required text.",
    bad=f"{_HEAD}olm.label\n  value: {{name: certified}}",
    good=f"{_HEAD}olm.label\n  value: {{label: certified}}",
)
@requirement_check(LABEL)
def label(requirement: Requirement) -> Iterator[Finding]:
    """The resolver selects bundles with a property ``olm.label`` that has this value."""
    if not requirement.members["label"]:
        yield Finding("the required label is empty", path=requirement.path)


@rule(
    "DEP-CEL-MISSING",
    VALIDATOR,
    Severity.ERROR,
    "empty constraint",
    hint="Add one of cel, package, gvk, all, any and not.",
    bad=f"{_CONSTRAINT}{{failureMessage: a certified operator is needed}}",
    good=_GOOD_CEL,
)
@requirement_check(CEL)
def cel_missing(requirement: Requirement) -> Iterator[Finding]:
    """A constraint needs a condition. The Go validators support only ``cel``."""
    if not requirement.members:
        yield Finding("the constraint has no condition, such as cel", path=requirement.path)


@rule(
    "DEP-CEL-RULE",
    VALIDATOR,
    Severity.ERROR,
    "empty CEL rule",
    hint="Write an expression in cel.rule.",
    bad=f"{_CONSTRAINT}{{cel: {{rule: ''}}}}",
    good=_GOOD_CEL,
)
@requirement_check(CEL)
def cel_rule(requirement: Requirement) -> Iterator[Finding]:
    """The rule is an expression in the Common Expression Language that is true for the bundles that satisfy it."""
    if requirement.members.get("rule") == "":
        yield Finding("the CEL rule of the constraint is empty", path=requirement.at("rule"))


_NO_COMPILER = (
    f"{install_extra('cel').capitalize()}. "
    f"{CEL_DISTRIBUTION} has wheels for macOS, and for Linux with glibc 2.27 or newer, on x86_64 and aarch64."
)


@rule(
    "DEP-CEL-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "invalid CEL rule",
    hint="Correct the expression; it can use properties, a list of {type, value}, and semver_compare(a, b).",
    bad=f"{_CONSTRAINT}{{cel: {{rule: property.type == 'certified'}}}}",
    good=_GOOD_CEL,
)
@requirement_check(CEL)
def cel_invalid(requirement: Requirement) -> Iterator[Finding]:
    """The resolver compiles and type-checks the rule before it selects bundles. The result must be a boolean.

    Values from ``properties`` have any type, so they must be compared with something to give a boolean.
    """
    text = requirement.members.get("rule")
    if not text:
        return
    try:
        problem = compile_problem(text)
    except CompilerMissing as error:  # an error, as a bundle must not pass without full validation
        yield Finding(f"cannot check the CEL rule: {error}", path=requirement.at("rule"), hint=_NO_COMPILER)
        return
    if problem:
        yield Finding(f"invalid CEL rule: {problem}", path=requirement.at("rule"))


@rule(
    "DEP-CONSTRAINT-SHAPE",
    VALIDATOR,
    Severity.ERROR,
    "a constraint has unknown or conflicting members, or is too large",
    hint="Write one of cel, package, gvk, all, any and not, optionally with failureMessage.",
    bad=f"{_CONSTRAINT}{{package: {{packageName: demo, version: '>=1.0.0'}}}}",
    good=f"{_CONSTRAINT}{{package: {{packageName: demo, versionRange: '>=1.0.0'}}}}",
    compat=OPMKIT_ONLY,
)
def constraint_shape(bundle: BundleView) -> Iterator[Finding]:
    """The resolver rejects a constraint that has unknown members or more than 131072 bytes.

    The same applies to constraints inside ``all``, ``any`` and ``not``, which must not be empty.
    """
    dependencies = _dependencies(bundle)
    for finding in dependencies.invalid_constraints:
        yield replace(finding, file=dependencies.file)
