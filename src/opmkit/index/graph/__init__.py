"""Update graphs of packages, computed from values without a database or files."""

from opmkit.index.graph.checks import check_name_owners, claim_names, pruned_member_errors
from opmkit.index.graph.replaces import ChannelHeads, replaces_graph, select_heads, substituted_edges
from opmkit.index.graph.semver import semver_graph
from opmkit.index.graph.values import ChannelGraph, ChannelNode, Entry, Member, Node, PackageGraph, precedence

__all__ = [
    "ChannelGraph",
    "ChannelHeads",
    "ChannelNode",
    "Entry",
    "Member",
    "Node",
    "PackageGraph",
    "check_name_owners",
    "claim_names",
    "precedence",
    "pruned_member_errors",
    "replaces_graph",
    "select_heads",
    "semver_graph",
    "substituted_edges",
]
