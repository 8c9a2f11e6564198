"""``opm olm``: install, check and remove OLM itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.cluster import ConnectionFlags
from opmkit.cli.flags.olm import DEFAULT_TIMEOUT, Timeout, parse_timeout
from opmkit.cli.flags.output import Output
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import OutputFormat, format_count, print_json, print_table
from opmkit.cli.output.errors import print_error
from opmkit.cli.output.status_lines import report_status
from opmkit.cli.output.streams import printing_result
from opmkit.cli.parser.declaration import flag
from opmkit.core.errors import OpmkitError

if TYPE_CHECKING:
    from opmkit import OlmState

DEFAULT_NAMESPACE = "olm"
InstalledVersion = Annotated[
    str, typer.Option("--version", metavar="VERSION", help="Installed release; default: detected")
]
From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="SOURCE",
        help="Directory, file, image or URL with crds.yaml and olm.yaml of the release, or - for standard input; "
        "default: download it from GitHub",
    ),
]
OlmNamespace = Annotated[
    str, typer.Option("--olm-namespace", metavar="NAMESPACE", help="Namespace that OLM is installed in")
]


def install(
    *,
    version: str = flag("latest", "Release to download, such as 0.46.0", metavar="VERSION"),
    source: From = "",
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = OutputFormat.TEXT,
    connection_flags: ConnectionFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Install OLM in a cluster, and wait until it runs

    If an installation fails, the next one continues it.

    [bold]Examples:[/]
      opm olm install --version 0.46.0 --timeout 5m
      opm olm install --from ./olm-0.46.0
      kustomize build ./olm | opm olm install --from -
    """
    from opmkit import OlmOptions

    options = OlmOptions(version, source, timeout=parse_timeout(timeout))
    with report_status() as reporter:
        state = registry_flags.opm().install_olm(connection_flags.access(), options, reporter=reporter)
    with printing_result(f"OLM {state.version} installed"):
        _print(state, output)


def status(
    *,
    version: InstalledVersion = "",
    source: From = "",
    olm_namespace: OlmNamespace = DEFAULT_NAMESPACE,
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = OutputFormat.TEXT,
    connection_flags: ConnectionFlags,
    registry_flags: RegistryFlags,
) -> None:
    """List the objects of OLM in a cluster with their state

    The exit code is 1 if an object is missing or not ready.

    [bold]Examples:[/]
      opm olm status
      opm olm status --from ./olm-0.46.0 --output json
    """
    from opmkit import OlmOptions

    options = OlmOptions(version, source, olm_namespace, parse_timeout(timeout))
    with report_status() as reporter:
        state = registry_flags.opm().olm_state(connection_flags.access(), options, reporter=reporter)
    _print(state, output)
    if state.broken:
        count = format_count(len(state.objects), "object")
        print_error(OpmkitError(f"OLM is incomplete: {len(state.broken)} of {count} missing or not ready"))
        raise typer.Exit(1)


def uninstall(
    *,
    version: InstalledVersion = "",
    source: From = "",
    olm_namespace: OlmNamespace = DEFAULT_NAMESPACE,
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = OutputFormat.TEXT,
    connection_flags: ConnectionFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Remove OLM from a cluster, with its CustomResourceDefinitions and all Subscriptions and installed versions

    [bold]Example:[/] opm olm uninstall --timeout 5m
    """
    from opmkit import OlmOptions

    options = OlmOptions(version, source, olm_namespace, parse_timeout(timeout))
    with report_status() as reporter:
        state = registry_flags.opm().uninstall_olm(connection_flags.access(), options, reporter=reporter)
    with printing_result(f"OLM {state.version} removed"):
        _print(state, output)


def _print(state: OlmState, output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        print_json(state.to_dict())
    else:
        rows = [(each.name, each.namespace or "-", each.kind, each.status) for each in state.objects]
        print_table(("NAME", "NAMESPACE", "KIND", "STATUS"), rows)
