"""Catalogs to try an operator: an index, if any, with one or more bundles in a channel of their sequence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.index.errors import BundleExists, CatalogError
from opmkit.index.fbc.blobs import Blobs, ChannelBlob, EntryBlob, PackageBlob
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.fbc.packages import validate_packages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.fbc.blobs import BundleBlob

CHANNEL = "operator-sdk-run-bundle"
"""Channel of the bundles that are tried; operator-sdk uses the same, so each tool can upgrade what the other runs."""


def add_sequence(index: Blobs, bundles: Sequence[BundleBlob], *, channel: str = CHANNEL) -> Blobs:
    """Add bundles of one package in a new channel in which each replaces the one before.

    Channels and edges that the bundles declare are ignored. An existing package retains its default channel.

    Raises:
        BundleExists: The index has the last of the bundles.
        CatalogError: The index has the channel.
        InvalidCatalog: The resulting package is invalid.
    """
    package = bundles[-1].package
    present = {blob.name for blob in index.bundles if blob.package == package}
    _check_new(bundles[-1], present)
    if any((blob.package, blob.name) == (package, channel) for blob in index.channels):
        raise CatalogError(
            f"package {package}: channel {channel} already exists in the index",
            hint="remove the channel from the index: it is reserved for bundles that are tried",
        )
    names = [bundle.name for bundle in bundles]
    entries = tuple(EntryBlob(name, replaces) for name, replaces in zip(names, ["", *names[:-1]], strict=True))
    added = Blobs(
        () if any(blob.name == package for blob in index.packages) else (PackageBlob(package, channel),),
        (ChannelBlob(channel, package, entries),),
        tuple(bundle for bundle in bundles if bundle.name not in present),
    )
    catalog = index + added
    validate_packages(catalog, {package})
    return catalog


def append_to_channel(index: Blobs, bundle: BundleBlob, channel: str) -> Blobs:
    """Add a bundle to a channel of an index, as the new head, which replaces the present one.

    Raises:
        BundleExists: The index has the bundle.
        CatalogError: The index does not have the channel, or the channel has several heads.
        InvalidCatalog: The resulting package is invalid.
    """
    package = bundle.package
    _check_new(bundle, {blob.name for blob in index.bundles if blob.package == package})
    found = next((blob for blob in index.channels if (blob.package, blob.name) == (package, channel)), None)
    heads = channel_heads(found.entries) if found else ()
    if found is None or len(heads) != 1:
        problem = f"it has several heads: {', '.join(heads)}" if heads else "not found in the index"
        raise CatalogError(
            f"package {package}: channel {channel}: {problem}",
            hint="correct the index, or the channel of the Subscription",
        )
    extended = replace(found, entries=(*found.entries, EntryBlob(bundle.name, heads[0])))
    channels = tuple(extended if blob is found else blob for blob in index.channels)
    catalog = replace(index, channels=channels, bundles=(*index.bundles, bundle))
    validate_packages(catalog, {package})
    return catalog


def _check_new(bundle: BundleBlob, present: set[str]) -> None:
    if bundle.name in present:
        raise BundleExists(
            f"bundle {bundle.name} of package {bundle.package}: already exists in the catalog",
            hint="raise the version of the bundle, or choose an index without it",
        )
