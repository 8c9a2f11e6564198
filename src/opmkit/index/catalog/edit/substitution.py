"""Bundles that substitute others in the channels of a package, as they do in an index database."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.bundle.errors import InvalidDocument
from opmkit.bundle.fields import member
from opmkit.bundle.serviceversion import KIND
from opmkit.index.catalog.blobs import CSV_METADATA, Blobs
from opmkit.index.catalog.bundlecheck import stated_version
from opmkit.index.catalog.levels import objects_of
from opmkit.index.graph import Node, precedence, substituted_edges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.jsonvalue import JsonValue
    from opmkit.index.catalog.blobs import BundleBlob, ChannelBlob, EntryBlob
    from opmkit.index.catalog.edit.values import Arrival

ANNOTATION = "olm.substitutesFor"


def with_substitute(parts: Blobs, arrival: Arrival) -> Blobs:
    """The package, which has the bundle, with the edges that follow from what substitutes what.

    The bundle enters channels where another that was updated to what it substitutes is updated to it now. What bundles
    of the catalog substitute is told by their annotations, in their objects or their metadata.

    Raises:
        GraphError: see :func:`opmkit.index.graph.substituted_edges`.
    """
    versions = {bundle.name: stated_version(bundle)[0] for bundle in parts.bundles}
    annotated = {one.name: _substitutes_for(one) for one in parts.bundles if one.name != arrival.name}
    links = _chains({name: base for name, base in annotated.items() if base}, versions)
    channels = (_substituted(channel, arrival, versions, links) for channel in parts.channels)
    return replace(parts, channels=tuple(channels))


def _substituted(
    channel: ChannelBlob, arrival: Arrival, versions: Mapping[str, str], links: Mapping[str, str]
) -> ChannelBlob:
    nodes = (
        Node(entry.name, versions.get(entry.name, ""), entry.replaces, entry.skips, links.get(entry.name, ""))
        for entry in channel.entries
    )
    present = {node.name: node for node in nodes if node.name != arrival.name}
    new = Node(arrival.name, arrival.version, arrival.replaces, arrival.skips, arrival.substitutes_for)
    changed = substituted_edges(present, [new])
    there = {entry.name for entry in channel.entries}
    entries = list(channel.entries)
    if arrival.name not in there and any(arrival.name in node.targets for node in changed.values()):
        entries.append(arrival.entry)
    result = tuple(_with_edges(entry, changed) for entry in entries)
    return channel if result == channel.entries else replace(channel, entries=result)


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
    for value in bundle.values(CSV_METADATA):
        return _annotation(value)
    with contextlib.suppress(InvalidDocument):
        for value in objects_of(bundle):
            if isinstance(value, dict) and value.get("kind") == KIND:
                return _annotation(member(value, "metadata"))
    return ""


def _annotation(metadata: JsonValue) -> str:
    annotations = member(metadata, "annotations") if isinstance(metadata, dict) else None
    text = annotations.get(ANNOTATION) if isinstance(annotations, dict) else None
    return text if isinstance(text, str) else ""
