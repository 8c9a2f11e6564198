"""Update graphs as pure functions over values: no database, no files."""

from opmkit.index.graph.checks import check_foreign_names, claimed_names, pruned_members
from opmkit.index.graph.heads import Heads, choose_heads
from opmkit.index.graph.replaces import replaces_graph
from opmkit.index.graph.semver import semver_graph
from opmkit.index.graph.substitutes import substituted_edges
from opmkit.index.graph.values import ChannelGraph, Entry, Member, Node, PackageGraph, Placed
from opmkit.index.graph.version import precedence

__all__ = [
    "ChannelGraph",
    "Entry",
    "Heads",
    "Member",
    "Node",
    "PackageGraph",
    "Placed",
    "check_foreign_names",
    "choose_heads",
    "claimed_names",
    "precedence",
    "pruned_members",
    "replaces_graph",
    "semver_graph",
    "substituted_edges",
]
