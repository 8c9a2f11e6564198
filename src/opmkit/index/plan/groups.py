"""Groups of update paths with the same problem: what people read about a catalog with thousands of paths."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.index.fbc.check.graph import natural_key
from opmkit.index.plan.ending import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

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

    Paths that end before a refused update are left out: the refused updates say more.
    """
    groups: defaultdict[tuple[str, OlmVersion, Outcome, str, str], list[UpdatePath]] = defaultdict(list)
    for path in paths:
        if path.reason and path.outcome is not Outcome.REFUSED:
            groups[path.package, path.olm, path.outcome, path.reason, path.remedy].append(path)
    return tuple(
        PathGroup(
            package,
            tuple(dict.fromkeys(path.followed for path in members)),
            outcome,
            reason,
            remedy,
            olm,
            tuple(sorted({path.installed for path in members}, key=natural_key)),
        )
        for (package, olm, outcome, reason, remedy), members in groups.items()
    )
