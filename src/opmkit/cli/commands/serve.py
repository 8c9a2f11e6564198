"""``opm serve``: a file-based catalog over gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.errors import UsageProblem
from opmkit.cli.registry_flags import Connection, made_once
from opmkit.cli.server_flags import Serving

CACHE_PANEL = "Cache"


def serve(
    *,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Catalog directory, or index image with one.")],
    cache_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep what is prepared here, from one start to the next.", rich_help_panel=CACHE_PANEL
        ),
    ] = None,
    cache_only: Annotated[
        bool, typer.Option("--cache-only", help="Make the cache, and serve nothing.", rich_help_panel=CACHE_PANEL)
    ] = False,
    cache_enforce_integrity: Annotated[
        bool | None,
        typer.Option(
            "--cache-enforce-integrity/--no-cache-enforce-integrity",
            help="Fail if the cache does not belong to the catalog; so it is with --cache-dir, unless --cache-only.",
            rich_help_panel=CACHE_PANEL,
        ),
    ] = None,
    pprof_addr: Annotated[str, typer.Option(metavar="ADDRESS", help="Taken for the Go tool's sake.", hidden=True)] = "",
    pprof_capture_profiles: Annotated[bool, typer.Option("--pprof-capture-profiles", hidden=True)] = False,
    serving: Serving,
    connection: Connection,
) -> None:
    """Serve a file-based catalog over gRPC, until the command is stopped.

    The catalog is checked and prepared first, which a cache directory spares the next start.

    [bold]Examples:[/]

      opm serve ./catalog

      opm serve ./catalog --cache-dir /tmp/cache --cache-only

      opm serve ./catalog --cache-dir /tmp/cache --port 50051
    """
    from opmkit.index.server.serve import prepare_catalog, serve_catalog

    enforce = cache_enforce_integrity
    if enforce and cache_dir is None:
        raise UsageProblem("--cache-dir must be specified with --cache-enforce-integrity", "opm serve")
    enforce = cache_dir is not None and not cache_only if enforce is None else enforce
    settings = serving.settings(debug=connection.debug)
    with serving.logs(debug=connection.debug), _catalog(source, connection) as root:
        if cache_only:
            prepare_catalog(root, cache_dir, enforce=enforce)
        else:
            serve_catalog(root, settings, cache=cache_dir, enforce=enforce, name=source)


@contextmanager
def _catalog(source: str, connection: Connection) -> Iterator[Path]:
    """The directory with the catalog, for as long as it is needed."""
    if Path(source).is_dir():
        yield Path(source)
        return
    from opmkit.index.image.source import CATALOGS, IndexSource

    catalog = IndexSource.resolve(made_once(connection.tool), source)
    catalog.require(CATALOGS)
    with catalog.open() as content:
        yield content.path
