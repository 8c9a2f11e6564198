"""Updates of installed bundles along a channel, as OLM follows them.

Subscriptions follow a channel: OLM updates an installed bundle to an entry that replaces it, that skips it, or whose
skip range contains its version, until it reaches the head of the channel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.versions import VersionRange

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from semver import Version


class ChannelUpdates(Struct, frozen=True):
    """The updates that the entries of a channel offer.

    Attributes:
        heads: The entries that no other entry replaces or skips; a valid channel has one.
        targets: For each entry the names that it replaces or skips.
        skip_ranges: The skip ranges of entries that have one.
    """

    heads: tuple[str, ...]
    targets: Mapping[str, Collection[str]]
    skip_ranges: Mapping[str, str] = {}

    def updatable(self, names: Iterable[str], versions: Mapping[str, Version]) -> set[str]:
        """Return the heads, and the entries and further names that OLM updates to a head.

        Args:
            names: Names that need not be in the channel, such as those of installed bundles.
            versions: Versions by name; skip ranges do not contain names without a version.
        """
        pending = list(self.heads)
        found = set(pending)
        ranges: set[str] = set()
        remaining = {*self.targets, *names} - found
        while pending:
            while pending:  # skip ranges are slow, and few bundles depend on them
                name = pending.pop()
                targets = {*self.targets.get(name, ())} - found
                found |= targets
                pending += targets
                ranges.add(self.skip_ranges.get(name, ""))
            remaining -= found
            pending += names_in_ranges(ranges, {name: versions[name] for name in remaining if name in versions})
            found.update(pending)
            ranges.clear()
        return found


def names_in_ranges(texts: Iterable[str], versions: Mapping[str, Version]) -> set[str]:
    """Return the names whose versions are in one of some skip ranges; invalid ranges contain none."""
    found: set[str] = set()
    for text in sorted(filter(None, texts)) if versions else ():
        try:
            accepted = VersionRange.parse(text)
        except ValueError:
            continue
        found |= {name for name, version in versions.items() if name not in found and version in accepted}
    return found


def moved_back(before: str, after: str, entries: Collection[str], versions: Mapping[str, Version]) -> bool:
    """Return whether the head of a channel became an older bundle, or one that was an entry below it.

    Args:
        before: The head before, one of the entries.
        after: The head after.
        entries: The names of the entries before.
        versions: Versions by name.
    """
    if before == after:
        return False
    old, new = versions.get(before), versions.get(after)
    return after in entries or (old is not None and new is not None and new < old)
