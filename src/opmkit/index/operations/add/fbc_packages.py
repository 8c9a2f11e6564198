"""What a package is after bundles were added to it: its default channel, and all of a new one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.imagetools.hints import Hint, Setting
from opmkit.index.errors import GraphError
from opmkit.index.fbc.blobs import Blobs, PackageBlob
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.graph import precedence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.graph.version import Precedence
    from opmkit.index.operations.values import Arrival

_FLOOR = precedence("0.0.0")


def default_channel(before: Blobs, after: Blobs, arrivals: Sequence[Arrival]) -> str:
    """The default channel: the one that is named by the highest version of all, else the one that it was.

    It moves as in an index database: with a bundle at least as high as those before it. A new package of one channel
    needs to name none.

    Raises:
        GraphError: none is named, or one that the package does not have.
    """
    named = next((one.default_channel for one in before.packages), "")
    highest = max([_FLOOR, *(_order(bundle_version(one)) for one in before.bundles)])
    for arrival in arrivals:
        if _order(arrival.version) >= highest:
            highest, named = _order(arrival.version), arrival.default_channel or named
    channels = sorted(channel.name for channel in after.channels)
    if named in channels:
        return named
    if not named and len(channels) == 1:
        return channels[0]
    wish = f"its bundles name {named}, which it does not have" if named else "its bundles name none"
    raise GraphError(
        f"package {arrivals[0].package} has no default channel: {wish}; its channels are: {', '.join(channels)}",
        hint=Hint.any_of(
            Hint("pass one of them with {}", Setting.DEFAULT_CHANNEL), "set one in the annotations of the bundle"
        ),
    )


def with_default_channel(parts: Blobs, channel: str, arrivals: Sequence[Arrival]) -> Blobs:
    """The package with this default channel; a new one has the icon and the description of the bundle at its head."""
    if parts.packages:
        if parts.packages[0].default_channel == channel:
            return parts
        return replace(parts, packages=tuple(replace(one, default_channel=channel) for one in parts.packages))
    heads = {head for one in parts.channels if one.name == channel for head in channel_heads(one.entries)}
    head = next((one for one in arrivals if one.name in heads), arrivals[-1])
    return replace(parts, packages=(PackageBlob(head.package, channel, head.icon, head.description),))


def _order(version: str) -> Precedence:
    """The order of a version; one that has none is told elsewhere, and moves nothing."""
    try:
        return precedence(version)
    except GraphError:
        return precedence("")
