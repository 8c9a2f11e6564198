"""What bundles require of other bundles, and what of it a part of a catalog no longer has.

Properties tell it: ``olm.package.required``, ``olm.gvk.required``, and ``olm.constraint`` with packages and APIs, or
constraints of which all or any must hold. What must not hold stays so, and rules in CEL are not judged.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle.fields import member
from opmkit.bundle.validation.dependencies import MAX_CONSTRAINT_DEPTH
from opmkit.bundle.versions import VersionRange, strict_version
from opmkit.index.fbc.check.bundle import bundle_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opmkit.bundle.json_value import JsonValue
    from opmkit.index.fbc.blobs import BundleBlob


@dataclass(frozen=True, slots=True)
class RequiredPackage:
    """A package, in a version of a range."""

    name: str
    version_range: str

    def __str__(self) -> str:
        """The requirement in words."""
        return f"package {self.name} {self.version_range}".rstrip()


@dataclass(frozen=True, slots=True)
class RequiredApi:
    """A kind of a version of a group."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        """The requirement in words."""
        return f"API {self.group}/{self.version} {self.kind}"


Requirement: TypeAlias = RequiredPackage | RequiredApi


@dataclass(frozen=True, slots=True)
class Loss:
    """What bundles of a package require and had before, but no longer have; ``providers`` are the packages of it."""

    package: str
    bundles: tuple[str, ...]
    requirement: Requirement
    providers: tuple[str, ...]

    def __str__(self) -> str:
        """The loss in words."""
        more = f" and {len(self.bundles) - 1} more" if len(self.bundles) > 1 else ""
        verb = "require" if more else "requires"
        return f"{self.bundles[0]}{more} of package {self.package} {verb} the {self.requirement}"


def losses(before: Iterable[BundleBlob], after: Iterable[BundleBlob]) -> list[Loss]:
    """What bundles in ``after`` require that there was ``before``."""
    kept = list(after)
    had, has = _Offers(before), _Offers(kept)
    found: defaultdict[tuple[str, Requirement], list[str]] = defaultdict(list)
    for bundle in kept:
        lost = (one for constraint in _constraints(bundle) for one in _missing(constraint, has))
        for requirement in dict.fromkeys(one for one in lost if had.providers(one)):
            found[bundle.package, requirement].append(bundle.name)
    return [
        Loss(package, tuple(bundles), requirement, had.providers(requirement))
        for (package, requirement), bundles in found.items()
    ]


class _Offers:
    """What bundles provide."""

    def __init__(self, bundles: Iterable[BundleBlob]) -> None:
        self._versions: defaultdict[str, set[str]] = defaultdict(set)
        self._apis: defaultdict[RequiredApi, set[str]] = defaultdict(set)
        for bundle in bundles:
            self._versions[bundle.package].add(bundle_version(bundle))
            for value in bundle.property_values("olm.gvk"):
                if api := _api(value):
                    self._apis[api].add(bundle.package)

    def providers(self, requirement: Requirement) -> tuple[str, ...]:
        """The packages that fulfil a requirement, sorted."""
        if isinstance(requirement, RequiredApi):
            return tuple(sorted(self._apis.get(requirement, ())))
        versions = self._versions.get(requirement.name, ())
        return (requirement.name,) if any(_is_in(one, requirement.version_range) for one in versions) else ()


@lru_cache(maxsize=4096)
def _is_in(version: str, version_range: str) -> bool:
    try:
        return strict_version(version) in VersionRange.parse(version_range)
    except ValueError:
        return False


_KINDS = {"olm.package.required": "package", "olm.gvk.required": "gvk"}


def _constraints(bundle: BundleBlob) -> Iterator[Mapping[str, JsonValue]]:
    """All that a bundle requires, in the form of constraints."""
    for each in bundle.properties:
        if each.type in _KINDS:
            yield {_KINDS[each.type]: each.value}
        elif each.type == "olm.constraint" and isinstance(each.value, dict):
            yield each.value


def _missing(constraint: Mapping[str, JsonValue], offers: _Offers, depth: int = 0) -> list[Requirement]:
    """What a constraint asks for in vain; nothing if it holds."""
    if depth > MAX_CONSTRAINT_DEPTH:
        return []
    simple = (_package(member(constraint, "package")), _api(member(constraint, "gvk")))
    missing: list[Requirement] = [one for one in simple if one and not offers.providers(one)]
    for each in _within(constraint, "all"):
        missing += _missing(each, offers, depth + 1)
    alternatives = [_missing(each, offers, depth + 1) for each in _within(constraint, "any")]
    if all(alternatives):
        missing += [one for lost in alternatives for one in lost]
    return missing


def _within(constraint: Mapping[str, JsonValue], form: str) -> Iterator[Mapping[str, JsonValue]]:
    compound = member(constraint, form)
    constraints = member(compound, "constraints") if isinstance(compound, dict) else None
    yield from (one for one in constraints if isinstance(one, dict)) if isinstance(constraints, list) else ()


def _package(value: JsonValue) -> RequiredPackage | None:
    texts = _texts(value, "packageName", "versionRange")
    return RequiredPackage(*texts) if texts else None


def _api(value: JsonValue) -> RequiredApi | None:
    texts = _texts(value, "group", "version", "kind")
    return RequiredApi(*texts) if texts else None


def _texts(value: JsonValue, *names: str) -> list[str] | None:
    """The texts of these names in a mapping, None unless it has all."""
    found = [member(value, name) for name in names] if isinstance(value, dict) else []
    texts = [one for one in found if isinstance(one, str)]
    return texts if len(texts) == len(names) else None
