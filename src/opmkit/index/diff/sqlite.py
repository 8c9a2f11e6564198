"""The state of an index database, to be compared."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from opmkit.index.diff.model import ChannelState, IndexState, PackageState
from opmkit.index.sqlite.rows import bundle_summaries, channel_edges, channel_summaries, skip_ranges

if TYPE_CHECKING:
    from opmkit.index.sqlite import IndexDatabase


def read_state(database: IndexDatabase) -> IndexState:
    """Read the state of a database, which need not be a valid catalog."""
    edges: defaultdict[tuple[str, str], defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for edge in channel_edges(database):
        edges[edge.package, edge.channel][edge.bundle] |= {edge.target} - {""}
    ranges = dict(skip_ranges(database))
    defaults: dict[str, str] = {}
    channels: defaultdict[str, dict[str, ChannelState]] = defaultdict(dict)
    for row in channel_summaries(database):
        defaults[row.package] = row.default_channel
        if row.channel:
            targets = edges[row.package, row.channel]
            channels[row.package][row.channel] = ChannelState(
                row.head,
                {name: tuple(sorted(names)) for name, names in sorted(targets.items())},
                {name: ranges[name] for name in targets if name in ranges},
            )
    packages = {name: PackageState(default, channels[name]) for name, default in defaults.items()}
    return IndexState(packages, {bundle.name: bundle for bundle in bundle_summaries(database)})
