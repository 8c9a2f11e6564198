"""``opm index plan``: say what clusters will do with an index."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.container_tools import PullTool
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import print_json, print_text
from opmkit.cli.output.errors import UsageError, conflicting_flags
from opmkit.cli.output.plan import print_namespace, print_updates, updates_as_markdown
from opmkit.cli.progress.command import waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.api import Opm

_KINDS = ("stuck", "gone", "unresolvable", "circular", "blocked")


class PlanFormat(StrEnum):
    """Output formats of a plan."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def plan(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    catalogs: Annotated[
        list[str],
        typer.Argument(metavar="[NAME=]INDEX...", help="Index image, catalog directory or database file"),
    ],
    *,
    from_: Annotated[
        str,
        typer.Option("--from", metavar="PUBLISHED", help="Published index: plan for each version that it installs"),
    ] = "",
    packages: Annotated[
        list[str] | None,
        typer.Option("--package", "-p", metavar="NAME,...", help="Packages to plan with --from; default: all"),
    ] = None,
    subscribe: Annotated[
        list[str] | None,
        typer.Option(metavar="PACKAGE[/CHANNEL][@NAME],...", help="Subscriptions of a namespace to plan"),
    ] = None,
    installed: Annotated[
        list[str] | None,
        typer.Option(metavar="BUNDLE,...", help="Bundles that are installed in the namespace, such as etcd.v0.9.0"),
    ] = None,
    priority: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER,...", help="Priorities of catalogs; default: 0"),
    ] = None,
    output: Annotated[
        PlanFormat, typer.Option("--output", "-o", help="Output format: text, json or markdown")
    ] = PlanFormat.TEXT,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND,...",
            help="Exit with 1 if a version is stuck, gone (its channel is), unresolvable or circular, or the namespace "
            "is blocked",
        ),
    ] = None,
    container_tool: PullTool = "none",
) -> None:
    """Say what clusters with OLM v0 will do with an index, without a cluster

    With --from, for each version that the published index can have left installed, in each channel: the versions that
    OLM installs in turn, and if it does not reach the head of the channel, why, and the smallest change that helps.

    With --subscribe, what OLM does in a namespace: what it installs for Subscriptions and dependencies, resolution by
    resolution, or why one Subscription blocks all of them.

    The exit code is 0 unless --fail-on selects something, or an index cannot be read.

    [bold]Examples:[/]

      opm index plan ./catalog --from quay.io/me/catalog:1

      opm index plan ./catalog --from quay.io/me/catalog:1 --package lagoon-operator --output json

      opm index plan ./catalog --from quay.io/me/catalog:1 --fail-on stuck,gone

      opm index plan ./catalog --subscribe lagoon-operator/alpha --installed lagoon-operator.v0.1.0

      opm index plan mine=./catalog other=quay.io/me/prod:1 --priority other=10 --subscribe lagoon-operator@mine
    """
    kinds = [kind for kind in fail_on or () if kind]
    if unknown := next((kind for kind in kinds if kind not in _KINDS), None):
        raise UsageError(
            f"unknown kind {unknown!r} of --fail-on", ctx.command_path, hint=f"use some of {', '.join(_KINDS)}"
        )
    if from_ and (subscribe or installed or priority):
        flag = "--subscribe" if subscribe else "--installed" if installed else "--priority"
        raise conflicting_flags("--from", flag, ctx.command_path)
    if not (from_ or subscribe or installed):
        raise UsageError("neither --from nor --subscribe or --installed is given", ctx.command_path)
    opm = registry_flags.opm(container_tool)
    if from_:
        failed = _plan_updates(ctx, opm, catalogs, from_, packages or (), output, kinds)
    else:
        failed = _plan_namespace(ctx, opm, catalogs, (subscribe or (), installed or (), priority or ()), output, kinds)
    if failed:
        ctx.exit(1)


def _plan_updates(
    ctx: typer.Context,
    opm: Opm,
    catalogs: Sequence[str],
    published: str,
    packages: Sequence[str],
    output: PlanFormat,
    kinds: Sequence[str],
) -> bool:
    """Print where installed versions get; return whether one of the kinds is found."""
    if len(catalogs) > 1:
        raise UsageError("--from takes one index", ctx.command_path)
    with waiting("Planning updates"):
        found = opm.plan_updates(catalogs[0], published, packages)
    failures = found.failures(kinds)
    if output is PlanFormat.JSON:
        print_json(found.to_dict())
    elif output is PlanFormat.MARKDOWN:
        print_text(updates_as_markdown(found))
    else:
        print_updates(found)
    return bool(failures)


def _plan_namespace(
    ctx: typer.Context,
    opm: Opm,
    catalogs: Sequence[str],
    state: tuple[Sequence[str], Sequence[str], Sequence[str]],
    output: PlanFormat,
    kinds: Sequence[str],
) -> bool:
    """Print what OLM does in a namespace; return whether one of the kinds is found."""
    from opmkit import ChannelRequest, NamespaceRequest

    if output is PlanFormat.MARKDOWN:
        raise UsageError("markdown: unsupported with --subscribe", ctx.command_path)
    subscribe, installed, priority = state
    request = NamespaceRequest(
        tuple(map(ChannelRequest.parse, filter(None, subscribe))),
        tuple(filter(None, installed)),
        _parse_priorities(priority, ctx.command_path),
    )
    with waiting("Planning a namespace"):
        found = opm.plan_namespace(_parse_catalogs(catalogs, ctx.command_path), request)
    if output is PlanFormat.JSON:
        print_json(found.to_dict())
    else:
        print_namespace(found)
    return (found.is_blocked and "blocked" in kinds) or (found.walk.is_circular and "circular" in kinds)


def _parse_catalogs(arguments: Sequence[str], command: str) -> dict[str, str]:
    """Return indexes by the names of their catalogs; one without a name is called catalog."""
    found: dict[str, str] = {}
    for argument in arguments:
        name, separator, index = argument.partition("=")
        if not separator or "/" in name or ":" in name:
            name, index = "catalog", argument
        if name in found:
            raise UsageError(
                f"several catalogs are called {name}", command, hint="name them, as in first=INDEX second=INDEX"
            )
        found[name] = index
    return found


def _parse_priorities(texts: Sequence[str], command: str) -> dict[str, int]:
    found = {}
    for text in filter(None, texts):
        name, _, number = text.partition("=")
        try:
            found[name] = int(number)
        except ValueError:
            raise UsageError(f"invalid priority {text!r}", command, hint="write NAME=NUMBER") from None
    return found
