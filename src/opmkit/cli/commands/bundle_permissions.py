"""``opm bundle permissions``: show what the operator of a bundle may do."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.container_tools import PullTool
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import format_count, print_json, print_text
from opmkit.cli.output.errors import UsageError, print_to_stderr
from opmkit.cli.parser.declaration import flag
from opmkit.cli.progress.command import waiting

if TYPE_CHECKING:
    from opmkit import Danger, PermissionDiff, PermissionReport

_ANY = "any"


class PermissionFormat(StrEnum):
    """Output formats of permissions."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def permissions(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    bundle: Annotated[str, typer.Argument(metavar="BUNDLE", help="Bundle image, or bundle directory as ./DIR")],
    *,
    from_: str = flag(
        "", "Version before: show what the operator may do now, and no longer", "--from", metavar="BUNDLE"
    ),
    fail_on: list[str] | None = flag(
        None,
        "Exit with 1 if there are dangerous permissions of these kinds, such as secrets, or that include them, or any; "
        "with --from, if there are new ones",
        metavar="KIND,...",
    ),
    output: PermissionFormat = flag(PermissionFormat.TEXT, "Output format", "-o"),
    container_tool: PullTool = "none",
) -> None:
    """Show what the operator of a bundle may do, the dangerous permissions first

    Permissions are those of the ClusterServiceVersion, of roles and bindings in the bundle, what its webhooks see, and
    what its other objects do. Dangerous are those by which who takes over the operator takes over more: everything,
    secrets, wildcard, escalate, bind, impersonate, webhooks, nodes, exec, tokens, roles, others, security-context,
    certificates, apis, platform, network, workloads, unknown-role and unknown-object, in this order.

    [bold]Examples:[/]
      opm bundle permissions quay.io/me/lagoon:0.2.0
      opm bundle permissions ./lagoon/0.2.0 --from quay.io/me/lagoon:0.1.0
      opm bundle permissions ./lagoon/0.2.0 --from ./lagoon/0.1.0 --fail-on secrets,escalate,bind
    """
    from opmkit import DangerKind
    from opmkit.cli.output.permissions import (
        diff_sections,
        permissions_as_markdown,
        print_permissions,
        report_sections,
    )

    kinds = list(filter(None, fail_on or ()))
    for kind in kinds:
        if kind not in (_ANY, *DangerKind):
            hint = f"use {_ANY}, {', '.join(DangerKind)}"
            raise UsageError(f"invalid value of --fail-on: {kind}", ctx.command_path, hint=hint)
    opm = registry_flags.opm(container_tool)
    found: PermissionDiff | PermissionReport
    with waiting(f"Reading {bundle}"):
        if from_:
            found = difference = opm.compare_permissions(from_, bundle)
            sections, dangers = diff_sections(difference), difference.gained_dangers
        else:
            found = report = opm.bundle_permissions(bundle)
            sections, dangers = report_sections(report), report.dangers
    match output:
        case PermissionFormat.JSON:
            print_json(found.to_dict())
        case PermissionFormat.MARKDOWN:
            print_text(permissions_as_markdown(sections))
        case PermissionFormat.TEXT:
            print_permissions(sections)
    if failures := [danger for danger in dangers if _ANY in kinds or danger.is_of(kinds)]:
        _print_failures(failures, bool(from_))
        ctx.exit(1)


def _print_failures(failures: list[Danger], compared: bool) -> None:
    """Print the dangerous permissions, then their number as the ``Error:`` line, to stderr."""
    may = "may now" if compared else "may"
    print_to_stderr(*(f"{danger.subject} {may} {danger} ({danger.kind})" for danger in failures))
    new = "new " if compared else ""
    print_to_stderr(f"Error: {format_count(len(failures), f'{new}dangerous permission')}")
