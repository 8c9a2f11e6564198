"""Conflicts between added bundles and a file-based catalog, independent of the update graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.core.hints import Hint
from opmkit.index.errors import BundleExists, BundleImageExists, BundleVersionExists, CatalogError, GraphError
from opmkit.index.graph import Node, check_name_owners, claim_names
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.errors import PRESENT_HINT, missing_package_error, substitutes_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.operations.add.new_bundle import NewBundle
    from opmkit.index.operations.add.options import AddOptions


@dataclass(frozen=True, slots=True)
class CheckedBundles:
    """The bundles without conflicts, by package and in the order of adding, and the errors of the others."""

    accepted: dict[str, list[NewBundle]] = field(default_factory=dict)
    errors: list[CatalogError] = field(default_factory=list)


def check_bundles(blobs: Blobs, bundles: Iterable[NewBundle], options: AddOptions) -> CheckedBundles:
    """Separate the bundles that can be added from those with conflicts.

    Of two bundles with the same name the first in sort order is accepted. Errors for existing images come first, since
    they decide the exit code.
    """
    present = _Contents.from_blobs(blobs)
    checked = CheckedBundles()
    by_name: dict[tuple[str, str], NewBundle] = {}
    for bundle in _unique_images(bundles):
        same_name = by_name.get((bundle.package, bundle.name))
        error = _name_taken(bundle, same_name) if same_name else _conflict(bundle, present, options)
        if error:
            checked.errors.append(error)
            continue
        by_name[bundle.package, bundle.name] = bundle
        for name in _claims(bundle):
            present.owners.setdefault(name, set()).add(bundle.package)
        checked.accepted.setdefault(bundle.package, []).append(bundle)
    checked.errors.sort(key=lambda error: not isinstance(error, BundleImageExists))
    return checked


def _unique_images(bundles: Iterable[NewBundle]) -> Iterator[NewBundle]:
    images: set[str] = set()
    for bundle in sorted(bundles, key=lambda bundle: bundle.order):
        if not bundle.image or bundle.image not in images:
            yield bundle
        images.add(bundle.image)


@dataclass(frozen=True, slots=True)
class _Contents:
    """The bundles of a catalog, as (package, name) and (package, image) pairs.

    ``owners`` maps each bundle name in a channel to the packages of these channels, ``updated_by`` each (package, name)
    to the (channel, bundle) pairs that replace or skip it.
    """

    names: frozenset[tuple[str, str]]
    images: frozenset[tuple[str, str]]
    owners: dict[str, set[str]]
    updated_by: dict[tuple[str, str], list[tuple[str, str]]]

    @classmethod
    def from_blobs(cls, blobs: Blobs) -> _Contents:
        updated_by: dict[tuple[str, str], list[tuple[str, str]]] = {}
        owners: dict[str, set[str]] = {}
        for channel in blobs.channels:
            for entry in channel.entries:
                owners.setdefault(entry.name, set()).add(channel.package)
                for below in filter(None, (*entry.skips, entry.replaces)):
                    owners.setdefault(below, set()).add(channel.package)
                    updated_by.setdefault((channel.package, below), []).append((channel.name, entry.name))
        return cls(
            frozenset((bundle.package, bundle.name) for bundle in blobs.bundles),
            frozenset((bundle.package, bundle.image) for bundle in blobs.bundles if bundle.image),
            owners,
            updated_by,
        )


def _conflict(bundle: NewBundle, present: _Contents, options: AddOptions) -> CatalogError | None:
    if not bundle.package:
        return missing_package_error(bundle.label)
    if not bundle.channels:
        return _without_channel(bundle)
    if bundle.substitutes_for and not options.enable_alpha:
        return substitutes_error(bundle.label, bundle.substitutes_for)
    if (bundle.package, bundle.image) in present.images:
        return BundleImageExists(
            f"bundle {bundle.image} already exists in package {bundle.package} of the catalog",
            hint=PRESENT_HINT,
        )
    if (bundle.package, bundle.name) in present.names and (error := _overwrite_conflict(bundle, present, options)):
        return error
    try:
        claims = _claims(bundle)
        owned = ((name, present.owners.get(name, set())) for name in claims)
        check_name_owners(claims, [(name, min(by)) for name, by in owned if by and bundle.package not in by])
    except GraphError as error:
        return error
    return None


def _claims(bundle: NewBundle) -> dict[str, str]:
    node = Node(bundle.name, bundle.version, bundle.replaces, bundle.skips)
    return claim_names([(bundle.package, node)])


def _without_channel(bundle: NewBundle) -> CatalogError:
    return CatalogError(
        f"{bundle.label}: cannot be added: no channel",
        hint=Hint.any_of("set channels in its annotations", Hint("pass {}", IndexSetting.CHANNEL)),
    )


def _name_taken(bundle: NewBundle, other: NewBundle) -> BundleExists:
    return BundleExists(
        f"{bundle.label}: cannot be added: its name is used by {other.image or 'another bundle'} of the same command",
        hint="give its ClusterServiceVersion its own name",
    )


def _overwrite_conflict(bundle: NewBundle, present: _Contents, options: AddOptions) -> CatalogError | None:
    """Return the error if the bundle cannot overwrite the existing one of the same name, else None."""
    if not options.overwrite_latest:
        return BundleVersionExists(
            f"bundle {bundle.name} already exists in package {bundle.package}",
            hint=Hint.any_of(
                "give the new bundle's ClusterServiceVersion its own name and version",
                Hint(
                    "replace the existing bundle with {} if it is the head of its channels",
                    IndexSetting.OVERWRITE_LATEST,
                ),
            ),
        )
    if options.mode is not UpdateMode.REPLACES:
        return BundleExists(
            f"{bundle.label}: cannot be added: its name is used by a bundle of the catalog",
            hint="overwrite it in the mode replaces",
        )
    updated_by = present.updated_by.get((bundle.package, bundle.name))
    if not updated_by:
        return None
    edges = ", ".join(f"{name} in channel {channel}" for channel, name in sorted(set(updated_by)))
    return GraphError(
        f"bundle {bundle.name} of package {bundle.package}: cannot be overwritten: replaced or skipped by {edges}",
        hint="add the change as a new version: only a bundle that nothing replaces or skips can be overwritten",
    )
