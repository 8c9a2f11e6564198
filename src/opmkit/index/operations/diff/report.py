"""A difference between two states of an index, as text for a terminal and as Markdown for a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.imagetools.escape import escape_controls
from opmkit.index.operations.diff.model import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.operations.diff.model import BundleChange, ChannelChange, IndexDiff, PackageChange

_SIGNS = {Kind.ADDED: "+", Kind.REMOVED: "-", Kind.CHANGED: "~"}
_TO_DO = {Kind.ADDED: "to add", Kind.REMOVED: "to remove", Kind.CHANGED: "changed"}
NO_CHANGE = "no difference"


def diff_as_text(diff: IndexDiff) -> str:
    """Lines with a sign for what came (+), went (-) or changed (~), indented below their packages."""
    lines = [line for package in diff.packages for line in _package_lines(package)]
    lines += [f"{_bundle_text(bundle)} (in no channel)" for bundle in diff.stranded]
    return "\n".join(map(escape_controls, lines)) or NO_CHANGE


def diff_totals(diff: IndexDiff) -> str:
    """Return how many packages, channels, bundles and deprecations differ, such as ``3 bundles to add``."""
    nodes = {
        "package": [package.kind for package in diff.packages],
        "channel": [channel.kind for package in diff.packages for channel in package.channels],
        "bundle": [
            bundle.kind for changes in (*(p.bundles for p in diff.packages), diff.stranded) for bundle in changes
        ],
        "deprecation": [deprecation.kind for package in diff.packages for deprecation in package.deprecations],
    }
    counts = [(noun, kind, kinds.count(kind)) for noun, kinds in nodes.items() for kind in Kind]
    parts = [f"{count} {noun}{'s' * (count != 1)} {_TO_DO[kind]}" for noun, kind, count in counts if count]
    return ", ".join(parts) or NO_CHANGE


def _package_lines(package: PackageChange) -> Iterator[str]:
    yield f"{_SIGNS[package.kind]} package {package.name}"
    if package.default_before != package.default_after:
        yield f"    default channel: {_arrow(package.default_before, package.default_after)}"
    for channel in package.channels:
        yield f"  {_SIGNS[channel.kind]} channel {channel.name}{_details(channel)}"
    for bundle in package.bundles:
        yield f"  {_bundle_text(bundle)}"
    for deprecation in package.deprecations:
        yield f"  {_SIGNS[deprecation.kind]} deprecation of {deprecation.subject}: {deprecation.message}"
    if package.others and package.kind is Kind.CHANGED:
        yield f"  ~ {', '.join(package.others)}"


def _details(channel: ChannelChange) -> str:
    parts = [f"head {_arrow(channel.head_before, channel.head_after)}"] * (channel.head_before != channel.head_after)
    told = (("in", channel.bundles_in), ("out", channel.bundles_out), ("other edges", channel.edges_changed))
    parts += [f"{label}: {', '.join(names)}" for label, names in told if names]
    return f": {'; '.join(parts)}" if parts else ""


def _bundle_text(bundle: BundleChange) -> str:
    more = " ".join(part for part in (bundle.version, bundle.image, "deprecated" * bundle.deprecated) if part)
    return f"{_SIGNS[bundle.kind]} bundle {bundle.name} {more}".rstrip()


def _arrow(before: str, after: str) -> str:
    return " -> ".join(name for name in (before or "none", after or "none"))


def diff_as_markdown(diff: IndexDiff) -> str:
    """Headings and tables for a pull request; names are set as code, so that nothing in them is markup."""
    if not diff:
        return f"{NO_CHANGE.capitalize()}."
    blocks = [block for package in diff.packages for block in _package_blocks(package)]
    if diff.stranded:
        blocks += ["### Bundles in no channel", _bundle_table(diff.stranded)]
    return "\n\n".join(blocks)


def _package_blocks(package: PackageChange) -> Iterator[str]:
    yield f"### Package {_code(package.name)} {package.kind}"
    if package.default_before != package.default_after:
        yield f"Default channel: {_code(package.default_before)} → {_code(package.default_after)}"
    if package.channels:
        header = "| Channel | | Head before | Head after | In | Out | Other edges |\n|---|---|---|---|---|---|---|"
        rows = (
            _row(
                _code(channel.name),
                channel.kind,
                _code(channel.head_before),
                _code(channel.head_after),
                *(", ".join(map(_code, n)) for n in (channel.bundles_in, channel.bundles_out, channel.edges_changed)),
            )
            for channel in package.channels
        )
        yield "\n".join([header, *rows])
    if package.bundles:
        yield _bundle_table(package.bundles)
    if package.deprecations:
        header = "| Deprecation of | | Message |\n|---|---|---|"
        deprecated = (_row(_code(one.subject), one.kind, _code(one.message)) for one in package.deprecations)
        yield "\n".join([header, *deprecated])
    if package.others and package.kind is Kind.CHANGED:
        yield f"Changed, too: {', '.join(map(_code, package.others))}"


def _bundle_table(bundles: tuple[BundleChange, ...]) -> str:
    header = "| Bundle | | Version | Image |\n|---|---|---|---|"
    rows = (
        _row(
            _code(bundle.name),
            f"{bundle.kind}, deprecated" if bundle.deprecated else bundle.kind,
            _code(bundle.version),
            _code(bundle.image),
        )
        for bundle in bundles
    )
    return "\n".join([header, *rows])


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    """Text in backticks, more of them than it has itself; a bar in a table's cell is escaped."""
    if not text:
        return ""
    text = escape_controls(text).replace("|", "\\|")
    fence = "`"
    while fence in text:
        fence += "`"
    gap = " " if "`" in text else ""
    return f"{fence}{gap}{text}{gap}{fence}"
