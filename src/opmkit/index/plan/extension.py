"""Resolution of a ClusterExtension: the bundle that OLM v1 installs, or updates an installed one to.

This is the resolver of operator-controller 1.11 (``internal/operator-controller/resolve``). Unlike OLM v0, it
considers the update edges of all channels that the extension does not exclude, prefers what is not deprecated, then the
highest version and release, and refuses bundles with dependencies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from opmkit.bundle.property_types import REFUSED_BY_OLM_V1
from opmkit.bundle.versions import identifiers_key, strict_version, version_key
from opmkit.documents.fields import member
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import BUNDLE, PACKAGE
from opmkit.index.plan.candidate import skip_range
from opmkit.index.plan.constraint import VersionConstraint
from opmkit.index.plan.successors import Successors, group
from opmkit.index.suggestions import suggest_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from opmkit.bundle.versions import Identifiers, VersionKey
    from opmkit.index.fbc.blobs import Blobs, BundleBlob, ChannelBlob, EntryBlob

"""Properties with which OLM v1 refuses a bundle."""
MAX_RELEASE = 20
"""Maximum length of a release."""


class UnresolvedExtension(CatalogError):
    """OLM v1 finds no bundle, or more than one, or refuses the bundle."""


Release: TypeAlias = "tuple[bool, Identifiers]"
InstalledKey: TypeAlias = "tuple[str, VersionRelease | None]"
"""Name and version of an installed bundle."""


class VersionRelease(Struct, frozen=True, order=True):
    """A version, and the release that OLM v1 takes from its build metadata, as keys that sort them."""

    version: VersionKey
    release: Release = (False, ())

    @classmethod
    def parse(cls, text: str) -> VersionRelease:
        """Parse a version; build metadata that is no valid release is ignored.

        Raises:
            ValueError: The version is invalid.
        """
        version = strict_version(text)
        return cls(version_key(version), _release(version.build or ""))


def _release(build: str) -> Release:
    numbers = (part for part in build.split(".") if part.isdigit())
    if not build or len(build) > MAX_RELEASE or any(part[0] == "0" and part != "0" for part in numbers):
        return False, ()
    return True, identifiers_key(build)


@dataclass(frozen=True, slots=True)
class InstalledBundle:
    """The bundle that an extension has installed."""

    name: str
    version: str

    def parsed_version(self) -> VersionRelease:
        """Return the version as a key; raises CatalogError if it is invalid."""
        try:
            return VersionRelease.parse(self.version)
        except ValueError as error:
            raise CatalogError(
                f"installed bundle {self.name}: invalid version {self.version!r}: {error}", hint="name its version"
            ) from error


@dataclass(frozen=True, slots=True)
class ExtensionRequest:
    """What a ClusterExtension asks for.

    Attributes:
        package: Name of the package.
        version: Version range in the syntax of Masterminds/semver, or "" for any.
        channels: Names of channels, all by default.
        self_certified: Whether it may be updated to versions that no update edge leads to.
        installed: The installed bundle, if any.
    """

    package: str
    version: str = ""
    channels: tuple[str, ...] = ()
    self_certified: bool = False
    installed: InstalledBundle | None = None

    @classmethod
    def parse(cls, text: str) -> ExtensionRequest:
        """Parse ``PACKAGE[/CHANNEL,...][@RANGE]``.

        Raises:
            CatalogError: The package is missing, or the range is invalid.
        """
        name, _, version = text.partition("@")
        package, _, channels = name.partition("/")
        if not package:
            raise CatalogError(
                f"invalid ClusterExtension {text!r}", hint="write PACKAGE, PACKAGE/CHANNEL or 'PACKAGE@>=1.2, <2'"
            )
        if version:
            parse_constraint(version)
        return cls(package, version, tuple(filter(None, channels.split(","))))

    def with_installed_version(self, catalogs: Sequence[ExtensionCatalog]) -> ExtensionRequest:
        """Return the request with the version of the installed bundle, from the first catalog that has it.

        Raises:
            CatalogError: No catalog has the bundle.
        """
        if self.installed is None or self.installed.version:
            return self
        name = self.installed.name
        bundles = [bundle for catalog in catalogs for bundle in catalog.blobs.bundles if bundle.package == self.package]
        found = next((bundle for bundle in bundles if bundle.name == name), None)
        if found is None:
            raise CatalogError(
                f"the version of installed bundle {name!r} is unknown: no catalog has it",
                hint=f"add its version: {name}=1.2.3",
            )
        return replace(self, installed=InstalledBundle(name, version_text(found)))


class ExtensionCatalog(Struct, frozen=True):
    """A ClusterCatalog.

    Attributes:
        name: Its name.
        blobs: Its content.
        priority: Of several bundles, that of the catalog with the highest priority is installed.
    """

    name: str
    blobs: Blobs
    priority: int = 0


class ResolvedBundle(Struct, frozen=True):
    """The bundle of a ClusterExtension.

    Attributes:
        bundle: The bundle.
        catalog: Name of its catalog.
        is_deprecated: Whether the catalog deprecates the bundle.
    """

    bundle: BundleBlob
    catalog: str
    is_deprecated: bool


def resolve_extension(
    request: ExtensionRequest,
    catalogs: Sequence[ExtensionCatalog],
    find: Callable[[ExtensionRequest, ExtensionCatalog], ResolvedBundle | None] | None = None,
) -> ResolvedBundle:
    """Return the bundle that OLM v1 installs.

    Args:
        request: What the extension asks for.
        catalogs: The catalogs, in the order of their names.
        find: Returns what `best_bundle` does.

    Raises:
        UnresolvedExtension: There is no such bundle, catalogs with the same priority have one each, or the bundle has
            dependencies.
        CatalogError: The version range, or the version of the installed bundle, is invalid.
    """
    found: list[tuple[int, ResolvedBundle]] = []
    for catalog in catalogs:
        best = (find or best_bundle)(request, catalog)
        if best is None:
            continue
        if found and best.is_deprecated != found[-1][1].is_deprecated:
            if best.is_deprecated:
                continue
            found = []
        found.append((catalog.priority, best))
    highest = max((priority for priority, _ in found), default=0)
    candidates = [best for priority, best in found if priority == highest]
    if not candidates:
        raise _no_bundle(request, catalogs)
    if len(candidates) > 1:
        names = ", ".join(sorted(f"{best.catalog} ({best.bundle.name})" for best in candidates))
        raise UnresolvedExtension(
            f"several catalogs of the same priority have a bundle of package {request.package}: {names}",
            hint="give one of the catalogs a higher priority, or select it in the ClusterExtension",
        )
    (resolved,) = candidates
    if dependency := refused_dependency(resolved.bundle):
        raise UnresolvedExtension(
            f"{resolved.bundle.name} has a dependency ({dependency}), with which OLM v1 installs no bundle",
            hint="publish the operator without dependencies, and document them",
        )
    return resolved


def refused_dependency(bundle: BundleBlob) -> str:
    """Return the type of the property with which OLM v1 refuses a bundle, or ""."""
    return next((item.type for item in bundle.properties if item.type in REFUSED_BY_OLM_V1), "")


def best_bundle(request: ExtensionRequest, catalog: ExtensionCatalog) -> ResolvedBundle | None:
    """Return the bundle of a catalog that OLM v1 prefers, None if no bundle matches.

    Raises:
        CatalogError: The version range, or the version of the installed bundle, is invalid.
    """
    package = ExtensionPackage.of(catalog.blobs, request.package, request.channels)
    bundles = package.matching(request)
    if not bundles:
        return None
    best = max(bundles, key=package.rank)  # the first of equal ones
    return ResolvedBundle(best, catalog.name, best.name in package.deprecated)


class BestBundles:
    """The preferred bundles of catalogs for extensions that differ in the installed bundle only, found in one pass."""

    def __init__(self, request: ExtensionRequest, catalogs: Sequence[ExtensionCatalog]) -> None:
        """Prepare to resolve a request repeatedly."""
        self._request = request
        self._catalogs = catalogs
        self._prepared: dict[str, tuple[ExtensionPackage, list[BundleBlob], Mapping[InstalledKey, BundleBlob]]] = {}

    def __call__(self, request: ExtensionRequest, catalog: ExtensionCatalog) -> ResolvedBundle | None:
        """Return the bundle of a catalog that OLM v1 prefers, see `best_bundle`."""
        if catalog.name not in self._prepared:
            self._prepared[catalog.name] = self._prepare(catalog)
        package, ranked, following = self._prepared[catalog.name]
        if request.installed is None or request.self_certified:
            best = ranked[0] if ranked else None
        else:
            best = following.get((request.installed.name, request.installed.parsed_version()))
        return None if best is None else ResolvedBundle(best, catalog.name, best.name in package.deprecated)

    def _prepare(
        self, catalog: ExtensionCatalog
    ) -> tuple[ExtensionPackage, list[BundleBlob], Mapping[InstalledKey, BundleBlob]]:
        request = self._request
        package = ExtensionPackage.of(catalog.blobs, request.package, request.channels)
        ranked = package.ranked(package.matching(replace(request, installed=None)))
        if request.self_certified:
            return package, ranked, {}
        bundles = (each for other in self._catalogs for each in other.blobs.bundles if each.package == request.package)
        keys = set(map(installed_key, bundles))
        if request.installed:
            keys.add((request.installed.name, request.installed.parsed_version()))
        return package, ranked, package.successors(ranked, keys)


class ExtensionPackage(Struct, frozen=True):
    """The part of a catalog that an extension considers.

    Attributes:
        channels: The channels that it selects; the edges of other channels do not count.
        bundles: Their bundles.
        deprecated: Names of the bundles that the catalog deprecates.
    """

    channels: tuple[ChannelBlob, ...]
    bundles: tuple[BundleBlob, ...]
    deprecated: frozenset[str]

    @classmethod
    def of(cls, blobs: Blobs, package: str, selected: Sequence[str] = ()) -> ExtensionPackage:
        """Return a package, limited to some of its channels if any are given."""
        channels = [channel for channel in blobs.channels if channel.package == package]
        bundles = [bundle for bundle in blobs.bundles if bundle.package == package]
        if selected:
            channels = [channel for channel in channels if channel.name in selected]
            names = {entry.name for channel in channels for entry in channel.entries}
            bundles = [bundle for bundle in bundles if bundle.name in names]
        first = next((blob for blob in blobs.deprecations if blob.package == package), None)
        entries = first.entries if first else ()
        deprecated = frozenset(entry.name for entry in entries if entry.schema == BUNDLE)
        return cls(tuple(channels), tuple(bundles), deprecated)

    def rank(self, bundle: BundleBlob) -> tuple[bool, VersionRelease]:
        """Return a key with which the preferred bundle is the greatest."""
        return bundle.name not in self.deprecated, bundle_version(bundle) or LOWEST

    def ranked(self, bundles: Iterable[BundleBlob] | None = None) -> list[BundleBlob]:
        """Return bundles, by default all, the preferred one first."""
        return sorted(self.bundles if bundles is None else bundles, key=self.rank, reverse=True)

    def successors(
        self, ranked: Iterable[BundleBlob], installed: Iterable[InstalledKey]
    ) -> Mapping[InstalledKey, BundleBlob]:
        """Return what OLM v1 installs after each bundle: the first with its version, or with an edge from it."""
        installed = list(installed)
        by_name = group((key[0], key) for key in installed)
        by_version = group((key[1], key) for key in installed)
        successors: Successors[InstalledKey, BundleBlob] = Successors(
            (key[1].version, key) for key in installed if key[1] is not None
        )
        entries = group((entry.name, entry) for channel in self.channels for entry in channel.entries)
        for bundle in ranked:
            name, version = installed_key(bundle)
            if version is not None:
                successors.offer(by_version.get(version, ()), bundle)
            for entry in entries.get(name, ()):
                for target in (entry.replaces, *entry.skips):
                    successors.offer(by_name.get(target, ()), bundle)
                if span := skip_range(entry):
                    successors.offer_range(span, bundle)
        return successors.found

    def matching(self, request: ExtensionRequest) -> list[BundleBlob]:
        """Return the bundles in the version range that the installed bundle may be updated to; raises CatalogError."""
        bundles: Iterable[BundleBlob] = self.bundles
        if request.version:
            constraint = parse_constraint(request.version)
            bundles = [each for each in bundles if (key := bundle_version(each)) and constraint.matches(key.version)]
        if request.installed is None or request.self_certified:
            return list(bundles)
        version = request.installed.parsed_version()
        successors = {
            entry.name
            for channel in self.channels
            for entry in channel.entries
            if succeeds(entry, (request.installed.name, version))
        }
        return [each for each in bundles if each.name in successors or bundle_version(each) == version]


LOWEST = VersionRelease((-1, 0, 0, (False, ())))
"""What sorts before the versions of all bundles."""


def succeeds(entry: EntryBlob, installed: InstalledKey) -> bool:
    """Return whether an edge of an entry leads from an installed bundle."""
    name, version = installed
    if entry.replaces == name or name in entry.skips:
        return True
    span = skip_range(entry)
    return span is not None and version is not None and span.contains_key(version.version)


def installed_key(bundle: BundleBlob) -> InstalledKey:
    """Return the name and version by which OLM v1 finds the updates of an installed bundle."""
    return bundle.name, bundle_version(bundle)


def bundle_version(bundle: BundleBlob) -> VersionRelease | None:
    """Return the version and release of a bundle, None if it has no valid one."""
    try:
        return VersionRelease.parse(version_text(bundle))
    except ValueError:
        return None


def version_text(bundle: BundleBlob) -> str:
    """Return the version of a bundle as its catalog has it, "" if there is none."""
    value = next(bundle.property_values(PACKAGE), None)
    text = member(value, "version") if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""


def parse_constraint(text: str) -> VersionConstraint:
    """Parse a version range; raises CatalogError."""
    try:
        return VersionConstraint.parse(text)
    except ValueError as error:
        raise CatalogError(
            f"invalid version range {text!r}: {error}", hint="write a range such as '>=1.2, <2' or ~1.2"
        ) from error


def _no_bundle(request: ExtensionRequest, catalogs: Sequence[ExtensionCatalog]) -> UnresolvedExtension:
    """Return the error that names the part of a request that leaves no bundle, and what to change."""
    package, every = request.package, [ExtensionPackage.of(catalog.blobs, request.package) for catalog in catalogs]
    if not any(each.bundles for each in every):
        names = {blob.name for catalog in catalogs for blob in catalog.blobs.packages}
        return UnresolvedExtension(
            f"no catalog has package {package}", hint=suggest_names("packages", package, sorted(names))
        )
    selected = [ExtensionPackage.of(catalog.blobs, package, request.channels) for catalog in catalogs]
    bundles = [bundle for each in selected for bundle in each.bundles]
    if not bundles:
        channels = sorted({channel.name for each in every for channel in each.channels})
        return UnresolvedExtension(
            f"package {package} has no bundle in {' or '.join(request.channels)}",
            hint=f"choose some of its channels: {', '.join(channels)}",
        )
    in_range = replace(request, installed=None)
    if not any(each.matching(in_range) for each in selected):
        versions = sorted({key: version_text(each) for each in bundles if (key := bundle_version(each))}.items())
        return UnresolvedExtension(
            f"no version of package {package} is in the range {request.version}",
            hint=f"widen the range: the highest versions are {', '.join(text for _, text in versions[-3:])}",
        )
    installed = request.installed.name if request.installed else ""
    within = f" in the range {request.version}" if request.version else ""
    where = " or ".join(request.channels) or "any channel"
    return UnresolvedExtension(
        f"no entry of {where}{within} replaces or skips {installed}, and no catalog has its version",
        hint=f"let an entry skip {installed}, widen the range, or use the upgrade policy SelfCertified",
    )
