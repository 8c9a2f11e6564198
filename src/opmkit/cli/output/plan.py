"""Output of ``opm index plan``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.cli.output.console import format_count, print_line, print_table
from opmkit.cli.output.errors import print_to_stderr
from opmkit.core.escape import escape_controls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit import ExtensionPlan, NamespacePlan, UpdatePath, UpdatePlan

_HEADER = ("PACKAGE", "CHANNEL", "INSTALLED", "NEXT", "HOPS", "RESULT")
_ALL_CHANNELS = "(all)"


def print_updates(plan: UpdatePlan) -> None:
    """Print a table of the update paths, with the OLM of each if there are several; a summary goes to stderr."""
    if len({path.olm for path in plan.paths}) > 1:
        print_table(("OLM", *_HEADER), [(path.olm.value, *_row(path)) for path in plan.paths])
    elif plan.paths:
        print_table(_HEADER, list(map(_row, plan.paths)))
    print_to_stderr(f"{format_count(len(plan.paths), 'installed version')}: {_summary(plan)}")


def _row(path: UpdatePath) -> Sequence[str]:
    return (
        path.package,
        path.channel or _ALL_CHANNELS,
        path.installed,
        path.hops[0] if path.hops else "-",
        str(len(path.hops)),
        _result(path),
    )


def _result(path: UpdatePath) -> str:
    if not path.reason:
        return path.final
    remedy = f"; {path.remedy}" if path.remedy else ""
    return f"{path.outcome.value}: {path.reason}{remedy}"


def _summary(plan: UpdatePlan) -> str:
    names = {"head": "reach the head"}
    return ", ".join(f"{count} {names.get(outcome.value, outcome.value)}" for outcome, count in plan.counts.items())


def updates_as_markdown(plan: UpdatePlan) -> str:
    """Return a summary and the paths that do not reach the head of their channel, for a pull request."""
    lines = [f"**{format_count(len(plan.paths), 'installed version')}:** {_summary(plan)}"]
    problems = [path for path in plan.paths if path.reason]
    if problems:
        lines += ["", "| OLM | package | channel | installed | hops | result |", "|---|---|---|---|---|---|"]
        for path in problems:
            channel = path.channel or _ALL_CHANNELS
            cells = (path.olm.value, path.package, channel, path.installed, str(len(path.hops)), _result(path))
            lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines)


def print_extension(plan: ExtensionPlan) -> None:
    """Print the bundles that are installed in turn, and why none is installed at the end."""
    if plan.steps:
        print_table(("STEP", "INSTALLS", "CATALOG", "REPLACES"), list(_steps(plan)))
    elif not plan.is_blocked:
        print_line(f"OLM v1 has nothing to do for {plan.request.package}")
    if plan.is_blocked:
        print_line(f"Blocked: {plan.problem}")
        print_line(f"  to change: {plan.remedy}")


def _steps(plan: ExtensionPlan) -> Iterator[tuple[str, str, str, str]]:
    before = plan.request.installed.name if plan.request.installed else "-"
    for number, step in enumerate(plan.steps, 1):
        deprecated = " (deprecated)" if step.is_deprecated else ""
        yield str(number), f"{step.bundle.name}{deprecated}", step.catalog, before
        before = step.bundle.name


def extension_as_markdown(plan: ExtensionPlan) -> str:
    """Return the bundles that are installed in turn, and why none is installed at the end, for a pull request."""
    lines = [f"**ClusterExtension of {_cell(plan.request.package)}**"]
    if plan.steps:
        lines += ["", "| step | installs | catalog | replaces |", "|---|---|---|---|"]
        lines += [f"| {' | '.join(map(_cell, step))} |" for step in _steps(plan)]
    if plan.is_blocked:
        lines += ["", f"Blocked: {_cell(plan.problem)}; {_cell(plan.remedy)}"]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return escape_controls(text).replace("|", "\\|").replace("<", "&lt;")


def print_namespace(plan: NamespacePlan) -> None:
    """Print the steps of each resolution, and why the last one fails."""
    rows = [
        (
            str(number),
            step.candidate.name,
            f"{step.candidate.package}/{step.candidate.channel}",
            step.candidate.catalog.name,
            step.replaces or "-",
            f"required by {', '.join(step.required_by)}" if step.required_by else "subscription",
        )
        for number, resolution in enumerate(plan.walk.resolutions, 1)
        for step in resolution.steps
    ]
    if rows:
        print_table(("STEP", "INSTALLS", "CHANNEL", "CATALOG", "REPLACES", "REASON"), rows)
    elif not plan.is_blocked:
        print_line("OLM has nothing to do in the namespace")
    for number, resolution in enumerate(plan.walk.resolutions, 1):
        if not resolution.is_determined:
            print_line(f"Step {number} is not determined: OLM may install other bundles, in another order")
        for other in resolution.others:
            names = ", ".join(step.candidate.name for step in other) or "nothing"
            print_line(f"  instead: {names}")
    if plan.walk.is_circular:
        print_line("The last step leads back to an earlier state, so that OLM would never finish")
    for explanation in plan.explanations:
        print_line(f"Blocked: {explanation.summary}; nothing in the namespace changes")
        for cause in explanation.causes:
            print_line(f"  {cause}")
        for remedy in explanation.remedies:
            print_line(f"  to change: {remedy}")
