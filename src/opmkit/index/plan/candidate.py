"""Candidates: the bundles of catalogs as OLM v0 lists them, one for each channel with the bundle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from opmkit.bundle.versions import VersionRange, strict_version, tolerant_version, version_key
from opmkit.documents import fields
from opmkit.documents.errors import FieldTypeError
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import DEPRECATED, PACKAGE, BlobProperty
from opmkit.index.fbc.model import version_text
from opmkit.index.plan.requirement import InvalidRequirement, api_of, parse_requirement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.versions import VersionKey
    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import BundleBlob, EntryBlob
    from opmkit.index.fbc.model import Catalog, Channel, Package
    from opmkit.index.plan.requirement import Api, BundleRequirement

GVK = "olm.gvk"
LABEL = "olm.label"


class CatalogKey(NamedTuple):
    """Name and namespace of a CatalogSource; those of installed operators are in a virtual one without a name."""

    name: str
    namespace: str = ""

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class Hold(NamedTuple):
    """Why OLM replaces an installed operator with nothing.

    Attributes:
        reason: The rest of a sentence that begins with its name.
        remedy: What to change, or "" if another operator has to change.
    """

    reason: str
    remedy: str = ""


class BundleProperties(Struct, frozen=True, dict=True):
    """The properties of a bundle, parsed when they are asked for.

    Attributes:
        name: Name of the bundle, which is that of its ClusterServiceVersion.
        package: Name of its package in the catalog.
        version_text: Its version, or "" if there is none.
        properties: All properties.
    """

    name: str
    package: str
    version_text: str
    properties: tuple[BlobProperty, ...]

    @classmethod
    def of_blob(cls, bundle: BundleBlob) -> BundleProperties:
        """Return the properties of a bundle in a catalog."""
        try:
            version = version_text(bundle)
        except ValueError:
            version = ""
        properties = bundle.properties
        if all(item.type != PACKAGE for item in properties):
            properties += (BlobProperty(PACKAGE, {"packageName": bundle.package, "version": version}),)
        return cls(bundle.name, bundle.package, version, properties)

    @cached_property
    def version(self) -> VersionKey | None:
        """The version, None if it is invalid."""
        try:
            return version_key(tolerant_version(self.version_text))
        except ValueError:
            return None

    @cached_property
    def packages(self) -> tuple[tuple[str, VersionKey | None], ...]:
        """The package in the catalog and those of properties, with versions."""
        found = [(name, _strict_key(version)) for name, version in self._package_values()]
        return ((self.package, self.version), *found)

    @cached_property
    def declared_packages(self) -> frozenset[str]:
        """The packages of properties, of which a namespace can have one operator each."""
        return frozenset(name for name, _ in self._package_values())

    def _package_values(self) -> Iterator[tuple[str, str]]:
        for value in self._values(PACKAGE):
            try:
                members = fields.mapping(value, PACKAGE)
                yield (
                    fields.text(fields.member(members, "packageName"), "packageName"),
                    fields.text(fields.member(members, "version"), "version"),
                )
            except FieldTypeError:
                continue

    @cached_property
    def apis(self) -> frozenset[Api]:
        """APIs that the bundle provides."""
        found = set()
        for value in self._values(GVK):
            try:
                found.add(api_of(value))
            except FieldTypeError:
                continue
        return frozenset(found)

    @cached_property
    def labels(self) -> frozenset[str]:
        """Labels that the bundle has."""
        values = (fields.member(value, "label") for value in self._values(LABEL) if isinstance(value, dict))
        return frozenset(value for value in values if isinstance(value, str))

    @cached_property
    def is_deprecated(self) -> bool:
        """Whether OLM never installs the bundle, because a channel was truncated at it."""
        return any(item.type == DEPRECATED for item in self.properties)

    @cached_property
    def requirements(self) -> tuple[BundleRequirement, ...]:
        """What other bundles must provide, in the order of the properties.

        Raises:
            InvalidRequirement: OLM cannot parse a requirement.
        """
        return tuple(dict.fromkeys(filter(None, map(parse_requirement, self.properties))))

    def _values(self, kind: str) -> Iterator[JsonValue]:
        return (item.value for item in self.properties if item.type == kind)


def installed_properties(name: str, package: str, version: str) -> BundleProperties:
    """Return the properties of an installed bundle of which only its version is known; raises CatalogError."""
    try:
        tolerant_version(version)
    except ValueError as error:
        raise CatalogError(
            f"installed bundle {name}: invalid version {version!r}: {error}", hint="correct it"
        ) from error
    value: JsonValue = {"packageName": package, "version": version}
    return BundleProperties(name, package, version, (BlobProperty(PACKAGE, value),) if package else ())


@dataclass(frozen=True, slots=True, eq=False)
class CatalogEntry:
    """A bundle as an entry of a channel of a catalog, or an installed one.

    Attributes:
        bundle: The bundle.
        catalog: The catalog.
        channel: Name of the channel, or "" for an installed bundle.
        in_default_channel: Whether it is the default channel of the package.
        replaces: Name of the bundle that it replaces, or "".
        skips: Names of bundles that it skips.
        skip_range: Versions of bundles that it can replace, None for no range.
        is_mandatory: Whether it is installed without a Subscription, so that every solution must contain it.
        hold: Why OLM replaces it with nothing, although it is installed; None if OLM can replace it.
    """

    bundle: BundleProperties
    catalog: CatalogKey
    channel: str = ""
    in_default_channel: bool = False
    replaces: str = ""
    skips: tuple[str, ...] = ()
    skip_range: VersionRange | None = None
    is_mandatory: bool = False
    hold: Hold | None = None

    @property
    def name(self) -> str:
        """Name of the bundle."""
        return self.bundle.name

    @property
    def package(self) -> str:
        """Name of the package in the catalog."""
        return self.bundle.package

    @property
    def packages(self) -> frozenset[str]:
        """Names of the packages by which Subscriptions find the entry: in the catalog, and those of properties."""
        return self.bundle.declared_packages | {self.package}

    @property
    def is_installed(self) -> bool:
        """Whether the bundle is installed, and not from a catalog."""
        return not self.catalog.name

    def updates_from(self, name: str, version: VersionKey | None) -> bool:
        """Return whether an installed bundle can be updated to this one, as far as the channel is concerned."""
        if self.replaces == name or name in self.skips:
            return True
        return self.skip_range is not None and version is not None and self.skip_range.contains_key(version)

    @property
    def requirements(self) -> tuple[BundleRequirement, ...]:
        """What other bundles must provide.

        Raises:
            InvalidRequirement: OLM cannot parse a requirement; the error names the bundle and its catalog.
        """
        try:
            return self.bundle.requirements
        except InvalidRequirement as error:
            where = f"catalog {self.catalog}: " if self.catalog.name else ""
            raise InvalidRequirement(f"{where}bundle {self.name}: {error.message}", hint=error.hint) from error

    @property
    def needs_resolution(self) -> bool:
        """Whether more than the channel decides about updates to the bundle."""
        try:
            return bool(self.bundle.requirements) or self.bundle.is_deprecated
        except InvalidRequirement:
            return True

    def installed(self, namespace: str, *, mandatory: bool, hold: Hold | None = None) -> CatalogEntry:
        """Return the bundle as an installed one, without update edges."""
        return CatalogEntry(self.bundle, CatalogKey("", namespace), is_mandatory=mandatory, hold=hold)

    def with_edges(self, replaces: str, skips: tuple[str, ...]) -> CatalogEntry:
        """Return the entry with other update edges."""
        return replace(self, replaces=replaces, skips=skips)

    def __str__(self) -> str:
        """Return the name with the channel, if any."""
        return f"{self.name} ({self.channel})" if self.channel else self.name


def list_candidates(catalog: Catalog, key: CatalogKey) -> tuple[CatalogEntry, ...]:
    """Return the entries of all channels of a catalog whose bundles exist, by package and channel."""
    found: list[CatalogEntry] = []
    for package in catalog.packages.values():
        bundles = {name: BundleProperties.of_blob(bundle) for name, bundle in package.bundles.items()}
        for channel in package.channels.values():
            found += _channel_candidates(package, channel, bundles, key)
    return tuple(found)


def _channel_candidates(
    package: Package, channel: Channel, bundles: dict[str, BundleProperties], key: CatalogKey
) -> Iterator[CatalogEntry]:
    is_default = channel.name == package.default_channel
    for entry in channel.entries.values():
        if entry.name in bundles:
            yield CatalogEntry(
                bundles[entry.name],
                key,
                channel.name,
                is_default,
                entry.replaces,
                entry.skips,
                skip_range(entry),
            )


def skip_range(entry: EntryBlob) -> VersionRange | None:
    """Return the skip range of an entry, None if there is none or OLM cannot parse it."""
    try:
        return VersionRange.parse(entry.skip_range) if entry.skip_range else None
    except ValueError:
        return None


def _strict_key(text: str) -> VersionKey | None:
    try:
        return version_key(strict_version(text))
    except ValueError:
        return None
