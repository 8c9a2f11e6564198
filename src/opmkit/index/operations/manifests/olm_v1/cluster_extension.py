"""ClusterCatalogs and ClusterExtensions of OLM v1 (``olm.operatorframework.io/v1``)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from opmkit.bundle.kubernetes_names import dns1123_label, dns1123_subdomain
from opmkit.bundle.versions import VersionKey, strict_version, version_key
from opmkit.index.errors import CatalogError
from opmkit.index.operations.manifests.names import as_label, check_name
from opmkit.index.operations.manifests.resources import check_interval

if TYPE_CHECKING:
    from opmkit.imagetools.reference import Reference


_MAX_VERSION_LENGTH = 64


@dataclass(frozen=True, slots=True)
class ClusterExtension:
    """A package that OLM v1 installs.

    Creating an instance raises CatalogError for values that the cluster would reject.

    Attributes:
        package: Name of the package.
        namespace: Namespace to install to.
        catalog: Name of the only ClusterCatalog to install from.
        channels: Channels to install from; all if empty.
        version: Version, or range of versions; "" for the latest version.
        service_account: Name of the ServiceAccount that OLM v1 up to 1.10 installs with; "" to omit it.
        watch_namespace: Namespace that the operator watches, or "" for all.
    """

    package: str
    namespace: str
    catalog: str
    channels: tuple[str, ...] = ()
    version: str = ""
    service_account: str = ""
    watch_namespace: str = ""

    def __post_init__(self) -> None:
        """Validate the fields."""
        check_name("package", self.package, dns1123_subdomain)
        check_name("install namespace", self.namespace, dns1123_label)
        for channel in self.channels:
            check_name("channel", channel, dns1123_subdomain)
        if self.service_account:
            check_name("service account", self.service_account, dns1123_subdomain)
        if self.watch_namespace:
            check_name("target namespace", self.watch_namespace, dns1123_label)
        if self.version:
            self.constraint()

    @property
    def name(self) -> str:
        """The name of the object."""
        return as_label(self.package)

    def constraint(self) -> VersionConstraint:
        """Return the constraint on the version; raises CatalogError if it is invalid."""
        try:
            if len(self.version) > _MAX_VERSION_LENGTH:
                raise ValueError(f"longer than {_MAX_VERSION_LENGTH} characters")
            return VersionConstraint.parse(self.version)
        except ValueError as error:
            raise CatalogError(
                f"invalid version range {self.version!r}: {error}",
                hint="write a version or a range: 1.2.3, '>=1.2, <2', ~1.2",
            ) from error

    def manifest(self) -> dict[str, Any]:
        """Return the object."""
        catalog: dict[str, Any] = {"packageName": self.package}
        if self.version:
            catalog["version"] = self.version
        if self.channels:
            catalog["channels"] = list(self.channels)
        catalog["selector"] = {"matchLabels": {NAME_LABEL: self.catalog}}
        spec: dict[str, Any] = {"namespace": self.namespace}
        if self.service_account:
            spec["serviceAccount"] = {"name": self.service_account}
        spec["source"] = {"sourceType": "Catalog", "catalog": catalog}
        if self.watch_namespace:
            spec["config"] = {"configType": "Inline", "inline": {"watchNamespace": self.watch_namespace}}
        return {"apiVersion": API_VERSION, "kind": "ClusterExtension", "metadata": {"name": self.name}, "spec": spec}


_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_NUMBER = r"(?:[0-9]+|[xX*])"
_TERM = re.compile(
    rf"(?P<operator>!=|>=|=>|<=|=<|~>|=|>|<|~|\^)?\s*"
    rf"v?(?P<numbers>{_NUMBER}(?:\.{_NUMBER}){{0,2}})(?:-(?P<pre>{_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?",
    re.ASCII,
)
_SEPARATOR = re.compile(r"\s*,\s*|\s+")
_SYNONYMS = {"": "=", "=>": ">=", "=<": "<=", "~>": "~"}


@dataclass(frozen=True, slots=True)
class _Term:
    """An operator and a version, of which only ``count`` numbers are given; the others are zero."""

    operator: str
    key: VersionKey
    count: int
    has_prerelease: bool

    def matches(self, version: VersionKey) -> bool:
        return _OPERATORS[self.operator](version, self)


@dataclass(frozen=True, slots=True)
class VersionConstraint:
    """Alternatives, each with terms that a version must all match."""

    alternatives: tuple[tuple[_Term, ...], ...]

    @classmethod
    def parse(cls, text: str) -> VersionConstraint:
        """Parse a constraint such as ``>=1.2, <2 || ~3.1``.

        Raises:
            ValueError: It is invalid.
        """
        return cls(tuple(_parse_terms(alternative) for alternative in text.split("||")))

    def matches(self, version: VersionKey) -> bool:
        """Return whether a version matches; prereleases only match alternatives that name one."""
        return any(
            all(term.matches(version) for term in terms)
            for terms in self.alternatives
            if not _is_prerelease(version) or any(term.has_prerelease for term in terms)
        )


def _parse_terms(text: str) -> tuple[_Term, ...]:
    terms: list[_Term] = []
    position, text = 0, text.strip()
    while True:
        match = _TERM.match(text, position)
        if match is None:
            raise ValueError(f"syntax error in {text[position:]!r}")
        terms.append(_parse_term(match))
        if match.end() == len(text):
            return tuple(terms)
        separator = _SEPARATOR.match(text, match.end())
        if separator is None:
            raise ValueError(f"syntax error in {text[match.end() :]!r}")
        position = separator.end()


def _parse_term(match: re.Match[str]) -> _Term:
    numbers: list[str] = []
    for number in match["numbers"].split("."):
        if not number.isdigit():
            break
        numbers.append(number)
    zeros = ["0"] * (3 - len(numbers))
    prerelease = f"-{match['pre']}" if match["pre"] else ""
    key = version_key(strict_version(".".join(numbers + zeros) + prerelease))
    operator = match["operator"] or ""
    return _Term(_SYNONYMS.get(operator, operator), key, len(numbers), bool(prerelease))


def _is_prerelease(version: VersionKey) -> bool:
    return version < version[:3] + _RELEASE


def _equal(version: VersionKey, term: _Term) -> bool:
    return version == term.key if term.count == 3 else _tilde(version, term)


def _not_equal(version: VersionKey, term: _Term) -> bool:
    if term.count in {0, 3}:
        return version != term.key
    if version[: term.count] != term.key[: term.count]:
        return True
    # the library compares prereleases of versions such as 1.2.3-rc and 1.2.x-rc, but not of 1.2.3-rc and 1.x-rc
    return term.count == 2 and version[3:] != term.key[3:]


def _greater(version: VersionKey, term: _Term) -> bool:
    if term.count in {0, 3}:
        return version > term.key
    return version[: term.count] > term.key[: term.count]


def _less_or_equal(version: VersionKey, term: _Term) -> bool:
    if term.count == 3:
        return version <= term.key
    count = 1 if term.count == 1 else 2
    return version[:count] <= term.key[:count]


def _tilde(version: VersionKey, term: _Term) -> bool:
    if version < term.key:
        return False
    if term.key[:3] == (0, 0, 0) and term.count in {0, 3}:
        return True
    count = 1 if term.count == 1 else 2
    return version[:count] == term.key[:count]


def _caret(version: VersionKey, term: _Term) -> bool:
    if version < term.key:
        return False
    if term.key[0] or term.count == 1:
        return version[0] == term.key[0]
    count = 2 if term.key[1] or term.count == 2 else 3
    return version[:count] == term.key[:count]


_Operator: TypeAlias = Callable[[VersionKey, _Term], bool]
_OPERATORS: dict[str, _Operator] = {
    "=": _equal,
    "!=": _not_equal,
    ">": _greater,
    ">=": lambda version, term: version >= term.key,
    "<": lambda version, term: version < term.key,
    "<=": _less_or_equal,
    "~": _tilde,
    "^": _caret,
}
_RELEASE = version_key(strict_version("0.0.0"))[3:]

API_VERSION = "olm.operatorframework.io/v1"
NAME_LABEL = "olm.operatorframework.io/metadata.name"
"""Label of every ClusterCatalog, with its name."""
AVAILABLE, UNAVAILABLE = "Available", "Unavailable"
_DURATION_TERM = re.compile(r"([0-9.]+)([a-zµμ]+)")
_SECONDS = {
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "ns": Fraction(1, 10**9),
    **dict.fromkeys(("us", "µs", "μs"), Fraction(1, 10**6)),
}
_MAX_PRIORITY = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ClusterCatalog:
    """A catalog of OLM v1 in an image.

    Creating an instance raises CatalogError for values that the cluster would reject.

    Attributes:
        name: Name of the ClusterCatalog.
        image: Image of a file-based catalog.
        poll_interval: Interval at which the tag is checked for changes, as a Go duration in whole minutes.
        priority: Priority among catalogs with the same package.
        availability: ``Available`` or ``Unavailable``; "" for the default.
    """

    name: str
    image: Reference
    poll_interval: str = ""
    priority: int = 0
    availability: str = ""

    def __post_init__(self) -> None:
        """Validate the fields."""
        check_name("catalog name", self.name, dns1123_subdomain)
        if self.poll_interval and self.image.digest:
            raise CatalogError(
                f"{self.image}: polling unsupported: an image referenced by digest never changes",
                hint="reference the image by tag, or omit the interval",
            )
        if not -_MAX_PRIORITY - 1 <= self.priority <= _MAX_PRIORITY:
            raise CatalogError(f"priority {self.priority}: not an integer of 32 bits", hint="choose a smaller number")
        if self.availability not in {"", AVAILABLE, UNAVAILABLE}:
            raise CatalogError(f"invalid availability {self.availability!r}", hint=f"use {AVAILABLE} or {UNAVAILABLE}")
        if self.poll_interval:
            _minutes(self.poll_interval)

    def manifest(self) -> dict[str, Any]:
        """Return the object."""
        image: dict[str, Any] = {"ref": str(self.image)}
        if self.poll_interval:
            image["pollIntervalMinutes"] = _minutes(self.poll_interval)
        spec: dict[str, Any] = {"source": {"type": "Image", "image": image}}
        if self.priority:
            spec["priority"] = self.priority
        if self.availability:
            spec["availabilityMode"] = self.availability
        return {"apiVersion": API_VERSION, "kind": "ClusterCatalog", "metadata": {"name": self.name}, "spec": spec}


def _minutes(interval: str) -> int:
    """Convert a Go duration to minutes; raise CatalogError unless it is a positive number of them."""
    check_interval(interval)
    seconds = sum(Fraction(number) * _SECONDS[unit] for number, unit in _DURATION_TERM.findall(interval))
    minutes = Fraction(seconds) / 60
    if minutes.denominator != 1:
        raise CatalogError(f"polling interval {interval!r}: not in whole minutes", hint="set 1m, 30m or 1h")
    return int(minutes)
