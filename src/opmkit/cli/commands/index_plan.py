"""``opm index plan``: say what clusters will do with an index."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit import OlmVersion
from opmkit.cli.flags.container_tools import PullTool
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import print_json, print_text
from opmkit.cli.output.errors import UsageError, conflicting_flags
from opmkit.cli.output.plan import (
    extension_as_markdown,
    print_extension,
    print_namespace,
    print_updates,
    updates_as_markdown,
)
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import given_flags
from opmkit.cli.progress.command import waiting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit import ExtensionRequest
    from opmkit.api import Opm

_KINDS = ("stuck", "gone", "unresolvable", "circular", "blocked")


class PlannedOlm(StrEnum):
    """Versions of OLM to plan for."""

    V0 = "v0"
    V1 = "v1"
    BOTH = "both"


class PlanFormat(StrEnum):
    """Output formats of a plan."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def plan(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    catalogs: Annotated[
        list[str], typer.Argument(metavar="[NAME=]INDEX...", help="Index image, catalog directory or database file")
    ],
    *,
    from_: str = flag("", "Published index: plan for each version that it installs", "--from", metavar="PUBLISHED"),
    packages: list[str] | None = flag(
        None, "Packages to plan with --from; default: all", "--package", "-p", metavar="NAME,..."
    ),
    subscribe: list[str] | None = flag(
        None, "Subscriptions of a namespace to plan", metavar="PACKAGE[/CHANNEL][@NAME],..."
    ),
    extension: str = flag("", "ClusterExtension of OLM v1 to plan", metavar="PACKAGE[/CHANNEL,...][@RANGE]"),
    self_certified: bool = flag(False, "With --extension: update without an edge"),
    installed: list[str] | None = flag(
        None, "Installed bundles; with --extension also as BUNDLE=VERSION", metavar="BUNDLE,..."
    ),
    priority: list[str] | None = flag(None, "Priorities of catalogs; default: 0", metavar="NAME=NUMBER,..."),
    olm: PlannedOlm = flag(PlannedOlm.V0, "With --from: the OLM of the clusters"),
    output: PlanFormat = flag(PlanFormat.TEXT, "Output format: text, json or markdown", "-o"),
    fail_on: list[str] | None = flag(
        None,
        "Exit with 1 if a version is stuck, gone (its channel is), unresolvable or circular, or the namespace "
        "or ClusterExtension is blocked",
        metavar="KIND,...",
    ),
    container_tool: PullTool = "none",
) -> None:
    """Say what clusters will do with an index, without a cluster

    With --from, for each version that the published index can have left installed: the versions that OLM installs in
    turn, and if they do not end at the head of the channel, why, and the smallest change that helps.

    With --subscribe, what OLM v0 installs in a namespace, or why one Subscription blocks all of them. With
    --extension, what OLM v1 installs for a ClusterExtension, or why it installs nothing.

    The exit code is 0 unless --fail-on selects something, or an index cannot be read.

    [bold]Examples:[/]
      opm index plan ./catalog --from quay.io/me/catalog:1
      opm index plan ./catalog --from quay.io/me/catalog:1 --package lagoon-operator --fail-on stuck,gone
      opm index plan ./catalog --subscribe lagoon-operator/alpha --installed lagoon-operator.v0.1.0
      opm index plan ./catalog --from quay.io/me/catalog:1 --olm v1
      opm index plan ./catalog --extension "lagoon-operator/alpha@<1" --installed lagoon-operator.v0.1.0
      opm index plan mine=./catalog other=quay.io/me/prod:1 --priority other=10 --subscribe lagoon-operator@mine
    """
    kinds = [kind for kind in fail_on or () if kind]
    if unknown := next((kind for kind in kinds if kind not in _KINDS), None):
        raise UsageError(
            f"unknown kind {unknown!r} of --fail-on", ctx.command_path, hint=f"use some of {', '.join(_KINDS)}"
        )
    _check_flags(ctx)
    opm = registry_flags.opm(container_tool)
    if from_:
        failed = _plan_updates(ctx, opm, catalogs, from_, packages or (), olm, output, kinds)
    elif extension:
        indexes, priorities = _parse_catalogs(catalogs, ctx.command_path), _parse_priorities(priority, ctx.command_path)
        request = _parse_extension(extension, installed or (), self_certified=self_certified, command=ctx.command_path)
        failed = _plan_extension(opm, indexes, request, priorities, output, kinds)
    else:
        failed = _plan_namespace(ctx, opm, catalogs, (subscribe or (), installed or (), priority), output, kinds)
    if failed:
        ctx.exit(1)


_FLAGS = {
    "from": ("package", "olm"),
    "extension": ("installed", "priority", "self-certified"),
    "subscribe": ("installed", "priority"),
}
"""Flags that say what to plan, one of which is given, and the further flags of each."""


def _check_flags(ctx: typer.Context) -> None:
    """Raise UsageError if what to plan is missing or ambiguous, or a flag does not belong to it."""
    given = given_flags(ctx)
    found = [name for name in _FLAGS if name in given] or ["subscribe"] * ("installed" in given)
    if not found:
        raise UsageError("none of --from, --subscribe, --extension and --installed is given", ctx.command_path)
    if len(found) > 1:
        raise conflicting_flags(f"--{found[0]}", f"--{found[1]}", ctx.command_path)
    others = {flag for flags in _FLAGS.values() for flag in flags} - set(_FLAGS[found[0]])
    if wrong := sorted(others & given):
        raise conflicting_flags(f"--{found[0]}", f"--{wrong[0]}", ctx.command_path)


def _plan_updates(
    ctx: typer.Context,
    opm: Opm,
    catalogs: Sequence[str],
    published: str,
    packages: Sequence[str],
    olm: PlannedOlm,
    output: PlanFormat,
    kinds: Sequence[str],
) -> bool:
    """Print where installed versions get; return whether one of the kinds is found."""
    if len(catalogs) > 1:
        raise UsageError("--from takes one index", ctx.command_path)
    with waiting("Planning updates"):
        versions = tuple(OlmVersion) if olm is PlannedOlm.BOTH else (OlmVersion(olm.value),)
        found = opm.plan_updates(catalogs[0], published, packages, olm=versions)
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
    state: tuple[Sequence[str], Sequence[str], Sequence[str] | None],
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


def _plan_extension(
    opm: Opm,
    catalogs: Mapping[str, str],
    request: ExtensionRequest,
    priorities: Mapping[str, int],
    output: PlanFormat,
    kinds: Sequence[str],
) -> bool:
    """Print what OLM v1 installs for a ClusterExtension; return whether one of the kinds is found."""
    with waiting("Planning a ClusterExtension"):
        found = opm.plan_extension(catalogs, request, priorities=priorities)
    if output is PlanFormat.JSON:
        print_json(found.to_dict())
    elif output is PlanFormat.MARKDOWN:
        print_text(extension_as_markdown(found))
    else:
        print_extension(found)
    return found.is_blocked and "blocked" in kinds


def _parse_extension(text: str, installed: Sequence[str], *, self_certified: bool, command: str) -> ExtensionRequest:
    from opmkit import ExtensionRequest, InstalledBundle

    bundles = list(filter(None, installed))
    if len(bundles) > 1:
        raise UsageError("--extension takes one installed bundle", command)
    name, _, version = bundles[0].partition("=") if bundles else ("", "", "")
    request = ExtensionRequest.parse(text)
    return replace(request, self_certified=self_certified, installed=InstalledBundle(name, version) if name else None)


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


def _parse_priorities(texts: Sequence[str] | None, command: str) -> dict[str, int]:
    found = {}
    for text in filter(None, texts or ()):
        name, _, number = text.partition("=")
        try:
            found[name] = int(number)
        except ValueError:
            raise UsageError(f"invalid priority {text!r}", command, hint="write NAME=NUMBER") from None
    return found
