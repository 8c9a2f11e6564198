"""The companion programs: small commands of their own beside ``opm``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.go_commands import require_flags
from opmkit.cli.index_flags import Database, Permissive, Told, tell_changed
from opmkit.cli.main import run_app
from opmkit.cli.registration import command
from opmkit.cli.server_flags import Serving, SkipMigrate
from opmkit.imagetools import interrupts

if TYPE_CHECKING:
    from opmkit.bundle.config_map import ConfigMap

USAGE_STATUS = 2
"""What the Go companions exit with for a wrong command line."""

_log = logging.getLogger(__name__)


def _initialize(
    manifests: Annotated[
        Path, typer.Option("--manifests", "-m", metavar="DIR", help="Directory of package or bundle directories.")
    ] = Path("manifests"),
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Database file to make.")] = Path(
        "bundles.db"
    ),
    permissive: Permissive = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be in it; make no file.")] = False,
    debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False,
) -> None:
    """Make an index database from directories of package manifests or bundles.

    [bold]Example:[/] initializer --manifests deploy/olm-catalog --output bundles.db
    """
    from opmkit.index.operations.change import change_database
    from opmkit.index.operations.initialize.directory import InitializeDatabase

    change = InitializeDatabase(manifests, permissive)
    result = change_database(output, change.apply_to_database, dry_run=dry_run)
    tell_changed(result, Told(dry_run=dry_run))


def _serve(
    database: Database = Path("bundles.db"),
    skip_migrate: SkipMigrate = False,
    *,
    serving: Serving,
    debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False,
) -> None:
    """Serve an index database over gRPC, until the program is stopped.

    [bold]Example:[/] registry-server --database bundles.db --port 50051
    """
    from opmkit.index.server.serve import serve_database

    settings = serving.settings(debug=debug)
    with serving.logs(debug=debug):
        serve_database(database, settings, migrate=not skip_migrate)


def _serve_config_map(
    ctx: typer.Context,
    *,
    config_map_name: Annotated[
        str, typer.Option("--configMapName", "-c", metavar="NAME", help="Name of the ConfigMap (required).")
    ] = "",
    config_map_namespace: Annotated[
        str, typer.Option("--configMapNamespace", "-n", metavar="NAMESPACE", help="Its namespace (required).")
    ] = "",
    kubeconfig: Annotated[
        str, typer.Option("--kubeconfig", "-k", metavar="FILE", help="Kubeconfig; default: the cluster of this pod.")
    ] = "",
    database: Annotated[
        Path, typer.Option("--database", "-d", metavar="FILE", help="Database file to make, and to serve.")
    ] = Path("bundles.db"),
    permissive: Annotated[
        bool, typer.Option("--permissive", help="Serve what can be read; report the rest as warnings.")
    ] = False,
    serving: Serving,
    debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False,
) -> None:
    """Make an index database of the manifests in a ConfigMap, and serve it over gRPC, until the program is stopped.

    [bold]Example:[/] configmap-server --configMapName catalog --configMapNamespace olm --database /tmp/bundles.db
    """
    from opmkit.index.operations.initialize.config_map import write_config_map_database
    from opmkit.index.server.serve import serve_database

    require_flags(ctx, "configMapName", "configMapNamespace")
    settings = serving.settings(debug=debug)
    with serving.logs(debug=debug):
        found = _read_config_map(kubeconfig, config_map_namespace, config_map_name)
        name = f"{config_map_namespace}/{config_map_name}"
        result = write_config_map_database(database, found.data, name, permissive=permissive)
        for failure in result.failures:
            _log.warning("permissive mode enabled", extra={"fields": {"error": failure.message}})
        serve_database(database, settings)


def _read_config_map(kubeconfig: str, namespace: str, name: str) -> ConfigMap:
    """Read the ConfigMap in a process of its own, for the client of clusters takes more memory than the server."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(1, mp_context=get_context("fork"), initializer=interrupts.restore_defaults) as process:
        return process.submit(read_config_map, kubeconfig, namespace, name).result()


def read_config_map(kubeconfig: str, namespace: str, name: str) -> ConfigMap:
    """The ConfigMap of a cluster; raises BundleError."""
    from opmkit.bundle.cluster import Cluster, ClusterError
    from opmkit.bundle.errors import BundleError

    try:
        return Cluster.connect(kubeconfig).read(namespace, name)
    except ClusterError as error:  # which only who loads the client can be handed
        raise BundleError(f"error getting configmap: {error.message}", hint=error.hint) from None


def run_initializer(arguments: list[str]) -> int:
    """Run one command line of ``initializer``, and give its exit status."""
    return _run("initializer", _initialize, arguments)


def run_registry_server(arguments: list[str]) -> int:
    """Run one command line of ``registry-server``, and give its exit status."""
    return _run("registry-server", _serve, arguments)


def run_configmap_server(arguments: list[str]) -> int:
    """Run one command line of ``configmap-server``, and give its exit status."""
    return _run("configmap-server", _serve_config_map, arguments)


def _run(name: str, function: Callable[..., None], arguments: list[str]) -> int:
    app = typer.Typer(add_completion=False)
    command(app, name, function)
    return run_app(app, name, arguments, usage_status=USAGE_STATUS)
