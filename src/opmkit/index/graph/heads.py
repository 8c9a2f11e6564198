"""Which bundle heads each channel of a package, and which channel is its default (index semantics, section 3)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import GraphError
from opmkit.index.graph.version import precedence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.index.graph.values import Member

_FLOOR = precedence("0.0.0")


@dataclass(frozen=True, slots=True)
class Heads:
    """The outline of a package: the head of each channel by name, and the name of the default channel."""

    default_channel: str
    by_channel: Mapping[str, str]


def choose_heads(package: str, members: Sequence[Member]) -> Heads:
    """Pick the bundle with the highest version of each channel, and the default channel.

    ``members`` are the bundles that the package has, then those that are added: the default channel can only move with
    a version at least as high as those before it. A bundle that is added though the index has an entry for its name
    (a skipped one) stands in both.

    Raises:
        GraphError: a version that can't be ordered, two bundles of the highest version, or no default channel.
    """
    by_channel: defaultdict[str, list[Member]] = defaultdict(list)
    for member in members:
        _check_version(package, member)
        for channel in dict.fromkeys(member.channels):
            by_channel[channel].append(member)
    _check_uncontested(f"package {package}", [m for m in members if precedence(m.version) >= _FLOOR])
    for channel, candidates in sorted(by_channel.items()):
        _check_uncontested(f"channel {channel} of package {package}", candidates)
    heads = {channel: _highest(candidates).name for channel, candidates in sorted(by_channel.items())}
    return Heads(_default_channel(package, members, heads), heads)


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
    listed = ", ".join(f"{channel} (head {head})" for channel, head in heads.items()) or "none"
    wish = f"the bundles name {named}, which no bundle is in" if named else "no bundle names one"
    raise GraphError(
        f"package {package} has no default channel: {wish}; its channels are: {listed}",
        advice="Name one of the package's channels as the default channel in the annotations of its highest version."
        if heads
        else "Name at least one channel in the annotations of the bundle.",
    )


def _check_version(package: str, member: Member) -> None:
    try:
        precedence(member.version)
    except GraphError as error:
        raise GraphError(f"bundle {member.name} of package {package}: {error.message}", advice=error.advice) from error


def _highest(members: Sequence[Member]) -> Member:
    return max(members, key=lambda member: precedence(member.version))


def _check_uncontested(where: str, members: Sequence[Member]) -> None:
    if not members:
        return
    top = precedence(_highest(members).version)
    contenders = [member for member in members if precedence(member.version) == top]
    if len(contenders) > 1:
        names = " and ".join(sorted({member.name for member in contenders}))
        raise GraphError(
            f"{where} has more than one bundle with its highest version {contenders[0].version!r}: {names}",
            advice="Only one bundle can be the head: give the new bundle a higher version, or build metadata "
            "(1.2.3+1) that tells it apart."
            if len({member.name for member in contenders}) > 1
            else "The index already skips this name; a bundle can't be added above the one that skips it.",
        )
