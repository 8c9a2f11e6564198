"""Update graphs as mermaid text (https://mermaid.js.org), line for line as Go opm writes them.

Names may be malicious: characters that would end a label, or be read as markup or another statement, are escaped.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.core.escape import escape_controls
from opmkit.index.fbc import blobs as schemas
from opmkit.index.fbc.blobs import Blobs
from opmkit.index.fbc.compat import CatalogCompat, ReleaseChange
from opmkit.index.fbc.model import MIN_VERSION_KEY, parse_range, version_keys
from opmkit.index.pictures.view import GraphFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opmkit.bundle.versions import VersionKey
    from opmkit.index.fbc.blobs import ChannelBlob, EntryBlob

_NO_FILTER = GraphFilter()
_DEPRECATED_CLASS = "  classDef deprecated fill:#E8960F"
_CLASSES = (
    _DEPRECATED_CLASS,
    "  classDef skipped stroke:#FF0000,stroke-width:4px",
    "  classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px",
)
_UNUSED_EDGE_STYLE = "stroke:#FF0000,stroke-width:3px,stroke-dasharray:5;"
_NOT_IDENTIFIER = re.compile(r"[^\w.+~:@/-]|:(?=:)")
"""GitHub Actions runs commands such as ``::error::`` at the start of a line, after any spaces."""
_ENTITIES = str.maketrans(
    {"#": "#35;", '"': "#quot;", "`": "#96;", "%": "#37;", "{": "#123;", "}": "#125;"}  # %%{init: ...}%% is a directive
)
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])")


class MermaidGraph(Struct, frozen=True):
    """The text of a graph, and warnings about parts that are not drawn."""

    text: str
    warnings: tuple[str, ...] = ()


def render_mermaid(
    blobs: Blobs,
    graph_filter: GraphFilter = _NO_FILTER,
    *,
    compat: CatalogCompat = CatalogCompat.NEWEST,
    v0_semantics: bool = False,
) -> MermaidGraph:
    """Return the graph of the channels of a catalog, which may be invalid.

    Args:
        blobs: The catalog.
        graph_filter: Selects the parts to draw.
        compat: The release of Go opm to match.
        v0_semantics: Whether to mark skipped bundles and edges that OLM v0 never uses because of them.

    Raises:
        InvalidCatalog: A bundle has no valid version.
        CatalogError: The minimum of the filter is not in the catalog.
    """
    keys = version_keys(blobs.bundles)
    channels = graph_filter.apply(blobs.channels, keys)
    floor = keys[graph_filter.minimum] if graph_filter.minimum else MIN_VERSION_KEY
    writer: _Writer
    if compat.has(ReleaseChange.V0_SEMANTICS):
        writer = _NewestWriter(keys, _Deprecations.from_blobs(blobs), v0_semantics)
    else:
        shown = blobs if compat.has(ReleaseChange.COLORED_DEPRECATIONS) else Blobs()
        writer = _Opm126Writer(keys, _Deprecations.from_blobs(shown), floor)
    for package, members in groupby(channels, key=lambda channel: channel.package):
        writer.lines += [f"  %% package {_label(package)}", f"  subgraph {_label(package)}"]
        for channel in members:
            writer.write_channel(channel)
        writer.lines.append("  end")
        writer.end_package(package)
    lines = ["graph LR", *_class_definitions(compat), *writer.lines, *writer.styles()]
    return MermaidGraph("\n".join(lines) + "\n", tuple(writer.warnings))


def _class_definitions(compat: CatalogCompat) -> tuple[str, ...]:
    if compat.has(ReleaseChange.V0_SEMANTICS):
        return _CLASSES
    return (_DEPRECATED_CLASS,) if compat.has(ReleaseChange.COLORED_DEPRECATIONS) else ()


class _Deprecations(Struct):
    """The deprecated packages, channels and bundles of a catalog, and the styles of those that are drawn."""

    names: frozenset[tuple[str, str, str]]
    packages: list[str] = []
    channels: list[str] = []

    @classmethod
    def from_blobs(cls, blobs: Blobs) -> _Deprecations:
        return cls(
            frozenset((blob.package, entry.schema, entry.name) for blob in blobs.deprecations for entry in blob.entries)
        )

    def has_bundle(self, package: str, name: str) -> bool:
        return (package, schemas.BUNDLE, name) in self.names

    def add_channel(self, channel: ChannelBlob) -> None:
        if (channel.package, schemas.CHANNEL, channel.name) in self.names:
            self.channels.append(_identifier(f"{channel.package}-{channel.name}"))

    def add_package(self, package: str) -> None:
        if any((owner, schema) == (package, schemas.PACKAGE) for owner, schema, _ in self.names):
            self.packages.append(package)

    def styles(self) -> Iterator[str]:
        yield from (f"style {_identifier(package)} fill:#989695" for package in self.packages)
        yield from (f"style {channel} fill:#DCD0FF" for channel in self.channels)


@dataclass(slots=True)
class _Writer(ABC):
    """A writer of channels that collects lines and warnings."""

    keys: Mapping[str, VersionKey]
    deprecated: _Deprecations
    lines: list[str] = field(default_factory=list, kw_only=True)
    warnings: list[str] = field(default_factory=list, kw_only=True)

    def write_channel(self, channel: ChannelBlob) -> None:
        prefix = _identifier(f"{channel.package}-{channel.name}")
        self.lines += [f"    %% channel {_label(channel.name)}", f"    subgraph {prefix}[{_label(channel.name)}]"]
        self.deprecated.add_channel(channel)
        self.write_entries(channel, lambda name: f"{prefix}-{_identifier(name)}")
        self.lines.append("    end")

    @abstractmethod
    def write_entries(self, channel: ChannelBlob, identify: Callable[[str], str]) -> None:
        """Write the entries of a channel and their edges; ``identify`` returns the identifier of a bundle."""

    def end_package(self, package: str) -> None:
        """Finish a package after its channels."""
        self.deprecated.add_package(package)

    def styles(self) -> Iterator[str]:
        """Yield the lines after all packages."""
        return self.deprecated.styles()

    def entries_in_range(self, channel: ChannelBlob, entry: EntryBlob) -> list[str]:
        """Return the names of the entries in the skip range of an entry."""
        if not entry.skip_range:
            return []
        try:
            skip_range = parse_range(entry.skip_range)
        except ValueError as error:
            subject = f'package "{channel.package}", channel "{channel.name}", bundle "{entry.name}"'
            self.warnings.append(f'{subject}: invalid skipRange "{entry.skip_range}": {error}')
            return []
        return [
            other.name
            for other in channel.entries
            if skip_range.contains_key(self.keys.get(other.name, MIN_VERSION_KEY))
        ]


def _edge(identify: Callable[[str], str], origin: str, label: str, target: str) -> str:
    start, end = (f"{identify(name)}[{_label(name)}]" for name in (origin, target))
    return f"      {start}-- {label} --> {end}"


@dataclass(slots=True)
class _Opm126Writer(_Writer):
    """The format before v1.57: entries in the order of the catalog, without those below the floor."""

    floor: VersionKey

    def write_entries(self, channel: ChannelBlob, identify: Callable[[str], str]) -> None:
        for entry in channel.entries:
            if self.keys.get(entry.name, MIN_VERSION_KEY) < self.floor:
                continue
            is_deprecated = self.deprecated.has_bundle(channel.package, entry.name)
            self.lines.append(f"      {identify(entry.name)}[{_label(entry.name)}]" + ":::deprecated" * is_deprecated)
            if entry.replaces:
                self.lines.append(_edge(identify, entry.replaces, "replace", entry.name))
            self.lines += [_edge(identify, name, "skip", entry.name) for name in entry.skips]
            label = _label(f"skipRange({entry.skip_range})")
            names = self.entries_in_range(channel, entry)
            self.lines += [_edge(identify, name, label, entry.name) for name in names]


@dataclass(slots=True)
class _NewestWriter(_Writer):
    """The format of v1.73: entries by descending version, deprecations, and optionally the semantics of OLM v0."""

    v0_semantics: bool
    edge_count: int = field(default=0, kw_only=True)
    unused_edges: list[int] = field(default_factory=list, kw_only=True)
    classes: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list), kw_only=True)

    def write_entries(self, channel: ChannelBlob, identify: Callable[[str], str]) -> None:
        skipped: set[str] = set()
        entries = sorted(channel.entries, key=lambda entry: self.keys.get(entry.name, MIN_VERSION_KEY), reverse=True)
        for entry in entries:
            self.lines.append(f"      {identify(entry.name)}[{_label(entry.name)}]")
            self._classify(channel, entry, identify, skipped)
            for name in entry.skips:
                self._write_edge(_edge(identify, name, "skip", entry.name), unused=name in skipped)
                if self.v0_semantics:
                    skipped.add(name)
            label = _label(f"skipRange({entry.skip_range})")
            for name in self.entries_in_range(channel, entry):
                self._write_edge(_edge(identify, name, label, entry.name), unused=entry.name in skipped)
            if entry.replaces:
                edge = _edge(identify, entry.replaces, "replace", entry.name)
                self._write_edge(edge, unused=entry.name in skipped)

    def _classify(
        self, channel: ChannelBlob, entry: EntryBlob, identify: Callable[[str], str], skipped: set[str]
    ) -> None:
        is_deprecated = self.deprecated.has_bundle(channel.package, entry.name)
        if class_name := "deprecated" * is_deprecated + "skipped" * (entry.name in skipped):
            self.classes[class_name].append(identify(entry.name))

    def _write_edge(self, line: str, *, unused: bool) -> None:
        self.lines.append(line)
        if unused:
            self.unused_edges.append(self.edge_count)
        self.edge_count += 1

    def styles(self) -> Iterator[str]:
        yield from self.deprecated.styles()
        yield from (f"class {','.join(sorted(nodes))} {name}" for name, nodes in sorted(self.classes.items()))
        if self.unused_edges:
            yield f"linkStyle {','.join(map(str, self.unused_edges))} {_UNUSED_EDGE_STYLE}"


def _identifier(text: str) -> str:
    """Encode text as part of an identifier."""
    return _NOT_IDENTIFIER.sub(lambda match: f"_{ord(match.group()):x}_", text)


def _label(text: str) -> str:
    """Encode text as a quoted label without markup, Markdown and directives."""
    return f'"{_MARKUP.sub("#lt;", escape_controls(text).translate(_ENTITIES))}"'
