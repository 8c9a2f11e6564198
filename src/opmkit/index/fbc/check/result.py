"""The result of validating a catalog."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.bundle.finding import Severity, TargetResult
from opmkit.bundle.icons import icon_data, image_problem
from opmkit.bundle.versions import VersionRange, strict_version
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.catalog import check_blobs, group_by_package, locate
from opmkit.index.fbc.check.graph import check_graph
from opmkit.index.fbc.check.policy import CatalogPolicy, check_policy
from opmkit.index.fbc.check.rules import CATALOG_RULES
from opmkit.index.fbc.fields import decode_base64
from opmkit.index.fbc.findings import CatalogFinding, group_findings
from opmkit.index.fbc.lifecycle import check_lifecycles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from semver import Version

    from opmkit.bundle.finding import Finding
    from opmkit.imagetools.reference import ImageReference
    from opmkit.index.fbc.blobs import Blobs, ChannelBlob, EntryBlob, PackageBlob
    from opmkit.index.fbc.check.catalog import PackageBlobs
    from opmkit.index.fbc.compat import CatalogCompat
    from opmkit.index.fbc.load import LoadResult


NO_POLICY = CatalogPolicy()


@dataclass(frozen=True, slots=True)
class CatalogResult(TargetResult):
    """The findings for one catalog, sorted by file and line.

    Attributes:
        location: Where the catalog is, None if unknown.
    """

    location: Path | ImageReference | None = None

    @property
    def passed(self) -> bool:
        """Return whether the catalog is valid."""
        return self.passes(Severity.ERROR)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Return the findings that are errors."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    def names(self, finding: Finding) -> Mapping[str, tuple[str, ...]]:
        """Return the names of a finding: its own package, channel and bundle."""
        names = TargetResult.names(self, finding)
        if not isinstance(finding, CatalogFinding):
            return names
        return {**names, "package": (finding.package,), "channel": (finding.channel,), "bundle": (finding.bundle,)}

    def to_dict(self, fail_on: Severity = Severity.ERROR) -> dict[str, Any]:
        """Return a JSON document: the fields that Go opm prints, and further ones."""
        failures = [finding for finding in self.findings if finding.fails(fail_on)]
        messages = [*map(str, failures), *(self.notices if fail_on is Severity.WARNING else ())]
        error = {"error": {"message": "\n".join(messages)}} if messages else {}
        return {
            "passed": self.passes(fail_on),
            **error,
            "findings": [_to_dict(finding) for finding in self.findings],
            "allowed": [{**_to_dict(allowed.finding), "reason": allowed.reason} for allowed in self.allowed],
            "notices": list(self.notices),
        }

    def to_sarif(self) -> dict[str, Any]:
        """Return the result as a SARIF log."""
        from opmkit.bundle.reports import sarif

        roots = {self.target: sarif.target_uri(self.target, self.location)} if self.location else {}
        return sarif.report([self], CATALOG_RULES, roots)

    def to_junit(self, fail_on: Severity = Severity.ERROR) -> str:
        """Return the result as a JUnit document."""
        from opmkit.bundle.reports import junit

        return junit.report([self], fail_on, name="catalog validation")

    def to_markdown(self, fail_on: Severity = Severity.ERROR) -> str:
        """Return the result in Markdown."""
        from opmkit.bundle.reports import markdown

        return markdown.report([self], fail_on, noun="catalog")

    def github_lines(self) -> Iterator[str]:
        """Yield the commands of a GitHub workflow for the findings."""
        from opmkit.bundle.reports import github

        return github.lines([self])

    def grouped_findings(self) -> list[list[Finding]]:
        """Return the findings with those that differ only in their place together, in the order of the first."""
        return group_findings(self.findings)


class ProfiledCatalog(Struct, frozen=True):
    """A catalog with the findings of a profile, which `validate` does not have.

    Attributes:
        loaded: The catalog; empty if it cannot be read.
        findings: The findings, without those of valid catalogs.
        groups: The groups of rules that were checked.
        is_read: Whether the catalog was read.
    """

    loaded: LoadResult
    findings: tuple[CatalogFinding, ...] = ()
    groups: frozenset[str] = frozenset()
    is_read: bool = True


def validate(
    loaded: LoadResult,
    compat: CatalogCompat,
    policy: CatalogPolicy = NO_POLICY,
    *,
    target: str = "",
    allow_empty: bool = False,
    further: Iterable[CatalogFinding] = (),
    root: Path | None = None,
) -> CatalogResult:
    """Validate a loaded catalog.

    Args:
        loaded: The catalog.
        compat: The release of Go opm whose rules apply.
        policy: Further requirements.
        target: Name of the catalog for messages.
        allow_empty: Don't warn about a catalog without documents.
        further: Findings of rules that need more than the documents.
        root: Directory of the catalog, to look up the lines of values in it.
    """
    findings = (
        *(() if allow_empty else _check_empty(loaded)),
        *loaded.errors,
        *_check_blobs(loaded, compat),
        *loaded.warnings,
        *find_warnings(loaded.blobs),
        *check_policy(loaded.blobs, policy),
        *further,
    )
    if root is not None:
        from opmkit.index.fbc.check.lines import find_lines  # not needed for images and databases

        findings = tuple(find_lines(findings, root))
    order = sorted(findings, key=lambda finding: (finding.file, finding.line, finding.severity))
    return CatalogResult(target, tuple(order))


_UNREAD = frozenset({"FBC-SYNTAX", "FBC-DOCUMENT", "FBC-SCHEMA"})
"""Rules of documents that are not read at all."""
_ABSENCES = frozenset(
    {
        "FBC-BUNDLE-STRANDED",
        "FBC-DEFAULT-CHANNEL",
        "FBC-DEPRECATION",
        "FBC-ENTRY-BUNDLE",
        "FBC-PACKAGE-EMPTY",
        "FBC-PACKAGE-UNKNOWN",
    }
)
"""Rules that another document can break by its absence."""


def _check_blobs(loaded: LoadResult, compat: CatalogCompat) -> Iterator[CatalogFinding]:
    """Yield the findings of the documents, except those that an unread one may cause."""
    is_complete = not any(error.rule in _UNREAD for error in loaded.errors)
    return (finding for finding in check_blobs(loaded.blobs, compat) if is_complete or finding.rule not in _ABSENCES)


def _check_empty(loaded: LoadResult) -> Iterator[CatalogFinding]:
    """Yield a warning for an index without content: a mistake of a pipeline, or a service that removes everything."""
    if not loaded.errors and not any(True for _ in loaded.blobs):
        hint = "Pass the directory of a catalog; files that .indexignore excludes are not read."
        yield CatalogFinding("no documents found", hint=hint, severity=Severity.WARNING, rule="FBC-EMPTY")


def _to_dict(finding: Finding) -> dict[str, Any]:
    catalog = finding if isinstance(finding, CatalogFinding) else CatalogFinding(finding.message)
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "message": finding.message,
        "hint": finding.hint,
        "package": catalog.package,
        "channel": catalog.channel,
        "bundle": catalog.bundle,
        "file": finding.file,
        "line": finding.line,
        "since": catalog.since,
    }


def find_warnings(blobs: Blobs) -> tuple[CatalogFinding, ...]:
    """Return the warnings of a catalog, package by package; errors are not repeated."""
    findings = [finding for package in group_by_package(blobs) for finding in _check_package(package)]
    findings += check_lifecycles(blobs.others, {package.name for package in blobs.packages})
    return tuple(replace(finding, severity=Severity.WARNING) for finding in findings)


def _check_package(package: PackageBlobs) -> Iterator[CatalogFinding]:
    for definition in package.packages:
        for finding in _check_icon(definition):
            yield locate(finding, definition)
    for bundle in package.bundles:
        for number, related in enumerate(bundle.related_images):
            if not related.image:
                message, hint = f"relatedImages[{number}] has no image", "Set its image, or remove it."
                path = ("relatedImages", number)
                finding = CatalogFinding(message, hint=hint, rule="FBC-RELATED-IMAGE", path=path)
                yield locate(finding, bundle)
    versions = dict(_versions(package))
    for channel in package.channels:
        for finding in _check_graph(channel):
            yield locate(finding, channel)
        for entry in channel.entries:
            for finding in (*_check_edges(entry, versions), *_check_range(entry, versions)):
                yield locate(finding, channel, entry.name)


def _versions(package: PackageBlobs) -> Iterator[tuple[str, Version]]:
    """Yield the names and versions of the bundles that have a valid version."""
    for bundle in package.bundles:
        try:
            yield bundle.name, strict_version(bundle_version(bundle))
        except ValueError:
            continue


def _check_icon(definition: PackageBlob) -> Iterator[CatalogFinding]:
    icon = definition.icon
    if icon is None or decode_base64(icon.data) is None:
        return
    try:
        problem = image_problem(icon_data(icon.data), icon.media_type)
    except ValueError as error:
        problem = f"the data {error}"
    if problem:
        hint = "Encode the image again, or correct the mediatype; otherwise consoles do not show the icon."
        yield CatalogFinding(f"icon: {problem}", hint=hint, rule="FBC-ICON-IMAGE")


def _check_graph(channel: ChannelBlob) -> Iterator[CatalogFinding]:
    if check_graph(channel.entries) is None and (older := check_graph(channel.entries, stop_at_skipped=False)):
        yield CatalogFinding(
            f"invalid for releases of opm before 1.58: {older}", hint=older.hint, rule="FBC-GRAPH-BEFORE-1.58"
        )


def _check_edges(entry: EntryBlob, versions: Mapping[str, Version]) -> Iterator[CatalogFinding]:
    if entry.name in (entry.replaces, *entry.skips):
        yield CatalogFinding("the entry replaces or skips itself", hint="Remove its own name.", rule="FBC-ENTRY-SELF")
    if len(set(entry.skips)) < len(entry.skips):
        yield CatalogFinding("duplicate names in skips", hint="Keep each name once.", rule="FBC-SKIPS-DUPLICATE")
    version = versions.get(entry.name)
    for verb, name in (("replaces", entry.replaces), *(("skips", skip) for skip in entry.skips)):
        other = versions.get(name)
        if version and other and other > version:
            yield CatalogFinding(
                f"{verb} {name}, which has the higher version {other}", hint="Reverse the edge.", rule="FBC-ENTRY-ORDER"
            )


def _check_range(entry: EntryBlob, versions: Mapping[str, Version]) -> Iterator[CatalogFinding]:
    try:
        parsed = VersionRange.parse(entry.skip_range)
    except ValueError:
        return
    subject = f'skipRange "{entry.skip_range}"'
    if parsed.dropped:
        message = f"{subject}: {' '.join(parsed.dropped)} is ignored"
        yield CatalogFinding(message, hint='Write a range such as ">=1.0.0 <1.2.0".', rule="FBC-SKIPRANGE-IGNORED")
    if not parsed.is_complete:
        message = f"{subject}: empty alternative next to ||, which crashes resolvers"
        yield CatalogFinding(message, hint="Remove the extra ||.", rule="FBC-SKIPRANGE-IGNORED")
    version = versions.get(entry.name)
    if version and version in parsed:
        message = f"{subject} contains the entry's own version {version}"
        yield CatalogFinding(message, hint=f"End the range before it: <{version}.", rule="FBC-SKIPRANGE-SELF")
