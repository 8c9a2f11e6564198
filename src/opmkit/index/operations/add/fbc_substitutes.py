"""Edges of bundles with ``olm.substitutesFor``, and of those that they substitute, as in an index database."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from opmkit.bundle.kinds import CSV_KIND
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import member
from opmkit.index.fbc.blobs import CSV_METADATA, Blobs
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.csv_metadata import bundle_objects
from opmkit.index.graph import Node, precedence, substituted_edges
from opmkit.index.operations.add.fbc_entries import ChannelEdit, known_entries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob, EntryBlob
    from opmkit.index.operations.add.fbc_checks import NewBundle

ANNOTATION = "olm.substitutesFor"


@dataclass(frozen=True, slots=True)
class Substitution:
    """A bundle to add, and the substitutions of its package.

    ``nodes`` are the other bundles of the package with their edges in some channel. The annotations in their objects or
    CSV metadata name the bundles that they substitute.
    """

    bundle: NewBundle
    nodes: Mapping[str, Node]

    @classmethod
    def resolve(cls, package: Blobs, bundle: NewBundle) -> Substitution:
        """Find the substitutions of a package; raise GraphError for invalid versions."""
        versions = {blob.name: bundle_version(blob) for blob in package.bundles}
        others = (blob for blob in package.bundles if blob.name != bundle.name)
        links = _chains({blob.name: base for blob in others if (base := _substitutes_for(blob))}, versions)
        nodes = (
            Node(name, versions.get(name, ""), entry.replaces, entry.skips, links.get(name, ""))
            for name, entry in known_entries(package).items()
        )
        return cls(bundle, {node.name: node for node in nodes if node.name != bundle.name})

    def edit_channel(self, channel: ChannelBlob) -> ChannelEdit:
        """Return the channel with the edges after the add.

        Raises:
            GraphError: See :func:`opmkit.index.graph.substituted_edges`.
        """
        entries_by_name = {entry.name: entry for entry in channel.entries}
        present = {
            name: replace(node, replaces=entry.replaces, skips=entry.skips)
            if (entry := entries_by_name.get(name))
            else node
            for name, node in self.nodes.items()
        }
        new = self.bundle
        node = Node(new.name, new.version, new.replaces, new.skips, new.substitutes_for)
        changed = substituted_edges(present, [node])
        entries = tuple(_with_edges(entry, changed) for entry in channel.entries)
        others = changed.keys() & entries_by_name.keys() - {new.name}
        required = any(new.name in changed[name].targets for name in others)
        if entries != channel.entries:
            channel = replace(channel, entries=entries)
        return ChannelEdit(channel, _with_edges(new.entry, changed), required)


def _with_edges(entry: EntryBlob, changed: Mapping[str, Node]) -> EntryBlob:
    node = changed.get(entry.name)
    return replace(entry, replaces=node.replaces, skips=node.skips) if node else entry


def _chains(annotated: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, str]:
    """Map each annotated bundle to the one that it substitutes, when all substitutes of a bundle form a chain.

    A chain is in ascending order of version.
    """
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
    """Return the name of the bundle that one substitutes, or "" if there is none or if the catalog has no CSV data."""
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
