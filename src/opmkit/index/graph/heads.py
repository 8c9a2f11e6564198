"""Selection of the head of each channel and of the default channel of a package."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import GraphError
from opmkit.index.graph.values import precedence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.index.graph.values import Member

_FLOOR = precedence("0.0.0")


@dataclass(frozen=True, slots=True)
class ChannelHeads:
    """The name of the default channel, and the head of each channel by name."""

    default_channel: str
    by_channel: Mapping[str, str]


def select_heads(package: str, members: Sequence[Member]) -> ChannelHeads:
    """Select the bundle with the highest version of each channel, and the default channel.

    ``members`` are the bundles of the index, then the added ones: only a bundle whose version is at least as high as
    those before it changes the default channel. An added bundle that is already skipped in the index is in both.

    Raises:
        GraphError: A version is invalid, two bundles have the highest version, or there is no default channel.
    """
    by_channel: defaultdict[str, list[Member]] = defaultdict(list)
    for member in members:
        _check_version(package, member)
        for channel in dict.fromkeys(member.channels):
            by_channel[channel].append(member)
    _check_single_highest(f"package {package}", [m for m in members if precedence(m.version) >= _FLOOR])
    for channel, candidates in sorted(by_channel.items()):
        _check_single_highest(f"channel {channel} of package {package}", candidates)
    heads = {channel: _highest(candidates).name for channel, candidates in sorted(by_channel.items())}
    return ChannelHeads(_default_channel(package, members, heads), heads)


def _default_channel(package: str, members: Iterable[Member], heads: Mapping[str, str]) -> str:
    named, highest = "", _FLOOR
    for member in members:
        version = precedence(member.version)
        if version >= highest:
            highest, named = version, member.default_channel or named
    if named in heads:
        return named
    if not named and len(heads) == 1:
        return next(iter(heads))
    channels = ", ".join(f"{channel} (head {head})" for channel, head in heads.items()) or "none"
    reason = f"the bundles name {named}, which no bundle is in" if named else "no bundle names one"
    raise GraphError(
        f"package {package} has no default channel: {reason}; its channels are: {channels}",
        hint="set one of the package's channels as the default channel in the annotations of its highest version"
        if heads
        else "set at least one channel in the annotations of the bundle",
    )


def _check_version(package: str, member: Member) -> None:
    try:
        precedence(member.version)
    except GraphError as error:
        raise GraphError(f"bundle {member.name} of package {package}: {error.message}", hint=error.hint) from error


def _highest(members: Sequence[Member]) -> Member:
    return max(members, key=lambda member: precedence(member.version))


def _check_single_highest(subject: str, members: Sequence[Member]) -> None:
    if not members:
        return
    top = precedence(_highest(members).version)
    highest = [member for member in members if precedence(member.version) == top]
    if len(highest) > 1:
        names = sorted({member.name for member in highest})
        raise GraphError(
            f"{subject} has more than one bundle with its highest version {highest[0].version!r}: "
            f"{' and '.join(names)}",
            hint="give the new bundle a higher version, or build metadata such as 1.2.3+1"
            if len(names) > 1
            else "give the new bundle another name: the index already skips this one",
        )
