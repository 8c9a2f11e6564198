"""Update graphs as mermaid text (https://mermaid.js.org), line for line as the reference writes them.

Names come from others: characters that would end a label, or be read as markup or another statement, are escaped.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from opmkit.imagetools.escape import escape_controls
from opmkit.index.drawing.filter import GraphFilter
from opmkit.index.fbc import blobs as schemas
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.versions import MIN_VERSION_KEY, parse_range, version_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opmkit.bundle.versions import VersionKey
    from opmkit.index.fbc.blobs import Blobs, ChannelBlob, EntryBlob

_ALL = GraphFilter()
_CLASSES = (
    "  classDef deprecated fill:#E8960F",
    "  classDef skipped stroke:#FF0000,stroke-width:4px",
    "  classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px",
)
_DEAD_LINK = "stroke:#FF0000,stroke-width:3px,stroke-dasharray:5;"
_NO_IDENTIFIER = re.compile(r"[^\w.+~:@/-]")
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])")


@dataclass(frozen=True, slots=True)
class MermaidGraph:
    """The text, and what could not be drawn."""

    text: str
    warnings: tuple[str, ...] = ()


def render_mermaid(
    blobs: Blobs, selection: GraphFilter = _ALL, *, compat: Compat = Compat.NEWEST, v0_semantics: bool = False
) -> MermaidGraph:
    """Draw the channels of a catalog, whether or not they are valid.

    With ``v0_semantics`` bundles that are skipped, and updates that lead from or to them in vain, are marked.

    Raises:
        InvalidCatalog: a bundle has no version.
        CatalogError: there is nothing of the name of the selection's minimum.
    """
    keys = version_keys(blobs.bundles)
    channels = selection.channels(blobs.channels, keys)
    floor = keys[selection.minimum] if selection.minimum else MIN_VERSION_KEY
    older = compat is Compat.OPM_1_26
    writer = _Older(keys, floor) if older else _Newest(keys, blobs, v0_semantics)
    for package, members in groupby(channels, key=lambda channel: channel.package):
        writer.lines += [f"  %% package {_label(package)}", f"  subgraph {_label(package)}"]
        for channel in members:
            writer.channel(channel)
        writer.lines.append("  end")
        writer.end_package(package)
    lines = ["graph LR", *(() if older else _CLASSES), *writer.lines, *writer.styles()]
    return MermaidGraph("\n".join(lines) + "\n", tuple(writer.warnings))


@dataclass(slots=True)
class _Writer(ABC):
    """Writes one channel after the other."""

    keys: Mapping[str, VersionKey]
    lines: list[str] = field(default_factory=list, kw_only=True)
    warnings: list[str] = field(default_factory=list, kw_only=True)

    def channel(self, channel: ChannelBlob) -> None:
        """Write a channel."""
        prefix = _identifier(f"{channel.package}-{channel.name}")
        self.lines += [f"    %% channel {_label(channel.name)}", f"    subgraph {prefix}[{_label(channel.name)}]"]
        self.entries(channel, lambda name: f"{prefix}-{_identifier(name)}")
        self.lines.append("    end")

    @abstractmethod
    def entries(self, channel: ChannelBlob, identify: Callable[[str], str]) -> None:
        """Write the entries of a channel, and the edges to them."""

    @abstractmethod
    def end_package(self, package: str) -> None:
        """Write whatever a package needs behind its channels."""

    def styles(self) -> Iterator[str]:
        """The lines behind all packages."""
        return iter(())

    def in_range(self, channel: ChannelBlob, entry: EntryBlob) -> list[str]:
        """The names of the entries whose versions an entry's skip range has, in their order."""
        if not entry.skip_range:
            return []
        try:
            span = parse_range(entry.skip_range)
        except ValueError as error:
            where = f"channel {channel.name!r} of package {channel.package!r}"
            self.warnings.append(f"the skip range {entry.skip_range!r} of {entry.name!r}, {where}, is none: {error}")
            return []
        return [one.name for one in channel.entries if span.contains_key(self.keys.get(one.name, MIN_VERSION_KEY))]


def _edge(identify: Callable[[str], str], origin: str, label: str, target: str) -> str:
    start, end = (f"{identify(name)}[{_label(name)}]" for name in (origin, target))
    return f"      {start}-- {label} --> {end}"


@dataclass(slots=True)
class _Older(_Writer):
    """As v1.26.5 writes: entries in the order of the catalog, none below the floor."""

    floor: VersionKey

    def entries(self, channel: ChannelBlob, identify: Callable[[str], str]) -> None:
        for entry in channel.entries:
            if self.keys.get(entry.name, MIN_VERSION_KEY) < self.floor:
                continue
            self.lines.append(f"      {identify(entry.name)}[{_label(entry.name)}]")
            if entry.replaces:
                self.lines.append(_edge(identify, entry.replaces, "replace", entry.name))
            self.lines += [_edge(identify, name, "skip", entry.name) for name in entry.skips]
            label = _label(f"skipRange({entry.skip_range})")
            self.lines += [_edge(identify, name, label, entry.name) for name in self.in_range(channel, entry)]

    def end_package(self, package: str) -> None:
        """Write nothing: that release does not tell of deprecations."""


@dataclass(slots=True)
class _Newest(_Writer):
    """As v1.73 writes: entries by falling version, deprecations marked, and the semantics of OLM v0 on request."""

    blobs: Blobs
    v0_semantics: bool
    links: int = field(default=0, kw_only=True)
    dead_links: list[int] = field(default_factory=list, kw_only=True)
    classes: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list), kw_only=True)
    packages: list[str] = field(default_factory=list, kw_only=True)
    channels: list[str] = field(default_factory=list, kw_only=True)
    deprecated: frozenset[tuple[str, str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self.deprecated = frozenset(
            (blob.package, one.schema, one.name) for blob in self.blobs.deprecations for one in blob.entries
        )

    def entries(self, channel: ChannelBlob, identify: Callable[[str], str]) -> None:
        if (channel.package, schemas.CHANNEL, channel.name) in self.deprecated:
            self.channels.append(_identifier(f"{channel.package}-{channel.name}"))
        skipped: set[str] = set()
        for entry in sorted(channel.entries, key=lambda one: self.keys.get(one.name, MIN_VERSION_KEY), reverse=True):
            self.lines.append(f"      {identify(entry.name)}[{_label(entry.name)}]")
            self._classify(channel, entry, identify, skipped)
            for name in entry.skips:
                self._link(_edge(identify, name, "skip", entry.name), dead=name in skipped)
                if self.v0_semantics:
                    skipped.add(name)
            label = _label(f"skipRange({entry.skip_range})")
            for name in self.in_range(channel, entry):
                self._link(_edge(identify, name, label, entry.name), dead=entry.name in skipped)
            if entry.replaces:
                self._link(_edge(identify, entry.replaces, "replace", entry.name), dead=entry.name in skipped)

    def _classify(
        self, channel: ChannelBlob, entry: EntryBlob, identify: Callable[[str], str], skipped: set[str]
    ) -> None:
        deprecated = (channel.package, schemas.BUNDLE, entry.name) in self.deprecated
        if kind := "deprecated" * deprecated + "skipped" * (entry.name in skipped):
            self.classes[kind].append(identify(entry.name))

    def _link(self, line: str, *, dead: bool) -> None:
        self.lines.append(line)
        if dead:
            self.dead_links.append(self.links)
        self.links += 1

    def end_package(self, package: str) -> None:
        if any(one[:2] == (package, schemas.PACKAGE) for one in self.deprecated):
            self.packages.append(package)

    def styles(self) -> Iterator[str]:
        yield from (f"style {_identifier(package)} fill:#989695" for package in self.packages)
        yield from (f"style {channel} fill:#DCD0FF" for channel in self.channels)
        yield from (f"class {','.join(sorted(found))} {kind}" for kind, found in sorted(self.classes.items()))
        if self.dead_links:
            yield f"linkStyle {','.join(map(str, self.dead_links))} {_DEAD_LINK}"


def _identifier(text: str) -> str:
    """The text as part of an identifier."""
    return _NO_IDENTIFIER.sub(lambda match: f"_{ord(match.group()):x}_", text)


def _label(text: str) -> str:
    """The text as a quoted label, which is neither markup nor Markdown."""
    visible = escape_controls(text).replace("#", "#35;").replace('"', "#quot;").replace("`", "#96;")
    return f'"{_MARKUP.sub("#lt;", visible)}"'
