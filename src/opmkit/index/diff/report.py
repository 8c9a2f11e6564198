"""Rendering of a difference as text for a terminal and as Markdown for a pull request."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from opmkit.core.escape import code, escape_controls, row, table
from opmkit.index.diff.model import ChangeKind
from opmkit.index.suggestions import MAX_SHORTENED, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.index.diff.differences import Difference
    from opmkit.index.diff.model import BundleChange, ChannelChange, IndexDiff, PackageChange

_SIGNS = {ChangeKind.ADDED: "+", ChangeKind.REMOVED: "-", ChangeKind.CHANGED: "~"}
_VERBS = {ChangeKind.ADDED: "to add", ChangeKind.REMOVED: "to remove", ChangeKind.CHANGED: "changed"}
NO_DIFFERENCE = "no difference"
MAX_FAILURES = 200
"""Maximum number of differences in the table of a failed gate; the sections below it list all."""


def diff_as_text(diff: IndexDiff) -> str:
    """Return lines with a sign: added (+), removed (-) or changed (~), indented below their packages."""
    lines = [line for package in diff.packages for line in _package_lines(package)]
    for bundle in diff.stranded:
        lines += [f"{_bundle_text(bundle)} (in no channel)", *_detail_lines(bundle, "    ")]
    lines += [f"! OLM {update.olm} refuses the update from {update}" for update in diff.refused]
    lines += [f"! {line}" for change in diff.permissions for line in change.lines()]
    return "\n".join(map(escape_controls, lines)) or NO_DIFFERENCE


def diff_totals(diff: IndexDiff) -> str:
    """Return the numbers of changed packages, channels, bundles and deprecations, such as ``3 bundles to add``."""
    kinds_by_noun = {
        "package": [package.kind for package in diff.packages],
        "channel": [channel.kind for package in diff.packages for channel in package.channels],
        "bundle": [
            bundle.kind for changes in (*(p.bundles for p in diff.packages), diff.stranded) for bundle in changes
        ],
        "deprecation": [deprecation.kind for package in diff.packages for deprecation in package.deprecations],
    }
    counts = [(noun, kind, kinds.count(kind)) for noun, kinds in kinds_by_noun.items() for kind in ChangeKind]
    parts = [f"{count} {noun}{'s' * (count != 1)} {_VERBS[kind]}" for noun, kind, count in counts if count]
    return ", ".join(parts) or NO_DIFFERENCE


def _package_lines(package: PackageChange) -> Iterator[str]:
    yield f"{_SIGNS[package.kind]} package {package.name}"
    if package.default_before != package.default_after:
        yield f"    default channel: {_arrow(package.default_before, package.default_after)}"
    for channel in package.channels:
        yield f"  {_SIGNS[channel.kind]} channel {channel.name}{_channel_details(channel)}"
    for bundle in package.bundles:
        yield f"  {_bundle_text(bundle)}"
        yield from _detail_lines(bundle, "      ")
    for deprecation in package.deprecations:
        yield f"  {_SIGNS[deprecation.kind]} deprecation of {deprecation.subject}: {deprecation.message}"
    if package.others and package.kind is ChangeKind.CHANGED:
        yield f"  ~ {', '.join(package.others)}"


def _channel_details(channel: ChannelChange) -> str:
    parts = [f"head {_arrow(channel.head_before, channel.head_after)}"] * (channel.head_before != channel.head_after)
    changes = (("in", channel.bundles_in), ("out", channel.bundles_out), ("other edges", channel.edges_changed))
    parts += [f"{label}: {', '.join(names)}" for label, names in changes if names]
    return f": {'; '.join(parts)}" if parts else ""


def _bundle_text(bundle: BundleChange) -> str:
    more = " ".join(part for part in (bundle.version, bundle.image, "deprecated" * bundle.deprecated) if part)
    return f"{_SIGNS[bundle.kind]} bundle {bundle.name} {more}".rstrip()


def _detail_lines(bundle: BundleChange, indent: str) -> Iterator[str]:
    return (f"{indent}{_SIGNS[detail.kind]} {detail}" for detail in bundle.details)


def _arrow(before: str, after: str) -> str:
    return " -> ".join(name for name in (before or "none", after or "none"))


def loss_lines(diff: IndexDiff) -> Iterator[str]:
    """Yield what users of installed versions lose, in lines that name all channels with the same loss.

    These are bundles that leave channels, installed versions that are no longer updated to the head, and heads that
    move back. Removed packages are not mentioned.
    """
    for package in diff.packages:
        if package.kind is ChangeKind.CHANGED:
            subject = f'package "{package.name}"'
            for text, channels in _group_losses(package.channels).items():
                names = ", ".join(f'"{name}"' for name in channels)
                yield f"{subject}, {'channel' if len(channels) == 1 else 'channels'} {names}: {text}"


def _group_losses(channels: Sequence[ChannelChange]) -> dict[str, list[str]]:
    """Map each loss to the names of the channels that have it."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for channel in channels:
        for text in _channel_losses(channel):
            groups[text].append(channel.name)
    return groups


def _channel_losses(channel: ChannelChange) -> Iterator[str]:
    if channel.moved_back:
        yield f"the head moves back from {channel.head_before} to {channel.head_after}"
    if channel.kind is ChangeKind.REMOVED:
        if channel.stranded:
            yield f"the channel is removed: subscriptions to it receive no updates of {_some(channel.stranded)}"
        return
    if channel.bundles_out:
        count = len(channel.bundles_out)
        noun = "1 bundle leaves" if count == 1 else f"{count} bundles leave"
        yield f"{noun} the channel: {_some(channel.bundles_out)}"
    if channel.stranded:
        newest, head = channel.stranded[-1], channel.head_after
        yield (
            f"installed {_some(channel.stranded)} are no longer updated to {head}: let {head}, or an entry below it, "
            f"replace {newest}"
        )


def _some(names: Sequence[str]) -> str:
    """Join names; if there are many, only the first ones and the last, with their number."""
    return f"{shorten(names)} ({len(names)} in all)" if len(names) > MAX_SHORTENED else shorten(names)


def diff_as_markdown(diff: IndexDiff) -> str:
    """Return headings and tables in Markdown; names are quoted as code, so that they cannot contain markup."""
    if not diff:
        return f"{NO_DIFFERENCE.capitalize()}."
    sections = [section for package in diff.packages for section in _package_sections(package)]
    if diff.stranded:
        sections += ["### Bundles in no channel", _bundle_table(diff.stranded)]
    if diff.refused:
        header = ("Installed", "Next", "CRD", "Refused because")
        rows = (tuple(map(code, (each.installed, each.next, each.definition, each.reason))) for each in diff.refused)
        sections += ["### Updates that OLM refuses", table(header, rows)]
    if diff.permissions:
        gained = ((code(each.package), code(line)) for each in diff.permissions for line in each.lines())
        sections += ["### Updates with dangerous permissions", table(("Package", "New permissions"), gained)]
    return "\n\n".join(sections)


def gate_as_markdown(failures: Sequence[Difference], kinds: Sequence[str]) -> str:
    """Return whether differences fail a gate for these kinds, and a table of those that do."""
    names = ", ".join(map(code, kinds))
    if not failures:
        return f"### Gate passed\n\nNo difference of the kinds {names}."
    header = ("Difference", "Package", "Channel", "Bundle", "Details")
    rows = (
        (str(failure.kind), *map(code, (failure.package, failure.channel, failure.bundle, failure.details)))
        for failure in failures[:MAX_FAILURES]
    )
    noun = "difference" if len(failures) == 1 else "differences"
    sections = [f"### Gate failed: {len(failures)} {noun} of the kinds {names}", table(header, rows)]
    if len(failures) > MAX_FAILURES:
        sections.append(f"and {len(failures) - MAX_FAILURES} more")
    return "\n\n".join(sections)


def _package_sections(package: PackageChange) -> Iterator[str]:
    yield f"### Package {code(package.name)} {package.kind}"
    if package.default_before != package.default_after:
        yield f"Default channel: {code(package.default_before)} → {code(package.default_after)}"
    if package.channels:
        header = "| Channel | | Head before | Head after | In | Out | Other edges |\n|---|---|---|---|---|---|---|"
        rows = (
            row(
                code(channel.name),
                channel.kind,
                code(channel.head_before),
                code(channel.head_after),
                *(", ".join(map(code, n)) for n in (channel.bundles_in, channel.bundles_out, channel.edges_changed)),
            )
            for channel in package.channels
        )
        yield "\n".join([header, *rows])
    if package.bundles:
        yield _bundle_table(package.bundles)
    if package.deprecations:
        header = "| Deprecation of | | Message |\n|---|---|---|"
        rows = (row(code(change.subject), change.kind, code(change.message)) for change in package.deprecations)
        yield "\n".join([header, *rows])
    if package.others and package.kind is ChangeKind.CHANGED:
        yield f"Also changed: {', '.join(map(code, package.others))}"


def _bundle_table(bundles: tuple[BundleChange, ...]) -> str:
    rows = (
        (
            code(bundle.name),
            f"{bundle.kind}, deprecated" if bundle.deprecated else bundle.kind,
            code(bundle.version),
            code(bundle.image),
            "<br>".join(code(f"{_SIGNS[detail.kind]} {detail}") for detail in bundle.details),
        )
        for bundle in bundles
    )
    return table(("Bundle", "", "Version", "Image", "Changed"), rows)
