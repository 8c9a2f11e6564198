"""Groups of update paths with the same problem: what people read about a catalog with thousands of paths."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from opmkit.index.fbc.check.graph import natural_key
from opmkit.index.plan.ending import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit.bundle.validation.compat import OlmVersion
    from opmkit.index.plan.paths import UpdatePath


class PathGroup(Struct, frozen=True):
    """Update paths of a package that end for the same reason.

    Attributes:
        package: Name of the package.
        channels: Names of the channels, in the order of the paths.
        outcome: Where the paths end.
        reason: Why they end there.
        remedy: What to change, or "" if that is not known.
        olm: The OLM that follows the paths.
        installed: Names of the installed versions, from the lowest to the highest, once each.
    """

    package: str
    channels: tuple[str, ...]
    outcome: Outcome
    reason: str
    remedy: str
    olm: OlmVersion
    installed: tuple[str, ...]

    @property
    def where(self) -> str:
        """The package, with the channel if there is one only."""
        return f"{self.package}/{self.channels[0]}" if len(self.channels) == 1 else self.package

    @property
    def versions(self) -> str:
        """The installed versions in a few words."""
        if len(self.installed) == 1:
            return self.installed[0]
        return f"{len(self.installed)} versions ({self.installed[0]} to {self.installed[-1]})"

    @property
    def result(self) -> str:
        """The outcome with its reason, and what to change."""
        return "; ".join(filter(None, (f"{self.outcome.value}: {self.reason}", self.remedy)))

    def __str__(self) -> str:
        """Return the group in one line."""
        return f"{self.where}: {self.versions} {self.result}"


def group_problems(paths: Iterable[UpdatePath]) -> tuple[PathGroup, ...]:
    """Return the groups of the paths that do not reach the head of their channel, in the order of the paths.

    Versions that only differ in the name that the reason has are one group. Paths that end before a refused update are
    left out: the refused updates say more.
    """
    same: defaultdict[_Key, list[UpdatePath]] = defaultdict(list)
    for path in paths:
        if path.reason and path.outcome is not Outcome.REFUSED:
            same[_Key(path.package, path.olm, path.outcome, path.reason, path.remedy)].append(path)
    similar: defaultdict[_Key, list[_Key]] = defaultdict(list)
    for key, members in same.items():
        unmoved = all(path.final == path.installed for path in members)
        similar[key.without(members[0].final) if unmoved else key].append(key)
    return tuple(
        _group(general if len(keys) > 1 else keys[0], [path for key in keys for path in same[key]])
        for general, keys in similar.items()
    )


class _Key(NamedTuple):
    """What the paths of a group have in common."""

    package: str
    olm: OlmVersion
    outcome: Outcome
    reason: str
    remedy: str

    def without(self, name: str) -> _Key:
        """Return the key with a pronoun instead of the name of a bundle."""
        bundle = re.compile(rf"(?<![^\s(]){re.escape(name)}(?=[\s,;)]|$)")
        reason = re.sub(rf"^{re.escape(name)} is ", "they are ", self.reason)
        return self._replace(reason=bundle.sub("them", reason), remedy=bundle.sub("them", self.remedy))


def _group(key: _Key, members: Sequence[UpdatePath]) -> PathGroup:
    return PathGroup(
        key.package,
        tuple(dict.fromkeys(path.followed for path in members)),
        key.outcome,
        key.reason,
        key.remedy,
        key.olm,
        tuple(sorted({path.installed for path in members}, key=natural_key)),
    )
