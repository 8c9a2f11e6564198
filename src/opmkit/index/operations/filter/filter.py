"""Filtering catalogs: packages, channels and versions that are wanted, and what keeps the update graphs valid."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError, combined
from opmkit.index.fbc.blobs import Blobs, OtherBlob
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.findings import raise_findings
from opmkit.index.fbc.packages import select_packages
from opmkit.index.operations.filter.part import part_of
from opmkit.index.operations.filter.requirements import losses
from opmkit.index.operations.filter.values import Dropped, Filtered, Kept
from opmkit.index.operations.filter.wanted import Wanted
from opmkit.index.suggestions import instead, packages_not_found

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from opmkit.index.operations.filter.part import Part
    from opmkit.index.operations.filter.requirements import Loss


def filter_blobs(
    blobs: Blobs,
    wanted: Sequence[Wanted],
    *,
    default_channels: Mapping[str, str] | None = None,
    with_dependencies: bool = False,
    permissive: bool = False,
) -> Filtered:
    """Keep what is wanted of a catalog, and of its channels also what a valid update graph needs beside.

    Edges stay as they are, and bundles that are in no channel any longer go, as deprecations of what is gone do.
    Documents of other schemas stay with their package, or where they have none. ``default_channels`` are new ones by
    their packages, for where the old one goes. ``with_dependencies`` keeps whole packages, too, that provide what is
    required. ``permissive`` ignores packages and channels that are not found, with a warning each, as long as some
    are.

    Raises:
        UnknownPackage, CatalogError: the catalog has no such package or channel, nothing in a range, or a default
            channel would go; several such errors in one.
        InvalidCatalog: a package that is to be kept is not valid before.
    """
    wanted, ignored = _found(blobs, wanted) if permissive else (list(wanted), ())
    required: list[Kept] = []
    while True:
        parts = _parts(blobs, wanted, default_channels or {})
        lost = losses(blobs.bundles, [bundle for part in parts for bundle in part.blobs.bundles])
        more = _providers(lost, {one.package for one in wanted}) if with_dependencies else []
        if not more:
            return _filtered(blobs, parts, required, lost, ignored)
        wanted += [Wanted(kept.package) for kept in more]
        required += more


def _found(blobs: Blobs, wanted: Sequence[Wanted]) -> tuple[list[Wanted], tuple[str, ...]]:
    """Return what is found of the wanted packages and channels, or all if nothing is, and warnings about the rest."""
    packages = {blob.package for blob in blobs if not isinstance(blob, OtherBlob)}
    channels = {(channel.package, channel.name) for channel in blobs.channels}
    found: list[Wanted] = []
    warnings: list[str] = []
    for one in wanted:
        there = tuple(name for name in one.channels if (one.package, name) in channels)
        if one.package not in packages:
            warnings.append(f'package "{one.package}" not found; ignored')
        else:
            unknown = [name for name in one.channels if name not in there]
            warnings += [f'channel "{name}" of package "{one.package}" not found; ignored' for name in unknown]
            found += [replace(one, channels=there)] if there or not one.channels else []
    return found or list(wanted), tuple(warnings)


def _parts(blobs: Blobs, wanted: Iterable[Wanted], default_channels: Mapping[str, str]) -> list[Part]:
    """What is left of each package, by name."""
    by_package: defaultdict[str, list[Wanted]] = defaultdict(list)
    for one in wanted:
        by_package[one.package].append(one)
    names = sorted(by_package)
    known = {blob.package for blob in blobs if not isinstance(blob, OtherBlob)}
    errors: list[CatalogError] = [*packages_not_found(names, known)]
    errors += [_not_kept(name, names) for name in default_channels if name not in names]
    if errors:
        raise combined(errors)
    packages = select_packages(blobs, names)
    raise_findings(fault for package in packages.values() for fault in check_blobs(package))
    parts = []
    for name, package in packages.items():
        try:
            parts.append(part_of(package, by_package[name], default_channels.get(name, "")))
        except CatalogError as error:
            errors.append(error)
    if errors:
        raise combined(errors)
    return parts


def _not_kept(package: str, kept: Sequence[str]) -> CatalogError:
    return CatalogError(
        f'package "{package}" is given a default channel, but is not to be kept',
        advice=instead("packages that are kept", package, kept),
    )


def _providers(lost: Iterable[Loss], known: Collection[str]) -> list[Kept]:
    """The packages that are not kept yet, but provide what is required."""
    found: dict[str, Kept] = {}
    for loss in lost:
        for package in loss.providers:
            if package not in known:
                found.setdefault(package, Kept(package, "", "", str(loss)))
    return list(found.values())


def _filtered(
    blobs: Blobs, parts: Sequence[Part], required: Iterable[Kept], lost: Iterable[Loss], ignored: tuple[str, ...]
) -> Filtered:
    loose = [blob for blob in blobs.others if not blob.package]
    left = Blobs.from_blobs([*(blob for part in parts for blob in part.blobs), *loose])
    return Filtered(
        left,
        tuple(channel for part in parts for channel in part.channels),
        (*required, *(kept for part in parts for kept in part.kept)),
        Dropped(
            len(blobs.packages) - len(left.packages),
            len(blobs.channels) - len(left.channels),
            len(blobs.bundles) - len(left.bundles),
        ),
        (*ignored, *(f"{loss}, which is left out: {' and '.join(loss.providers)} had it" for loss in lost)),
    )
