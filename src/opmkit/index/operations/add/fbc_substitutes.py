"""Bundles that substitute others in the channels of a package, as they do in an index database."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from opmkit.bundle.cluster_service_version import CSV_KIND
from opmkit.bundle.errors import InvalidDocument
from opmkit.bundle.fields import member
from opmkit.index.fbc.blobs import CSV_METADATA, Blobs
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.migrate import bundle_objects
from opmkit.index.graph import Node, precedence, substituted_edges
from opmkit.index.operations.add.fbc_replaces import Change, known_entries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.json_value import JsonValue
    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob, EntryBlob
    from opmkit.index.operations.values import Arrival

ANNOTATION = "olm.substitutesFor"


@dataclass(frozen=True, slots=True)
class Substitution:
    """What follows for the channels of a package from a bundle that is added, as it substitutes others or they it.

    ``nodes`` are the bundles of the package with edges that some channel has of them. What bundles of the catalog
    substitute is told by their annotations, in their objects or their metadata.
    """

    arrival: Arrival
    nodes: Mapping[str, Node]

    @classmethod
    def of(cls, parts: Blobs, arrival: Arrival) -> Substitution:
        """What follows in a package; raises GraphError for versions that can't be ordered."""
        versions = {bundle.name: bundle_version(bundle) for bundle in parts.bundles}
        others = (one for one in parts.bundles if one.name != arrival.name)
        links = _chains({one.name: base for one in others if (base := _substitutes_for(one))}, versions)
        nodes = (
            Node(name, versions.get(name, ""), entry.replaces, entry.skips, links.get(name, ""))
            for name, entry in known_entries(parts).items()
        )
        return cls(arrival, {node.name: node for node in nodes if node.name != arrival.name})

    def change(self, channel: ChannelBlob) -> Change:
        """What follows for a channel.

        Raises:
            GraphError: see :func:`opmkit.index.graph.substituted_edges`.
        """
        own = {entry.name: entry for entry in channel.entries}
        present = {
            name: replace(node, replaces=own[name].replaces, skips=own[name].skips) if name in own else node
            for name, node in self.nodes.items()
        }
        new = self.arrival
        node = Node(new.name, new.version, new.replaces, new.skips, new.substitutes_for)
        changed = substituted_edges(present, [node])
        entries = tuple(_with_edges(entry, changed) for entry in channel.entries)
        others = changed.keys() & {entry.name for entry in channel.entries} - {new.name}
        needed = any(new.name in changed[name].targets for name in others)
        if entries != channel.entries:
            channel = replace(channel, entries=entries)
        return Change(channel, _with_edges(new.entry, changed), needed)


def _with_edges(entry: EntryBlob, changed: Mapping[str, Node]) -> EntryBlob:
    node = changed.get(entry.name)
    return replace(entry, replaces=node.replaces, skips=node.skips) if node else entry


def _chains(annotated: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, str]:
    """What each bundle substitutes once all that substitute one, or each other, are in a chain by their versions."""
    links: dict[str, str] = {}
    below: dict[str, str] = {}
    for name in sorted(annotated, key=lambda name: precedence(versions[name])):
        base, seen = annotated[name], {name}
        while base in annotated and base not in seen:
            seen.add(base)
            base = annotated[base]
        links[name] = below.get(base, base)
        below[base] = name
    return links


def _substitutes_for(bundle: BundleBlob) -> str:
    """The name of the bundle that one substitutes, "" for none, or where the catalog does not tell."""
    for value in bundle.property_values(CSV_METADATA):
        return _annotation(value)
    with contextlib.suppress(InvalidDocument):
        for value in bundle_objects(bundle):
            if isinstance(value, dict) and value.get("kind") == CSV_KIND:
                return _annotation(member(value, "metadata"))
    return ""


def _annotation(metadata: JsonValue) -> str:
    annotations = member(metadata, "annotations") if isinstance(metadata, dict) else None
    text = annotations.get(ANNOTATION) if isinstance(annotations, dict) else None
    return text if isinstance(text, str) else ""
