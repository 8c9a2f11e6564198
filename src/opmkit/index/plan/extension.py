"""Resolution of a ClusterExtension: the bundle that OLM v1 installs, or updates an installed one to.

This is the resolver of operator-controller 1.11 (``internal/operator-controller/resolve``). Unlike OLM v0, it
considers the update edges of all channels that the extension does not exclude, prefers what is not deprecated, then the
highest version and release, and refuses bundles with dependencies.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle.versions import VersionRange, identifiers_key, strict_version, version_key
from opmkit.documents.fields import member
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import BUNDLE, PACKAGE, Blobs
from opmkit.index.operations.manifests.olm_v1.cluster_extension import VersionConstraint
from opmkit.index.plan.paths import Outcome, UpdatePath

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opmkit.bundle.versions import Identifiers, VersionKey
    from opmkit.index.fbc.blobs import BundleBlob, EntryBlob

DEPENDENCIES = ("olm.package.required", "olm.gvk.required", "olm.constraint")
"""Properties with which OLM v1 refuses a bundle."""
MAX_RELEASE = 20
"""Maximum length of a release."""


class UnresolvedExtension(CatalogError):
    """OLM v1 finds no bundle, or more than one, or refuses the bundle."""


Release: TypeAlias = "tuple[bool, Identifiers]"


@dataclass(frozen=True, slots=True, order=True)
class VersionRelease:
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


@dataclass(frozen=True, slots=True)
class ExtensionCatalog:
    """A ClusterCatalog.

    Attributes:
        name: Its name.
        blobs: Its content.
        priority: Of several bundles, that of the catalog with the highest priority is installed.
    """

    name: str
    blobs: Blobs
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ResolvedBundle:
    """The bundle of a ClusterExtension.

    Attributes:
        bundle: The bundle.
        catalog: Name of its catalog.
        is_deprecated: Whether the catalog deprecates the bundle.
    """

    bundle: BundleBlob
    catalog: str
    is_deprecated: bool


def resolve_extension(request: ExtensionRequest, catalogs: Sequence[ExtensionCatalog]) -> ResolvedBundle:
    """Return the bundle that OLM v1 installs.

    Args:
        request: What the extension asks for.
        catalogs: The catalogs, in the order of their names.

    Raises:
        UnresolvedExtension: There is no such bundle, catalogs with the same priority have one each, or the bundle has
            dependencies.
        CatalogError: The version range, or the version of the installed bundle, is invalid.
    """
    found: list[tuple[int, ResolvedBundle]] = []
    for catalog in catalogs:
        best = _best(request, catalog)
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
        raise UnresolvedExtension(f"no bundle found for {_describe(request)}", hint=_hint(request))
    if len(candidates) > 1:
        names = ", ".join(sorted(best.catalog for best in candidates))
        raise UnresolvedExtension(
            f"several catalogs with the same priority have bundles for {_describe(request)}: {names}",
            hint="give the catalogs different priorities, or select one of them",
        )
    (resolved,) = candidates
    for item in resolved.bundle.properties:
        if item.type in DEPENDENCIES:
            raise UnresolvedExtension(
                f"{resolved.bundle.name} has a dependency ({item.type}), which OLM v1 does not support",
                hint="publish the operator without dependencies",
            )
    return resolved


def _best(request: ExtensionRequest, catalog: ExtensionCatalog) -> ResolvedBundle | None:
    """Return the bundle of a catalog that is preferred, None if no bundle matches."""
    deprecated = {
        entry.name
        for blob in [blob for blob in catalog.blobs.deprecations if blob.package == request.package][:1]
        for entry in blob.entries
        if entry.schema == BUNDLE
    }
    matching = list(_matching(request, catalog.blobs))
    if not matching:
        return None
    versions = {id(bundle): _version_of(bundle) for bundle in matching}
    lowest = VersionRelease((-1, 0, 0, (False, ())))

    def rank(bundle: BundleBlob) -> tuple[bool, VersionRelease]:
        return bundle.name not in deprecated, versions[id(bundle)] or lowest

    best = max(matching, key=rank)  # the first of equal ones
    return ResolvedBundle(best, catalog.name, best.name in deprecated)


def _matching(request: ExtensionRequest, blobs: Blobs) -> Iterator[BundleBlob]:
    channels = [channel for channel in blobs.channels if channel.package == request.package]
    bundles = [bundle for bundle in blobs.bundles if bundle.package == request.package]
    if request.channels:  # their selection removes the edges of other channels, too
        channels = [channel for channel in channels if channel.name in request.channels]
        names = {entry.name for channel in channels for entry in channel.entries}
        bundles = [bundle for bundle in bundles if bundle.name in names]
    constraint = _parse_constraint(request.version) if request.version else None
    if constraint:
        bundles = [bundle for bundle in bundles if (key := _version_of(bundle)) and constraint.matches(key.version)]
    if request.installed and not request.self_certified:
        installed = request.installed
        try:
            version = VersionRelease.parse(installed.version)
        except ValueError as error:
            raise CatalogError(f"version of the installed bundle {installed.name}: {error}") from error
        successors = {
            entry.name for channel in channels for entry in channel.entries if _succeeds(entry, installed, version)
        }
        bundles = [bundle for bundle in bundles if bundle.name in successors or _version_of(bundle) == version]
    yield from bundles


def _succeeds(entry: EntryBlob, installed: InstalledBundle, version: VersionRelease) -> bool:
    if entry.replaces == installed.name or installed.name in entry.skips:
        return True
    try:
        return bool(entry.skip_range) and VersionRange.parse(entry.skip_range).contains_key(version.version)
    except ValueError:
        return False


def _version_of(bundle: BundleBlob) -> VersionRelease | None:
    value = next(bundle.property_values(PACKAGE), None)
    text = member(value, "version") if isinstance(value, dict) else None
    try:
        return VersionRelease.parse(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _parse_constraint(text: str) -> VersionConstraint:
    try:
        return VersionConstraint.parse(text)
    except ValueError as error:
        raise CatalogError(
            f"invalid version range {text!r}: {error}", hint="write a range such as >=1.2, <2"
        ) from error


def _describe(request: ExtensionRequest) -> str:
    version = f" in the range {request.version}" if request.version else ""
    channels = f" in {', '.join(request.channels)}" if request.channels else ""
    installed = f" as an update of {request.installed.name}" if request.installed else ""
    return f"package {request.package}{version}{channels}{installed}"


def _hint(request: ExtensionRequest) -> str:
    if request.installed and not request.self_certified:
        return "let an entry of any channel replace or skip the installed version, or use SelfCertified"
    return "check the package, the channels and the version range"


def plan_extension_updates(catalog: Blobs, published: Blobs, packages: Iterable[str] = ()) -> Iterator[UpdatePath]:
    """Yield where OLM v1 takes each bundle that a published catalog can have left installed, by package.

    An extension without channels follows all of them, so that the paths have none.

    Args:
        catalog: The new catalog.
        published: The catalog that clusters have installed bundles from.
        packages: Names of packages, by default all of the published catalog.
    """
    names = set(packages)
    by_package: defaultdict[str, list[BundleBlob]] = defaultdict(list)
    for bundle in published.bundles:
        if not names or bundle.package in names:
            by_package[bundle.package].append(bundle)
    for package, bundles in by_package.items():
        source = ExtensionCatalog("catalog", _of_package(catalog, package))
        yield from (_path(bundle, source) for bundle in bundles)


def _path(installed: BundleBlob, catalog: ExtensionCatalog) -> UpdatePath:
    """Return the updates of a bundle until nothing changes."""
    package, current, problem = installed.package, installed, ""
    hops: list[BundleBlob] = []
    while True:
        version = next(_version_texts(current), "")
        try:
            found = resolve_extension(
                ExtensionRequest(package, installed=InstalledBundle(current.name, version)), [catalog]
            )
        except CatalogError as error:
            problem = error.message
            break
        if found.bundle.name == current.name or found.bundle in hops:
            break
        hops.append(found.bundle)
        current = found.bundle
    names = tuple(bundle.name for bundle in hops)
    if not catalog.blobs.bundles:
        reason = f"the catalog has no package {package}"
        return UpdatePath(package, "", installed.name, names, Outcome.GONE, reason, "keep the package")
    try:
        head = resolve_extension(ExtensionRequest(package), [catalog]).bundle.name
    except CatalogError as error:
        return UpdatePath(package, "", installed.name, names, Outcome.UNRESOLVABLE, error.message)
    if current.name == head:
        return UpdatePath(package, "", installed.name, names, Outcome.HEAD)
    if problem and "dependency" in problem:
        return UpdatePath(package, "", installed.name, names, Outcome.UNRESOLVABLE, problem)
    reason = f"no entry of any channel replaces or skips {current.name}"
    return UpdatePath(package, "", installed.name, names, Outcome.STUCK, reason, f"let {head} skip {current.name}")


def _version_texts(bundle: BundleBlob) -> Iterator[str]:
    """Yield the versions of the properties of a bundle."""
    for value in bundle.property_values(PACKAGE):
        text = member(value, "version") if isinstance(value, dict) else None
        if isinstance(text, str):
            yield text


def _of_package(blobs: Blobs, package: str) -> Blobs:
    return Blobs.from_blobs(blob for blob in blobs if blob.package == package)
