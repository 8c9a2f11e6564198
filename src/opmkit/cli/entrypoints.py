"""The programs registry-server, initializer and configmap-server."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from opmkit.cli.flags.index import Database, Permissive
from opmkit.cli.flags.server import ServerFlags, SkipMigrate
from opmkit.cli.flags.target import OutputFlags
from opmkit.cli.main import run_app
from opmkit.cli.output.index import print_database_change
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import require_flags
from opmkit.cli.parser.registration import add_command
from opmkit.core import interrupts

if TYPE_CHECKING:
    from opmkit.bundle.config_map import ConfigMap

USAGE_ERROR_CODE = 2
"""Exit code of the Go programs for an invalid command line."""

_log = logging.getLogger(__name__)


def _initialize(
    manifests: Path = flag(Path("manifests"), "Directory of package or bundle directories", "-m", metavar="DIR"),
    output: Path = flag(Path("bundles.db"), "Database file to create or change", "-o", metavar="FILE"),
    permissive: Permissive = False,
    dry_run: bool = flag(False, "Show what would change without changing it"),
    debug: bool = flag(False, ""),
) -> None:
    """Create an index database from directories of package manifests or bundles

    [bold]Example:[/] initializer --manifests deploy/olm-catalog --output bundles.db
    """
    from opmkit import Opm

    result = Opm().initialize_database(manifests, output, permissive=permissive, dry_run=dry_run)
    print_database_change(result, OutputFlags(dry_run=dry_run))


def _serve(
    database: Database = Path("bundles.db"),
    skip_migrate: SkipMigrate = False,
    *,
    server_flags: ServerFlags,
    debug: bool = flag(False, ""),
) -> None:
    """Serve an index database over gRPC

    [bold]Example:[/] registry-server --database bundles.db --port 50051
    """
    from opmkit import Opm

    settings = server_flags.settings(debug=debug)
    with server_flags.logs(debug=debug):
        Opm().serve_database(database, settings, migrate=not skip_migrate)


def _serve_config_map(
    ctx: typer.Context,
    *,
    config_map_name: str = flag("", "Name of the ConfigMap (required)", "--configMapName", "-c", metavar="NAME"),
    config_map_namespace: str = flag(
        "", "Namespace of the ConfigMap (required)", "--configMapNamespace", "-n", metavar="NAMESPACE"
    ),
    kubeconfig: str = flag("", "Kubeconfig file; default: the service account of the pod", "-k", metavar="FILE"),
    database: Path = flag(Path("bundles.db"), "Database file to create and serve", "-d", metavar="FILE"),
    permissive: bool = flag(False, "Report manifests that cannot be loaded as warnings"),
    server_flags: ServerFlags,
    debug: bool = flag(False, ""),
) -> None:
    """Create an index database from the manifests in a ConfigMap and serve it over gRPC

    [bold]Example:[/] configmap-server --configMapName catalog --configMapNamespace olm --database /tmp/bundles.db
    """
    from opmkit import Opm
    from opmkit.index.operations.initialize.loader import write_config_map_database

    require_flags(ctx, "configMapName", "configMapNamespace")
    settings = server_flags.settings(debug=debug)
    with server_flags.logs(debug=debug):
        config_map = _read_in_subprocess(kubeconfig, config_map_namespace, config_map_name)
        name = f"{config_map_namespace}/{config_map_name}"
        result = write_config_map_database(database, config_map.data, name, permissive=permissive)
        for failure in result.failures:
            _log.warning("permissive mode enabled", extra={"fields": {"error": failure.message}})
        Opm().serve_database(database, settings)


def _read_in_subprocess(kubeconfig: str, namespace: str, name: str) -> ConfigMap:
    """Read a ConfigMap in a subprocess, since the Kubernetes client uses more memory than the server."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(1, mp_context=get_context("fork"), initializer=interrupts.restore_defaults) as process:
        return process.submit(read_config_map, kubeconfig, namespace, name).result()


def read_config_map(kubeconfig: str, namespace: str, name: str) -> ConfigMap:
    """Read a ConfigMap of a cluster; raises BundleError."""
    from opmkit import BundleError
    from opmkit.bundle.config_map import read_config_map as read
    from opmkit.kube.cluster import Cluster
    from opmkit.kube.errors import ClusterError

    try:
        return read(Cluster.connect(kubeconfig) if kubeconfig else Cluster.of_this_pod(), namespace, name)
    except ClusterError as error:
        raise BundleError(f"error getting configmap: {error.message}", hint=error.hint) from None


def run_initializer(arguments: list[str]) -> int:
    """Run one command line of ``initializer`` and return its exit code."""
    return _run("initializer", arguments)


def run_registry_server(arguments: list[str]) -> int:
    """Run one command line of ``registry-server`` and return its exit code."""
    return _run("registry-server", arguments)


def run_configmap_server(arguments: list[str]) -> int:
    """Run one command line of ``configmap-server`` and return its exit code."""
    return _run("configmap-server", arguments)


def build_program(name: str) -> typer.Typer:
    """Return the program ``name`` as a tree of one command."""
    app = typer.Typer(add_completion=False)
    add_command(app, name, PROGRAMS[name])
    return app


def _run(name: str, arguments: list[str]) -> int:
    return run_app(build_program(name), name, arguments, usage_error_code=USAGE_ERROR_CODE)


PROGRAMS: dict[str, Callable[..., None]] = {
    "initializer": _initialize,
    "registry-server": _serve,
    "configmap-server": _serve_config_map,
}
"""Functions of the programs by name."""
