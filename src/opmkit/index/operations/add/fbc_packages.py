"""The default channel of a package after an add, and the package blob of a new package."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.core.hints import Hint
from opmkit.index.errors import GraphError
from opmkit.index.fbc.blobs import Blobs, PackageBlob
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.graph import precedence
from opmkit.index.hint_terms import IndexSetting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.graph.version import Precedence
    from opmkit.index.operations.add.new_bundle import NewBundle

_FLOOR = precedence("0.0.0")


def default_channel(before: Blobs, after: Blobs, bundles: Sequence[NewBundle]) -> str:
    """Return the default channel of a package: the one named by its highest version, else the current one.

    As in an index database, only a bundle with at least the highest version so far changes it. A new package with a
    single channel needs no named default.

    Raises:
        GraphError: no default channel is named, or the package does not have it.
    """
    named = next((package.default_channel for package in before.packages), "")
    highest = max([_FLOOR, *(_precedence_or_lowest(bundle_version(bundle)) for bundle in before.bundles)])
    for bundle in bundles:
        version = _precedence_or_lowest(bundle.version)
        if version >= highest:
            highest, named = version, bundle.default_channel or named
    channels = sorted(channel.name for channel in after.channels)
    if named in channels:
        return named
    if not named and len(channels) == 1:
        return channels[0]
    reason = f"its bundles name {named}, which it does not have" if named else "its bundles name none"
    raise GraphError(
        f"package {bundles[0].package} has no default channel: {reason}; its channels are: {', '.join(channels)}",
        hint=Hint.any_of(
            Hint("pass one of them with {}", IndexSetting.DEFAULT_CHANNEL), "set one in the annotations of the bundle"
        ),
    )


def set_default_channel(package: Blobs, channel: str, bundles: Sequence[NewBundle]) -> Blobs:
    """Return the package with this default channel; a new one gets the icon and description of the bundle at its head.

    Of several heads the first among ``bundles`` counts.
    """
    if package.packages:
        if package.packages[0].default_channel == channel:
            return package
        return replace(package, packages=tuple(replace(blob, default_channel=channel) for blob in package.packages))
    heads = {head for blob in package.channels if blob.name == channel for head in channel_heads(blob.entries)}
    head = next((bundle for bundle in bundles if bundle.name in heads), bundles[-1])
    return replace(package, packages=(PackageBlob(head.package, channel, head.icon, head.description),))


def _precedence_or_lowest(version: str) -> Precedence:
    """Return the precedence of a version, the lowest for an invalid one, which other checks report."""
    try:
        return precedence(version)
    except GraphError:
        return precedence("")
