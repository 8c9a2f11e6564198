"""Output of ``opm index plan``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from opmkit.cli.output.console import format_count, print_json, print_line, print_table, print_text
from opmkit.cli.output.errors import print_hint, print_to_stderr
from opmkit.core.escape import code, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit import ClusterPlan, ExtensionPlan, NamespacePlan, PlatformPlan, UpdatePath, UpdatePlan

    AnyPlan = UpdatePlan | NamespacePlan | ExtensionPlan | ClusterPlan | PlatformPlan


MAX_COMMENT = 65_000
"""Maximum number of characters of Markdown: comments on GitHub have up to 65536."""
MAX_ROWS = 200
"""Maximum number of rows of a table in Markdown."""


class PlanFormat(StrEnum):
    """Output formats of a plan."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"


def print_plan(plan: AnyPlan, form: PlanFormat, kinds: Sequence[str], *, all_paths: bool = False) -> None:
    """Print a plan; problems of some kinds are failures in JUnit, and counted as the ``Error:`` line.

    Args:
        plan: The plan.
        form: Its output format.
        kinds: The kinds.
        all_paths: Whether the text lists the versions without problems, too.
    """
    match form:
        case PlanFormat.JSON:
            print_json(plan.to_dict())
        case PlanFormat.JUNIT:
            print_text(plan.to_junit(kinds).removesuffix("\n"))
        case PlanFormat.MARKDOWN:
            print_text(_shorten(_as_markdown(plan)))
        case PlanFormat.TEXT:
            _print_as_text(plan, all_paths=all_paths)
    failures = [problem for problem in plan.problems() if problem.kind in kinds]
    if failures:
        count, first = format_count(len(failures), "problem"), failures[0]
        print_to_stderr(f"Error: {count} of the kinds {', '.join(kinds)}: {first.target}: {first.message}")


def _shorten(text: str) -> str:
    """Return Markdown that fits a comment: without the last lines if there are too many."""
    if len(text) <= MAX_COMMENT:
        return text
    note = "\n\nThe rest does not fit a comment: `--output json` has all."
    return text[: MAX_COMMENT - len(note)].rpartition("\n")[0] + note


def _print_as_text(plan: AnyPlan, *, all_paths: bool) -> None:
    from opmkit import ClusterPlan, ExtensionPlan, NamespacePlan, PlatformPlan

    match plan:
        case ExtensionPlan():
            print_extension(plan)
        case NamespacePlan():
            print_namespace(plan)
        case ClusterPlan():
            print_cluster(plan)
        case PlatformPlan():
            print_table(_PLATFORM_HEADER, list(_platform_rows(plan)))
        case _:
            print_updates(plan, all_paths=all_paths)


def _as_markdown(plan: AnyPlan) -> str:
    from opmkit import ClusterPlan, ExtensionPlan, NamespacePlan, PlatformPlan

    match plan:
        case ExtensionPlan():
            return extension_as_markdown(plan)
        case NamespacePlan():
            return namespaces_as_markdown([(plan.walk.final.name, plan, "")])
        case PlatformPlan():
            head = [_PLATFORM_HEADER, ("---",) * len(_PLATFORM_HEADER)]
            rows = [*head, *(map(code, row) for row in _platform_rows(plan))]
            return "\n".join(f"| {' | '.join(row)} |" for row in rows)
        case ClusterPlan():
            return namespaces_as_markdown([(each.name, each.plan, each.problem) for each in plan.namespaces])
        case _:
            return updates_as_markdown(plan)


_HEADER = ("PACKAGE", "CHANNEL", "INSTALLED", "NEXT", "HOPS", "RESULT")


def print_updates(plan: UpdatePlan, *, all_paths: bool = False) -> None:
    """Print the problems of the update paths, grouped, or a table of all paths; a summary goes to stderr."""
    several = len({path.olm for path in plan.paths}) > 1
    if all_paths and several:
        print_table(("OLM", *_HEADER), [(path.olm.value, *_row(path)) for path in plan.paths])
    elif all_paths and plan.paths:
        print_table(_HEADER, list(map(_row, plan.paths)))
    for group in () if all_paths else plan.groups:
        print_line(f"OLM {group.olm}: {group}" if several else str(group))
    for update in plan.refused:
        print_line(f"Refused by OLM {update.olm}: {update}")
    for change in plan.permissions:
        for line in change.lines():
            print_line(f"Permissions: {line}")
    print_to_stderr(f"{format_count(len(plan.paths), 'installed version')}: {_summary(plan)}")


def _row(path: UpdatePath) -> Sequence[str]:
    return (
        path.package,
        path.followed,
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


_ENDS = {"head": ("reaches the head", "reach the head"), "crd": ("stops at a CRD", "stop at a CRD")}


def _summary(plan: UpdatePlan) -> str:
    parts = [
        f"{count} {_ENDS.get(outcome.value, (outcome.value,) * 2)[count > 1]}" for outcome, count in plan.counts.items()
    ]
    if plan.refused:
        parts.append(f"{format_count(len(plan.refused), 'update')} refused because of a CRD")
    if plan.permissions:
        parts.append(f"{format_count(len(plan.permissions), 'update')} with dangerous permissions")
    return ", ".join(parts)


def updates_as_markdown(plan: UpdatePlan) -> str:
    """Return a summary and the problems, grouped, for a pull request."""
    lines = [f"**{format_count(len(plan.paths), 'installed version')}:** {_summary(plan)}"]
    groups = [
        (each.olm.value, each.package, ", ".join(each.channels), each.versions, each.result) for each in plan.groups
    ]
    lines += _table("OLM | package | channel | installed | result", groups)
    refused = [
        (each.olm.value, each.package, f"{each.installed} to {each.next}", each.definition, each.reason)
        for each in plan.refused
    ]
    lines += _table("OLM | package | update | CRD | refused because", refused)
    gained = [(change.package, line) for change in plan.permissions for line in change.lines()]
    lines += _table("package | new permissions", gained)
    return "\n".join(lines)


def _table(header: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown after an empty one, with the number of rows that are too many."""
    if not rows:
        return []
    names = header.split(" | ")
    more = ["", f"and {len(rows) - MAX_ROWS} more: `--output json` lists all"] if len(rows) > MAX_ROWS else []
    return ["", table(names, (tuple(map(code, row)) for row in rows[:MAX_ROWS])), *more]


def print_extension(plan: ExtensionPlan) -> None:
    """Print the bundles that are installed in turn, and why none is installed at the end."""
    if plan.steps:
        print_table(("STEP", "INSTALLS", "CATALOG", "REPLACES"), list(_steps(plan)))
    elif not plan.problem:
        print_line(f"OLM v1 has nothing to do for {plan.request.package}")
    if plan.problem:
        print_line(f"{plan.kind.capitalize()}: {plan.problem}")
    if plan.remedy:
        print_line(f"  to change: {plan.remedy}")


def _steps(plan: ExtensionPlan) -> Iterator[tuple[str, str, str, str]]:
    before = plan.request.installed.name if plan.request.installed else "-"
    for number, step in enumerate(plan.steps, 1):
        deprecated = " (deprecated)" if step.is_deprecated else ""
        yield str(number), f"{step.bundle.name}{deprecated}", step.catalog, before
        before = step.bundle.name


def extension_as_markdown(plan: ExtensionPlan) -> str:
    """Return the bundles that are installed in turn, and why none is installed at the end, for a pull request."""
    lines = [f"**ClusterExtension of {code(plan.request.package)}**"]
    if plan.steps:
        lines += ["", "| step | installs | catalog | replaces |", "|---|---|---|---|"]
        lines += [f"| {' | '.join(map(code, step))} |" for step in _steps(plan)]
    if plan.problem:
        lines += ["", f"{plan.kind.capitalize()}: {'; '.join(map(code, filter(None, (plan.problem, plan.remedy))))}"]
    return "\n".join(lines)


def print_namespace(plan: NamespacePlan) -> None:
    """Print the steps of each resolution, and why the last one fails."""
    rows, lines = list(_namespace_rows(plan)), list(_namespace_lines(plan))
    if rows:
        print_table(_STEPS, rows)
    elif not lines:
        print_line("OLM has nothing to do in the namespace")
    for line in lines:
        print_line(line)
    if not plan.walk.start.subscriptions:
        packages = sorted({item.package for item in plan.walk.start.installed})
        channels = ",".join(f"{package}/CHANNEL" for package in packages)
        print_hint(f"OLM v0 updates operators with a Subscription only: pass --subscribe {channels}")


_PLATFORM_HEADER = ("OPENSHIFT", "PACKAGE", "CHANNEL", "INSTALLED", "UPDATED TO", "NEEDED", "SUPPORTED UNTIL", "RESULT")


def _platform_rows(plan: PlatformPlan) -> Iterator[tuple[str, ...]]:
    for step in plan.steps:
        remedy = f"; {step.remedy}" if step.remedy else ""
        yield (
            step.platform,
            step.package,
            step.channel,
            step.installed,
            step.final if step.hops else "-",
            step.needed or "-",
            str(step.support_ends or "-"),
            f"{step.kind}: {step.problem}{remedy}" if step.problem else "ok",
        )


def print_cluster(plan: ClusterPlan) -> None:
    """Print the steps of each namespace, and why it is blocked."""
    rows = [(each.name, *row) for each in plan.namespaces if each.plan for row in _namespace_rows(each.plan)]
    if rows:
        print_table(("NAMESPACE", *_STEPS), rows)
    for each in plan.namespaces:
        lines = [f"Blocked: {each.problem}"] if each.plan is None else list(_namespace_lines(each.plan))
        if not lines and each.plan and not each.plan.walk.resolutions:
            lines = ["OLM has nothing to do"]
        for line in (*lines, *(f"Note: {note}" for note in each.notes)):
            print_line(f"Namespace {each.name}: {line}")


def namespaces_as_markdown(plans: Sequence[tuple[str, NamespacePlan | None, str]]) -> str:
    """Return the steps of namespaces, and why they are blocked, for a pull request.

    Args:
        plans: Names of namespaces, their plans, and otherwise why OLM resolves nothing.
    """
    lines: list[str] = []
    for name, plan, problem in plans:
        lines += [f"**Namespace {code(name)}**", ""]
        if plan and (rows := list(_namespace_rows(plan))):
            lines += [f"| {' | '.join(_STEPS).lower()} |", f"|{'---|' * len(_STEPS)}"]
            lines += [*(f"| {' | '.join(map(code, row))} |" for row in rows), ""]
        texts = list(_namespace_lines(plan)) if plan else [f"Blocked: {problem}"]
        lines += [*(f"- {code(text.strip())}" for text in texts or ["OLM has nothing more to do"]), ""]
    return "\n".join(lines).rstrip()


_STEPS = ("STEP", "INSTALLS", "CHANNEL", "CATALOG", "REPLACES", "REASON")


def _namespace_rows(plan: NamespacePlan) -> Iterator[tuple[str, ...]]:
    installed = {item.name for item in plan.walk.start.installed}
    for number, resolution in enumerate(plan.walk.resolutions, 1):
        for step in resolution.steps:
            yield (
                str(number),
                step.candidate.name,
                f"{step.candidate.package}/{step.candidate.channel}",
                step.candidate.catalog.name,
                step.replaces if step.replaces in installed else "-",
                step.reason,
            )
        installed |= {step.candidate.name for step in resolution.steps}


def _namespace_lines(plan: NamespacePlan) -> Iterator[str]:
    for number, resolution in enumerate(plan.walk.resolutions, 1):
        if not resolution.is_determined:
            yield f"Step {number} is not determined: OLM may install other bundles, in another order"
        for other in resolution.others:
            names = ", ".join(str(step.candidate) for step in other) or "nothing"
            yield f"  instead: {names}"
    for explanation in plan.explanations:
        yield f"Blocked: {explanation.summary}; nothing in the namespace changes"
        yield from (f"  {cause}" for cause in explanation.causes)
        yield from (f"  to change: {remedy}" for remedy in explanation.remedies)
    for path in plan.paths:
        if path.reason:
            yield f"{path.outcome.capitalize()}: {path.package}/{path.followed}: {path.reason}"
            yield from [f"  to change: {path.remedy}"] * bool(path.remedy)
    for held in plan.held:
        yield f"Blocked: {held.summary}"
        yield from (f"  to change: {remedy}" for remedy in held.remedies)
