"""``opm olm``: install, check and remove OLM itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.cluster import ConnectionFlags
from opmkit.cli.flags.olm import DEFAULT_TIMEOUT, Timeout, start_deadline
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import Output, OutputFormat, format_count, print_json, print_table
from opmkit.cli.output.errors import print_error
from opmkit.cli.output.status_lines import report_status
from opmkit.cli.output.streams import printing_result
from opmkit.cli.progress.command import waiting
from opmkit.core.lazy import call_once

if TYPE_CHECKING:
    from opmkit.author.install.release import Release
    from opmkit.author.install.status import ObjectStatus
    from opmkit.kube import Cluster

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
    version: Annotated[
        str, typer.Option("--version", metavar="VERSION", help="Release to download, such as 0.38.0")
    ] = "latest",
    source: From = "",
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = OutputFormat.TEXT,
    connection_flags: ConnectionFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Install OLM in a cluster, and wait until it runs

    If an installation fails, the next one continues it.

    [bold]Examples:[/]

      opm olm install --version 0.38.0 --timeout 5m

      opm olm install --from ./olm-0.38.0

      kustomize build ./olm | opm olm install --from -
    """
    from opmkit.author.install.install import install_release

    deadline, cluster = start_deadline(timeout), connection_flags.connect()
    with waiting("Reading the release of OLM"):
        release = _read(registry_flags, source, version)
    with report_status() as reporter:
        objects = install_release(cluster, release, deadline, reporter)
    with printing_result(f"OLM {release.version} installed"):
        _print(release, objects, output)


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

      opm olm status --from ./olm-0.38.0 --output json
    """
    from opmkit.author.install.status import inspect
    from opmkit.author.run.errors import OlmError, OlmNotInstalled

    start_deadline(timeout)
    cluster = connection_flags.connect()
    with waiting(f"Waiting for {cluster.host}"):
        release = _installed_release(cluster, registry_flags, source, version, olm_namespace)
        objects = inspect(cluster, release)
    if not any(each.exists for each in objects):
        raise OlmNotInstalled(f"OLM is not installed in the cluster {cluster.host}: none of its objects exists")
    _print(release, objects, output)
    broken = [each for each in objects if not each.ready]
    if broken:
        count = format_count(len(objects), "object")
        print_error(OlmError(f"OLM is incomplete: {len(broken)} of {count} missing or not ready"))
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
    from opmkit.author.install.install import uninstall_release

    deadline, cluster = start_deadline(timeout), connection_flags.connect()
    with waiting(f"Waiting for {cluster.host}"):
        release = _installed_release(cluster, registry_flags, source, version, olm_namespace)
    with report_status() as reporter:
        objects = uninstall_release(cluster, release, deadline, reporter)
    with printing_result(f"OLM {release.version} removed"):
        _print(release, objects, output)


def _read(registry_flags: RegistryFlags, source: str, version: str) -> Release:
    """Read a release from its source, or download it."""
    from opmkit.author.install.release import ReleaseReader

    reader = ReleaseReader(registry_flags.options(), call_once(registry_flags.tool))
    return reader.read(source) if source else reader.download(version)


def _installed_release(
    cluster: Cluster, registry_flags: RegistryFlags, source: str, version: str, namespace: str
) -> Release:
    """Return the installed release, or the given one if it cannot be detected; raises OlmError if they differ."""
    from opmkit.author.install.release import tag_of
    from opmkit.author.install.status import find_installed_version
    from opmkit.author.run.errors import OlmError, OlmNotInstalled

    try:
        installed = find_installed_version(cluster, namespace)
    except OlmNotInstalled:
        if not version and not source:
            raise
        installed = ""
    if version and installed and tag_of(version) != tag_of(installed):
        raise OlmError(f"OLM {installed} is installed, not {version}")
    release = _read(registry_flags, source, version or installed)
    if installed and release.version and tag_of(release.version) != tag_of(installed):
        raise OlmError(f"OLM {installed} is installed, but {release.source} contains {release.version}")
    return release


def _print(release: Release, objects: Sequence[ObjectStatus], output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        entries = [
            {
                "name": each.name,
                "namespace": each.namespace,
                "kind": each.kind,
                "apiVersion": each.api_version,
                "status": each.status,
                "ready": each.ready,
            }
            for each in objects
        ]
        print_json({"version": release.version, "namespace": release.namespace, "objects": entries})
    else:
        rows = [(each.name, each.namespace or "-", each.kind, each.status) for each in objects]
        print_table(("NAME", "NAMESPACE", "KIND", "STATUS"), rows, optional=("NAMESPACE",))
