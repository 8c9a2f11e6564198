"""Requirements of bundles: the properties that name a package, an API, a label or a constraint.

The resolver of OLM v0 (operator-lifecycle-manager 0.38, ``pkg/controller/registry/resolver``) turns each of these
properties into a condition on other bundles, of which one must be installed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

from opmkit.bundle.property_types import CONSTRAINT, REQUIRED_GVK, REQUIRED_LABEL, REQUIRED_PACKAGE
from opmkit.bundle.validation.cel import CompilerMissing, rule_evaluator
from opmkit.bundle.versions import VersionRange
from opmkit.documents import fields
from opmkit.documents.errors import FieldTypeError
from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opmkit.bundle.versions import VersionKey
    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import BlobProperty

MAX_DEPTH = 100
"""Maximum depth of nested constraints."""

Api: TypeAlias = tuple[str, str, str]
"""Group, version and kind."""


class InvalidRequirement(CatalogError):
    """A property with a requirement has a value that OLM cannot parse, so that it resolves nothing in the namespace."""


class Provider(Protocol):
    """What requirements ask about a bundle."""

    @property
    def packages(self) -> tuple[tuple[str, VersionKey | None], ...]:
        """Names of its package, with versions: of the catalog, and of its properties."""

    @property
    def apis(self) -> frozenset[Api]:
        """APIs that it provides."""

    @property
    def labels(self) -> frozenset[str]:
        """Labels that it has."""

    @property
    def properties(self) -> tuple[BlobProperty, ...]:
        """All properties."""


class BundleRequirement(Protocol):
    """A condition on a bundle."""

    def matches(self, bundle: Provider) -> bool:
        """Return whether a bundle meets the condition."""

    def __str__(self) -> str:
        """Return the condition as a part of a sentence, such as ``the package etcd in the range >=1.0.0``."""


class PackageRequirement(Struct, frozen=True):
    """A package in a version range."""

    package: str
    versions: VersionRange
    text: str

    def __hash__(self) -> int:
        """Return the hash of what is written, which is faster than that of the range."""
        return hash((self.package, self.text))

    def matches(self, bundle: Provider) -> bool:
        """Return whether the bundle is of the package, and one of its versions is in the range."""
        packages = bundle.packages
        return any(name == self.package for name, _ in packages) and any(
            version is not None and self.versions.contains_key(version) for _, version in packages
        )

    def __str__(self) -> str:
        """Return the package and the range."""
        return f"package {self.package} in the range {self.text}"


class ApiRequirement(Struct, frozen=True):
    """A provider of an API."""

    api: Api

    def matches(self, bundle: Provider) -> bool:
        """Return whether the bundle provides the API."""
        return self.api in bundle.apis

    def __str__(self) -> str:
        """Return the API as kubectl writes it."""
        group, version, kind = self.api
        return f"a provider of {kind} ({group}/{version})"


class LabelRequirement(Struct, frozen=True):
    """A bundle with a label."""

    label: str

    def matches(self, bundle: Provider) -> bool:
        """Return whether the bundle has the label."""
        return self.label in bundle.labels

    def __str__(self) -> str:
        """Return the label."""
        return f"a bundle with the label {self.label}"


@dataclass(frozen=True, slots=True)
class RuleRequirement:
    """A bundle whose properties satisfy a rule in the Common Expression Language."""

    rule: str
    message: str
    evaluate: Callable[[Sequence[tuple[str, JsonValue]]], bool] = field(compare=False)

    def matches(self, bundle: Provider) -> bool:
        """Return the result of the rule, false if it fails."""
        return self.evaluate([(item.type, item.value) for item in bundle.properties])

    def __str__(self) -> str:
        """Return the message of the author, or the rule."""
        return f"a bundle with {self.message or self.rule}"


class AllOf(Struct, frozen=True):
    """A bundle that meets all of several conditions."""

    parts: tuple[BundleRequirement, ...]

    def matches(self, bundle: Provider) -> bool:
        """Return whether all conditions are met."""
        return all(part.matches(bundle) for part in self.parts)

    def __str__(self) -> str:
        """Return the conditions."""
        return " that is also ".join(map(str, self.parts))


class AnyOf(Struct, frozen=True):
    """A bundle that meets one of several conditions."""

    parts: tuple[BundleRequirement, ...]

    def matches(self, bundle: Provider) -> bool:
        """Return whether one of the conditions is met."""
        return any(part.matches(bundle) for part in self.parts)

    def __str__(self) -> str:
        """Return the conditions."""
        return f"({' or '.join(map(str, self.parts))})"


class NoneOf(Struct, frozen=True):
    """A bundle that meets none of several conditions."""

    parts: tuple[BundleRequirement, ...]

    def matches(self, bundle: Provider) -> bool:
        """Return whether no condition is met."""
        return not any(part.matches(bundle) for part in self.parts)

    def __str__(self) -> str:
        """Return the conditions."""
        return f"not ({' or '.join(map(str, self.parts))})"


def parse_requirement(item: BlobProperty) -> BundleRequirement | None:
    """Return the requirement of a property, or None if it is none.

    Raises:
        InvalidRequirement: OLM cannot parse the value.
    """
    parse = {REQUIRED_GVK: _api, REQUIRED_PACKAGE: _package, REQUIRED_LABEL: _label, CONSTRAINT: _constraint}.get(
        item.type
    )
    if parse is None:
        return None
    try:
        return parse(item.value)
    except (FieldTypeError, ValueError) as error:
        raise InvalidRequirement(f"invalid property {item.type}: {error}") from error


def api_of(value: JsonValue) -> Api:
    """Return the API in the value of a property; raise FieldTypeError for other types."""
    members = fields.mapping(value, "the API")
    group, version, kind = (fields.text(fields.member(members, name), name) for name in ("group", "version", "kind"))
    return group, version, kind


def _api(value: JsonValue) -> BundleRequirement:
    return ApiRequirement(api_of(value))


def _package(value: JsonValue) -> BundleRequirement:
    members = fields.mapping(value, "the package")
    name, text = (fields.text(fields.member(members, key), key) for key in ("packageName", "versionRange"))
    return PackageRequirement(name, VersionRange.parse(text), text)


def _label(value: JsonValue) -> BundleRequirement:
    return LabelRequirement(fields.text(fields.member(fields.mapping(value, "the label"), "label"), "label"))


_COMPOUNDS: Mapping[str, Callable[[tuple[BundleRequirement, ...]], BundleRequirement]] = {
    "all": AllOf,
    "any": AnyOf,
    "not": NoneOf,
}


def _constraint(value: JsonValue, depth: int = 0) -> BundleRequirement:
    if depth > MAX_DEPTH:
        raise ValueError(f"constraints are nested deeper than {MAX_DEPTH} levels")
    members = fields.mapping(value, "the constraint")
    _check_names(members, ("failureMessage", "cel", "package", "gvk", *_COMPOUNDS))
    message = fields.text(fields.member(members, "failureMessage"), "failureMessage")
    if (api := fields.member(members, "gvk")) is not None:
        _check_names(fields.mapping(api, "gvk"), ("group", "kind", "version"))
        return _api(api)
    if (package := fields.member(members, "package")) is not None:
        _check_names(fields.mapping(package, "package"), ("packageName", "versionRange"))
        return _package(package)
    for name, compound in _COMPOUNDS.items():
        if (given := fields.member(members, name)) is not None:
            return compound(tuple(_parts(given, name, depth)))
    if (rule := fields.member(members, "cel")) is not None:
        _check_names(fields.mapping(rule, "cel"), ("rule",))
        text = fields.text(fields.member(fields.mapping(rule, "cel"), "rule"), "rule")
        return RuleRequirement(text, message, _rule_evaluator(text))
    raise ValueError("the constraint is empty")


def _rule_evaluator(rule: str) -> Callable[[Sequence[tuple[str, JsonValue]]], bool]:
    try:
        return rule_evaluator(rule)
    except CompilerMissing as error:
        raise CatalogError(f"cannot evaluate a CEL rule: {error}", hint="install the extra opmkit[cel]") from error


def _parts(value: JsonValue, name: str, depth: int) -> Iterator[BundleRequirement]:
    members = fields.mapping(value, name)
    _check_names(members, ("constraints",))
    for part in fields.items(fields.member(members, "constraints"), "constraints"):
        yield _constraint(part, depth + 1)


def _check_names(members: Mapping[str, JsonValue], known: tuple[str, ...]) -> None:
    folded = {name.lower() for name in known}
    for name in members:
        if name.lower() not in folded:
            raise ValueError(f"unknown member {name!r}")
