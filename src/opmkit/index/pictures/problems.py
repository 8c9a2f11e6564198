"""Problems of packages, with the rows of drawings that they are about."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.finding import Severity
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.check.graph import check_graph, natural_key
from opmkit.index.pictures.cycles import find_cycles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.index.fbc.blobs import Blobs, ChannelBlob
    from opmkit.index.fbc.check.graph import GraphProblem
    from opmkit.index.fbc.findings import CatalogFinding
    from opmkit.index.pictures.view import PackageView

_GRAPH_RULE = "FBC-GRAPH"
_MAX_NAMES = 8
"""Names of a cycle in a text."""


class PackageProblem(Struct, frozen=True):
    """A problem of a package.

    Attributes:
        text: The problem with its location, subject and hint.
        cause: The problem with its hint, without location, package and channel: equal if it is repeated in channels.
        severity: ERROR if the catalog is invalid because of it.
        channel: The name of its channel, or "" if it is not about one.
        names: The bundles that have the problem, in the channel or in all channels.
        label: The problem as a short remark on each of the bundles.
    """

    text: str
    cause: str
    severity: Severity = Severity.ERROR
    channel: str = ""
    names: tuple[str, ...] = ()
    label: str = ""


def package_problems(blobs: Blobs, packages: Sequence[PackageView]) -> Mapping[str, Sequence[PackageProblem]]:
    """Return the problems by package: the errors of the catalog, then cycles without an error and missing bundles.

    Args:
        blobs: The catalog.
        packages: The packages to draw.
    """
    graph_problems = {
        (package.name, channel.name): problem
        for package in packages
        for channel in package.channels
        if (problem := check_graph(channel.entries))
    }
    problems: defaultdict[str, list[PackageProblem]] = defaultdict(list)
    for finding in check_blobs(blobs):
        problem = graph_problems.get((finding.package, finding.channel)) if finding.rule == _GRAPH_RULE else None
        problems[finding.package].append(_error(finding, problem))
    for package in packages:
        for channel in package.channels:
            known = graph_problems.get((package.name, channel.name))
            found = [*_cycles(package, channel, known), *_missing_bundles(package, channel)]
            if found:
                problems[package.name] += found
    return problems


def group_problems(problems: Iterable[PackageProblem]) -> list[list[PackageProblem]]:
    """Group the problems of a package that have the same cause."""
    groups: defaultdict[tuple[Severity, bool, str], list[PackageProblem]] = defaultdict(list)
    for problem in problems:
        groups[problem.severity, bool(problem.channel), problem.cause].append(problem)
    return list(groups.values())


def problem_labels(problems: Sequence[PackageProblem], channel: str) -> Mapping[str, str]:
    """Return the remarks on bundles of a channel, by the names of the bundles."""
    labels: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for problem in problems:
        if problem.label and problem.channel in ("", channel):
            for name in problem.names:
                labels[name][problem.label] = None
    return {name: ", ".join(found) for name, found in labels.items()}


def _error(finding: CatalogFinding, problem: GraphProblem | None) -> PackageProblem:
    text = f"{finding}. {finding.hint}".rstrip()
    subject = f'bundle "{finding.bundle}": ' if finding.bundle else ""
    cause = f"{subject}{finding.message}. {finding.hint}".rstrip()
    if problem:
        return PackageProblem(text, cause, channel=finding.channel, names=problem.names, label=problem.label)
    names = (finding.bundle,) if finding.bundle else ()
    return PackageProblem(text, cause, channel=finding.channel, names=names, label=finding.message if names else "")


def _cycles(package: PackageView, channel: ChannelBlob, known: GraphProblem | None) -> Iterator[PackageProblem]:
    """Yield the cycles of a channel that the first problem of its graph does not contain."""
    entry_names = list(dict.fromkeys(entry.name for entry in channel.entries))
    numbers = {name: number for number, name in enumerate(entry_names)}
    targets: list[list[int]] = [[] for _ in entry_names]
    for entry in channel.entries:
        targets[numbers[entry.name]] += [
            numbers[name] for name in (entry.replaces, *entry.skips) if name and name in numbers
        ]
    cycles: defaultdict[int, list[str]] = defaultdict(list)
    for number, cycle in find_cycles(targets).items():
        cycles[cycle].append(entry_names[number])
    reported = set(known.names) if known and known.label == "in a cycle" else set()
    for members in cycles.values():
        if reported.isdisjoint(members):
            names = sorted(members, key=natural_key, reverse=True)
            shown = [*names[:_MAX_NAMES], *["..."] * (len(names) > _MAX_NAMES)]
            cause = (
                f"entries replace or skip each other in a cycle: {', '.join(shown)}. "
                "Remove the edge from the oldest of them to a newer one."
            )
            yield PackageProblem(
                f"{_subject(package, channel)}: {cause}",
                cause,
                Severity.WARNING,
                channel.name,
                tuple(names),
                "in a cycle",
            )


def _missing_bundles(package: PackageView, channel: ChannelBlob) -> Iterator[PackageProblem]:
    """Yield the bundles that entries replace, but that are neither entries of the channel nor bundles."""
    known = {entry.name for entry in channel.entries} | package.bundles.keys()
    missing: defaultdict[str, list[str]] = defaultdict(list)
    for entry in channel.entries:
        if entry.replaces and entry.replaces not in known:
            missing[entry.replaces].append(entry.name)
    for name, replacing in missing.items():
        yield PackageProblem(
            f'{_subject(package, channel)}, bundle "{replacing[0]}": replaces {name}, which does not exist. '
            "Add the bundle, or remove the edge if no cluster has it installed.",
            f"{name} does not exist, but is replaced. Add it, or remove the edges if no cluster has it installed.",
            Severity.WARNING,
            channel.name,
            (name,),
            f"does not exist, replaced by {replacing[0]}" + f" and {len(replacing) - 1} more" * (len(replacing) > 1),
        )


def _subject(package: PackageView, channel: ChannelBlob) -> str:
    location = f"{channel.location}: " if channel.location.file else ""
    return f'{location}package "{package.name}", channel "{channel.name}"'
