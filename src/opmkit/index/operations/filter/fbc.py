"""Filter a file-based catalog by packages, channels and versions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError, combine_errors
from opmkit.index.fbc.blobs import Blobs, OtherBlob
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.findings import raise_findings
from opmkit.index.fbc.packages import select_packages
from opmkit.index.operations.filter.package import filter_package
from opmkit.index.operations.filter.package_filter import PackageFilter
from opmkit.index.operations.filter.requirements import unmet_requirements
from opmkit.index.operations.filter.result import FilterResult, RemovedCounts, RetainedBundle
from opmkit.index.suggestions import suggest_names, unknown_packages

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from opmkit.index.operations.filter.package import FilteredPackage
    from opmkit.index.operations.filter.requirements import UnmetRequirement


def filter_blobs(
    blobs: Blobs,
    filters: Sequence[PackageFilter],
    *,
    default_channels: Mapping[str, str] | None = None,
    with_dependencies: bool = False,
    permissive: bool = False,
) -> FilterResult:
    """Keep what matches a filter, and the channel entries that valid update graphs need in addition.

    Edges are not changed. Bundles that are in no channel any longer are removed, and so are deprecations of removed
    objects. Documents of other schemas stay with their package; those without a package always stay.

    Args:
        blobs: a valid catalog.
        filters: at least one.
        default_channels: new default channels by package, for packages whose default channel is removed.
        with_dependencies: also keep whole packages that provide what the retained bundles require.
        permissive: ignore packages and channels that are not found, with a warning each, unless none is found.

    Raises:
        UnknownPackage, CatalogError: a package or channel does not exist, a range matches no version, or a default
            channel would be removed; several such errors are combined.
        InvalidCatalog: a package to keep is invalid.
    """
    filters, ignored = _existing(blobs, filters) if permissive else (list(filters), ())
    required: list[RetainedBundle] = []
    while True:
        packages = _filter_packages(blobs, filters, default_channels or {})
        unmet = unmet_requirements(blobs.bundles, [bundle for package in packages for bundle in package.blobs.bundles])
        providers = _providers(unmet, {wanted.package for wanted in filters}) if with_dependencies else []
        if not providers:
            return _result(blobs, packages, required, unmet, ignored)
        filters += [PackageFilter(provider.package) for provider in providers]
        required += providers


def _existing(blobs: Blobs, filters: Sequence[PackageFilter]) -> tuple[list[PackageFilter], tuple[str, ...]]:
    """Return the filters without unknown packages and channels, or all if nothing exists; and warnings."""
    packages = {blob.package for blob in blobs if not isinstance(blob, OtherBlob)}
    channels = {(channel.package, channel.name) for channel in blobs.channels}
    existing: list[PackageFilter] = []
    warnings: list[str] = []
    for wanted in filters:
        known = tuple(name for name in wanted.channels if (wanted.package, name) in channels)
        if wanted.package not in packages:
            warnings.append(f'package "{wanted.package}" not found; ignored')
        else:
            unknown = [name for name in wanted.channels if name not in known]
            warnings += [f'channel "{name}" of package "{wanted.package}" not found; ignored' for name in unknown]
            existing += [replace(wanted, channels=known)] if known or not wanted.channels else []
    return existing or list(filters), tuple(warnings)


def _filter_packages(
    blobs: Blobs, filters: Iterable[PackageFilter], default_channels: Mapping[str, str]
) -> list[FilteredPackage]:
    """Filter each package, in order of name."""
    by_package: defaultdict[str, list[PackageFilter]] = defaultdict(list)
    for wanted in filters:
        by_package[wanted.package].append(wanted)
    names = sorted(by_package)
    known = {blob.package for blob in blobs if not isinstance(blob, OtherBlob)}
    errors: list[CatalogError] = [*unknown_packages(names, known)]
    errors += [_default_of_removed(name, names) for name in default_channels if name not in names]
    if errors:
        raise combine_errors(errors)
    packages = select_packages(blobs, names)
    raise_findings(fault for package in packages.values() for fault in check_blobs(package))
    filtered = []
    for name, package in packages.items():
        try:
            filtered.append(filter_package(package, by_package[name], default_channels.get(name, "")))
        except CatalogError as error:
            errors.append(error)
    if errors:
        raise combine_errors(errors)
    return filtered


def _default_of_removed(package: str, names: Sequence[str]) -> CatalogError:
    return CatalogError(
        f'package "{package}": default channel given for a package that is removed',
        hint=suggest_names("retained packages", package, names),
    )


def _providers(unmet: Iterable[UnmetRequirement], known: Collection[str]) -> list[RetainedBundle]:
    """Return the packages that are not retained yet but meet a requirement."""
    providers: dict[str, RetainedBundle] = {}
    for requirement in unmet:
        for package in requirement.providers:
            if package not in known:
                providers.setdefault(package, RetainedBundle(package, "", "", str(requirement)))
    return list(providers.values())


def _result(
    blobs: Blobs,
    packages: Sequence[FilteredPackage],
    required: Iterable[RetainedBundle],
    unmet: Iterable[UnmetRequirement],
    ignored: tuple[str, ...],
) -> FilterResult:
    without_package = [blob for blob in blobs.others if not blob.package]
    kept = Blobs.from_blobs([*(blob for package in packages for blob in package.blobs), *without_package])
    return FilterResult(
        kept,
        tuple(channel for package in packages for channel in package.channels),
        (*required, *(bundle for package in packages for bundle in package.retained)),
        RemovedCounts(
            len(blobs.packages) - len(kept.packages),
            len(blobs.channels) - len(kept.channels),
            len(blobs.bundles) - len(kept.bundles),
        ),
        (
            *ignored,
            *(
                f"{requirement}, which is left out: {' and '.join(requirement.providers)} had it"
                for requirement in unmet
            ),
        ),
    )
