"""The result of filtering a file-based catalog, with requirements that it does not meet."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict

from opmkit.bundle.property_types import CONSTRAINT, REQUIRED_GVK, REQUIRED_PACKAGE
from opmkit.bundle.versions import VersionRange, strict_version
from opmkit.documents.document import MAX_CONSTRAINT_DEPTH
from opmkit.documents.fields import member
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.check.bundle import bundle_version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blobs, BundleBlob


FORMAT = "PACKAGE[:CHANNEL[,CHANNEL...]][@RANGE]"
_HINT = f'write {FORMAT}, such as lagoon, lagoon:alpha,beta or "lagoon:alpha@>=1.0.0 <2.0.0"'


class PackageFilter(Struct, frozen=True):
    """A package, optionally limited to some of its channels and a version range; "" matches all versions."""

    package: str
    channels: tuple[str, ...] = ()
    version_range: str = ""

    def __str__(self) -> str:
        """Format the filter as it is parsed."""
        channels = f":{','.join(self.channels)}" if self.channels else ""
        return f"{self.package}{channels}{f'@{self.version_range}' if self.version_range else ''}"

    @classmethod
    def parse(cls, text: str) -> PackageFilter:
        """Parse a filter; ranges have the syntax of ``skipRange``.

        Raises:
            CatalogError: The filter is invalid; the message has the position, from 1.
        """
        named, at, version_range = text.partition("@")
        package, colon, rest = named.partition(":")
        channels = rest.split(",") if colon else []
        if not package:
            raise _invalid(text, 0, "missing package name")
        for number, channel in enumerate(channels):
            if not channel:
                start = len(package) + 1 + len(",".join(channels[:number])) + bool(number)
                raise _invalid(text, start, "missing channel name")
        if at:
            _check_range(text, version_range, len(named) + 1)
        return cls(package, tuple(dict.fromkeys(channels)), version_range)


def _check_range(text: str, version_range: str, start: int) -> None:
    try:
        complete = VersionRange.parse(version_range).is_complete
    except ValueError as error:
        raise _invalid(text, start, f"invalid version range: {error}") from error
    if not complete:
        raise _invalid(text, start, "the version range has an alternative without a version")


def _invalid(text: str, start: int, problem: str) -> CatalogError:
    return CatalogError(f'invalid filter "{text}" at position {start + 1}: {problem}', hint=_HINT)


class RetainedBundle(Struct, frozen=True):
    """A bundle in a channel that matches no filter but is needed, with the reason.

    A whole package that is needed has an empty channel and bundle.
    """

    package: str
    channel: str
    bundle: str
    reason: str

    def __str__(self) -> str:
        """Format the bundle or package with the reason."""
        return f"{self.bundle or f'package {self.package}'} stays: {self.reason}"


class RetainedChannel(Struct, frozen=True):
    """A remaining channel: its number of entries and its head, now and before."""

    package: str
    name: str
    bundles: int
    bundles_before: int
    head: str
    head_before: str

    def __str__(self) -> str:
        """Format the channel with the numbers, and with the head if it changed."""
        moved = f", head {self.head} instead of {self.head_before}" if self.head != self.head_before else ""
        return f"channel {self.name}: {self.bundles} of {self.bundles_before} bundles{moved}"


class RemovedCounts(Struct, frozen=True):
    """The numbers of removed packages, channels and bundles. A bundle in several channels counts once."""

    packages: int
    channels: int
    bundles: int

    def __str__(self) -> str:
        """Format the numbers."""
        counts = ((self.packages, "package"), (self.channels, "channel"), (self.bundles, "bundle"))
        return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The remaining part of a catalog. Unchanged blobs are the same objects as before."""

    blobs: Blobs
    channels: tuple[RetainedChannel, ...]
    retained: tuple[RetainedBundle, ...]
    removed: RemovedCounts
    warnings: tuple[str, ...] = field(default=())

    def lines(self) -> Iterator[str]:
        """Yield the report: packages with their channels and needed bundles, then the numbers of removed objects."""
        for package in dict.fromkeys(channel.package for channel in self.channels):
            yield f"package {package}"
            yield from (f"  {bundle}" for bundle in self.retained if bundle.package == package and not bundle.channel)
            for channel in self.channels:
                if channel.package == package:
                    yield f"  {channel}"
                    for bundle in self.retained:
                        if (bundle.package, bundle.channel) == (package, channel.name):
                            yield f"    {bundle}"
        yield f"left out: {self.removed}"

    def as_dict(self) -> dict[str, Any]:
        """Return the report in JSON types."""
        return {
            "channels": [asdict(channel) for channel in self.channels],
            "kept": [asdict(bundle) for bundle in self.retained],
            "dropped": asdict(self.removed),
            "warnings": list(self.warnings),
        }


class RequiredPackage(Struct, frozen=True):
    """A package in a version range."""

    name: str
    version_range: str

    def __str__(self) -> str:
        """Format the requirement."""
        return f"package {self.name} {self.version_range}".rstrip()


class RequiredApi(Struct, frozen=True):
    """A group, version and kind."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        """Format the requirement."""
        return f"API {self.group}/{self.version} {self.kind}"


Requirement: TypeAlias = RequiredPackage | RequiredApi


class UnmetRequirement(Struct, frozen=True):
    """A requirement of bundles of a package, and the packages in another catalog that would meet it."""

    package: str
    bundles: tuple[str, ...]
    requirement: Requirement
    providers: tuple[str, ...]

    def __str__(self) -> str:
        """Format the first bundle, the number of others, and the requirement."""
        more = f" and {len(self.bundles) - 1} more" if len(self.bundles) > 1 else ""
        verb = "require" if more else "requires"
        return f"{self.bundles[0]}{more} of package {self.package} {verb} the {self.requirement}"


def unmet_requirements(
    before: Iterable[BundleBlob],
    after: Iterable[BundleBlob],
    *,
    packages: Collection[str] | None = None,
    unprovided: bool = False,
) -> list[UnmetRequirement]:
    """Return the requirements of the bundles in ``after`` that these do not meet, but bundles in ``before``.

    Args:
        before: The bundles of another catalog.
        after: The bundles of a catalog.
        packages: The packages whose requirements are returned; None for all.
        unprovided: Also return requirements that neither catalog meets, without providers.
    """
    remaining = list(after)
    old, new = _Providers(before), _Providers(remaining)
    unmet: defaultdict[tuple[str, Requirement], list[str]] = defaultdict(list)
    for bundle in remaining:
        if packages is not None and bundle.package not in packages:
            continue
        missing = (requirement for constraint in _constraints(bundle) for requirement in _missing(constraint, new))
        for requirement in dict.fromkeys(item for item in missing if unprovided or old.packages(item)):
            unmet[bundle.package, requirement].append(bundle.name)
    return [
        UnmetRequirement(package, tuple(bundles), requirement, old.packages(requirement))
        for (package, requirement), bundles in unmet.items()
    ]


class _Providers:
    """The packages and APIs that bundles provide."""

    def __init__(self, bundles: Iterable[BundleBlob]) -> None:
        self._versions: defaultdict[str, set[str]] = defaultdict(set)
        self._apis: defaultdict[RequiredApi, set[str]] = defaultdict(set)
        for bundle in bundles:
            self._versions[bundle.package].add(bundle_version(bundle))
            for value in bundle.property_values("olm.gvk"):
                if api := _api(value):
                    self._apis[api].add(bundle.package)

    def packages(self, requirement: Requirement) -> tuple[str, ...]:
        """Return the packages that meet a requirement, sorted."""
        if isinstance(requirement, RequiredApi):
            return tuple(sorted(self._apis.get(requirement, ())))
        versions = self._versions.get(requirement.name, ())
        in_range = any(_is_in_range(version, requirement.version_range) for version in versions)
        return (requirement.name,) if in_range else ()


@lru_cache(maxsize=4096)
def _is_in_range(version: str, version_range: str) -> bool:
    try:
        return strict_version(version) in VersionRange.parse(version_range)
    except ValueError:
        return False


_CONSTRAINT_KEYS = {REQUIRED_PACKAGE: "package", REQUIRED_GVK: "gvk"}


def _constraints(bundle: BundleBlob) -> Iterator[Mapping[str, JsonValue]]:
    """Yield all requirements of a bundle in the form of constraints."""
    for prop in bundle.properties:
        if prop.type in _CONSTRAINT_KEYS:
            yield {_CONSTRAINT_KEYS[prop.type]: prop.value}
        elif prop.type == CONSTRAINT and isinstance(prop.value, dict):
            yield prop.value


def _missing(constraint: Mapping[str, JsonValue], providers: _Providers, depth: int = 0) -> list[Requirement]:
    """Return the unmet requirements of a constraint, none if it is met."""
    if depth > MAX_CONSTRAINT_DEPTH:
        return []
    simple = (_package(member(constraint, "package")), _api(member(constraint, "gvk")))
    missing: list[Requirement] = [
        requirement for requirement in simple if requirement and not providers.packages(requirement)
    ]
    for nested in _nested(constraint, "all"):
        missing += _missing(nested, providers, depth + 1)
    alternatives = [_missing(nested, providers, depth + 1) for nested in _nested(constraint, "any")]
    if all(alternatives):
        missing += [requirement for unmet in alternatives for requirement in unmet]
    return missing


def _nested(constraint: Mapping[str, JsonValue], key: str) -> Iterator[Mapping[str, JsonValue]]:
    compound = member(constraint, key)
    constraints = member(compound, "constraints") if isinstance(compound, dict) else None
    if isinstance(constraints, list):
        yield from (nested for nested in constraints if isinstance(nested, dict))


def _package(value: JsonValue) -> RequiredPackage | None:
    texts = _texts(value, "packageName", "versionRange")
    return RequiredPackage(*texts) if texts else None


def _api(value: JsonValue) -> RequiredApi | None:
    texts = _texts(value, "group", "version", "kind")
    return RequiredApi(*texts) if texts else None


def _texts(value: JsonValue, *names: str) -> list[str] | None:
    """Return the strings with these keys in a mapping, None if one is missing."""
    members = [member(value, name) for name in names] if isinstance(value, dict) else []
    texts = [text for text in members if isinstance(text, str)]
    return texts if len(texts) == len(names) else None
