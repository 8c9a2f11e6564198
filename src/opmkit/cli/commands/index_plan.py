"""``opm index plan``: say what clusters will do with an index."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from opmkit import OlmVersion
from opmkit.cli.flags.cluster import ConnectionFlags
from opmkit.cli.flags.container_tools import PullTool
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.help.panels import ADVANCED_PANEL
from opmkit.cli.output.errors import UsageError, announce_standard_input, conflicting_flags
from opmkit.cli.output.plan import PlanFormat, print_plan
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import given_flags
from opmkit.cli.progress.command import progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit import ExtensionRequest, NamespaceRequest
    from opmkit.cli.output.plan import AnyPlan

_PERMISSIONS = "permissions"
_KINDS = ("stuck", "gone", "unresolvable", "circular", "crd", _PERMISSIONS, "blocked", "unsupported")
_PLATFORM = re.compile(r"v?[0-9]+\.[0-9]+=")


@dataclass(frozen=True, slots=True)
class PlanConnectionFlags(ConnectionFlags):
    """Flags for a cluster to plan, instead of --cluster."""

    panel: ClassVar[str] = ADVANCED_PANEL


class PlannedOlm(StrEnum):
    """Versions of OLM to plan for."""

    V0 = "v0"
    V1 = "v1"
    BOTH = "both"


def plan(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    connection_flags: PlanConnectionFlags,
    catalogs: Annotated[
        list[str], typer.Argument(metavar="[NAME=]INDEX...", help="Index image, catalog directory or database file")
    ],
    *,
    from_: str = flag("", "Published index: plan for each of its versions", "--from", metavar="PUBLISHED"),
    packages: list[str] | None = flag(
        None, "Packages to plan with --from; default: all", "--package", "-p", metavar="NAME,..."
    ),
    subscribe: list[str] | None = flag(
        None, "Subscriptions of a namespace to plan", metavar="PACKAGE[/CHANNEL][@NAME],..."
    ),
    extension: str = flag("", "ClusterExtension of OLM v1 to plan", metavar="PACKAGE[/CHANNEL,...][@RANGE]"),
    self_certified: bool = flag(False, "With --extension: update without an edge", panel=ADVANCED_PANEL),
    installed: list[str] | None = flag(
        None, "Installed bundles; VERSION if no index has it", metavar="BUNDLE[=VERSION],..."
    ),
    priority: list[str] | None = flag(
        None, "Priorities of catalogs; default: 0", panel=ADVANCED_PANEL, metavar="NAME=NUMBER,..."
    ),
    cluster: str = flag("", "Output of 'kubectl get csv,sub,catsrc,og -A -o json'", metavar="FILE|-"),
    olm: PlannedOlm = flag(PlannedOlm.V0, "With --from: the OLM of the clusters"),
    output: PlanFormat = flag(PlanFormat.TEXT, "Output format: text, json, markdown or junit", "-o"),
    fail_on: list[str] | None = flag(
        None,
        "Exit with 1 for versions that are stuck, gone (their channel is), unresolvable or circular, crd (updates "
        "refused for a CRD), permissions (new dangerous ones), blocked or unsupported",
        metavar="KIND,...",
    ),
    all_paths: bool = flag(False, "With --from: list all versions", "--all"),
    permissions: bool = flag(
        False, "With --from: list the dangerous permissions that operators gain by each update", panel=ADVANCED_PANEL
    ),
    pull_bundles: bool = flag(
        False,
        "Read missing CRDs and permissions, and with OpenShift versions the label com.redhat.openshift.versions, from "
        "bundle images",
        panel=ADVANCED_PANEL,
    ),
    container_tool: PullTool = "none",
) -> None:
    """Say what clusters will do with an index, without a cluster

    With --from, which versions of the published index OLM does not update to the head of their channel, why, and the
    smallest change that helps; with --all, what it installs after each version.

    With --subscribe, what OLM v0 installs in a namespace, or what blocks it; with --cluster or --context, in each
    namespace of a cluster; with --extension, what OLM v1 installs. With indexes of several OpenShift versions
    (v4.18=INDEX v4.19=INDEX), what operators need on the way.

    The plans are those of OLM v0 0.38 to 0.46 and v1 1.11. The exit code is 0 unless --fail-on selects something, or an
    index cannot be read.

    [bold]Examples:[/]
      opm index plan ./catalog --from quay.io/me/catalog:1
      opm index plan ./catalog --from quay.io/me/catalog:1 --package lagoon-operator --fail-on stuck,gone
      opm index plan ./catalog --subscribe lagoon-operator/alpha --installed lagoon-operator.v0.1.0
      opm index plan ./catalog --from quay.io/me/catalog:1 --olm v1
      opm index plan ./catalog --extension "lagoon-operator/alpha@<1" --installed lagoon-operator.v0.1.0
      opm index plan v4.18=quay.io/me/catalog:1 v4.19=quay.io/me/prod:1 --installed lagoon-operator.v0.1.0
      opm index plan operatorhubio-catalog=./catalog --context kind-kind
      opm index plan mine=./catalog other=quay.io/me/prod:1 --priority other=10 --subscribe lagoon-operator@mine
    """
    kinds = [kind for kind in fail_on or () if kind]
    if unknown := next((kind for kind in kinds if kind not in _KINDS), None):
        raise UsageError(
            f"unknown kind {unknown!r} of --fail-on", ctx.command_path, hint=f"use some of {', '.join(_KINDS)}"
        )
    _check_flags(ctx)
    if cluster == "-":
        announce_standard_input()
    opm, command = registry_flags.opm(container_tool), ctx.command_path
    with progress("Planning") as bars:
        found: AnyPlan
        if from_:
            if len(catalogs) > 1:
                raise UsageError("--from takes one index", command)
            versions = tuple(OlmVersion) if olm is PlannedOlm.BOTH else (OlmVersion(olm.value),)
            found = opm.plan_updates(
                catalogs[0],
                from_,
                packages or (),
                olm=versions,
                permissions=permissions or _PERMISSIONS in kinds,
                pull_bundles=pull_bundles,
                progress=bars,
            )
        elif cluster or connection_flags.is_given:
            replacements = _parse_replacements(catalogs, command)
            source = Path("/dev/stdin" if cluster == "-" else cluster) if cluster else connection_flags.access()
            found = opm.plan_cluster(opm.read_cluster(source), replacements)
        elif extension:
            request = _parse_extension(extension, installed or (), self_certified=self_certified, command=command)
            priorities = _parse_priorities(priority, command)
            found = opm.plan_extension(_parse_catalogs(catalogs, command), request, priorities=priorities)
        elif len(catalogs) > 1 and all(map(_PLATFORM.match, catalogs)):
            channels = _parse_channels(subscribe or (), command)
            bundles = list(filter(None, installed or ()))
            found = opm.plan_platforms(
                _parse_catalogs(catalogs, command), bundles, channels=channels, pull_bundles=pull_bundles
            )
        else:
            if pull_bundles:
                raise UsageError("--pull-bundles requires --from or indexes of several OpenShift versions", command)
            namespace = _parse_namespace(subscribe, installed, _parse_priorities(priority, command))
            found = opm.plan_namespace(_parse_catalogs(catalogs, command), namespace)
    print_plan(found, output, kinds, all_paths=all_paths)
    if found.fails(kinds):
        ctx.exit(1)


_FLAGS = {
    "from": ("package", "olm", "all", "permissions", "pull-bundles"),
    "cluster": ("kubeconfig", "context"),
    "extension": ("installed", "priority", "self-certified"),
    "subscribe": ("installed", "priority", "pull-bundles"),
}
"""Flags that say what to plan, one of which is given, and the further flags of each."""


def _check_flags(ctx: typer.Context) -> None:
    """Raise UsageError if what to plan is missing or ambiguous, or a flag does not belong to it."""
    given = given_flags(ctx)
    found = [name for name in _FLAGS if name in given]
    found = found or ["subscribe"] * ("installed" in given) or ["cluster"] * bool(given & set(_FLAGS["cluster"]))
    if not found:
        raise UsageError(
            "nothing to plan is given",
            ctx.command_path,
            hint="pass --from for the updates of installed versions, --subscribe or --installed for a namespace, "
            "--extension for a ClusterExtension, or --cluster or --context for a cluster",
        )
    if len(found) > 1:
        raise conflicting_flags(f"--{found[0]}", f"--{found[1]}", ctx.command_path)
    others = {flag for flags in _FLAGS.values() for flag in flags} - set(_FLAGS[found[0]])
    if wrong := sorted(others & given):
        raise conflicting_flags(f"--{found[0]}", f"--{wrong[0]}", ctx.command_path)


def _parse_namespace(
    subscribe: Sequence[str] | None, installed: Sequence[str] | None, priorities: Mapping[str, int]
) -> NamespaceRequest:
    from opmkit import ChannelRequest, NamespaceRequest

    subscriptions = tuple(map(ChannelRequest.parse, filter(None, subscribe or ())))
    return NamespaceRequest(subscriptions, tuple(filter(None, installed or ())), priorities)


def _parse_channels(subscribe: Sequence[str], command: str) -> dict[str, str]:
    """Return the channels of ``PACKAGE/CHANNEL`` by package."""
    channels = {}
    for text in filter(None, subscribe):
        package, _, channel = text.partition("/")
        if not package or not channel or "@" in text:
            raise UsageError(f"invalid channel {text!r}", command, hint="write PACKAGE/CHANNEL")
        channels[package] = channel
    return channels


def _parse_replacements(arguments: Sequence[str], command: str) -> dict[str, str]:
    """Return indexes by the names of the CatalogSources that they replace."""
    found = {}
    for argument in arguments:
        name, separator, index = argument.partition("=")
        if not separator or ":" in name or name.count("/") > 1:
            raise UsageError(
                f"{argument}: no CatalogSource is named", command, hint=f"name the one to replace: NAME={argument}"
            )
        found[name] = index
    return found


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
