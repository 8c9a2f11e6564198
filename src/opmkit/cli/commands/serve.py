"""``opm serve``: serve a file-based catalog over gRPC."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.server import MAX_PORT, ServerFlags, parse_number
from opmkit.cli.output.errors import UsageError
from opmkit.cli.parser.declaration import flag
from opmkit.cli.progress.command import waiting

if TYPE_CHECKING:
    from opmkit import HttpSettings

CACHE_PANEL = "Cache"
HTTP_PANEL = "HTTP"


def serve(
    *,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Catalog directory, or index image with a file-based catalog")
    ],
    cache_dir: Path | None = flag(
        None, "Directory of the cache, which later starts reuse", panel=CACHE_PANEL, metavar="DIR"
    ),
    cache_only: bool = flag(False, "Build the cache and exit", panel=CACHE_PANEL),
    cache_enforce_integrity: bool | None = flag(
        None,
        "Fail if the cache is outdated; default: true with --cache-dir and without --cache-only",
        "--cache-enforce-integrity/--no-cache-enforce-integrity",
        panel=CACHE_PANEL,
    ),
    http_port: str = flag(
        "", "Port of OLM v1's web API (catalogd); 0 selects a free one", panel=HTTP_PANEL, metavar="PORT"
    ),
    http_catalog: str = flag(
        "", "Name of the catalog in URLs of the web API; default: any name", panel=HTTP_PANEL, metavar="NAME"
    ),
    pprof_addr: str = flag("", "", metavar="ADDRESS"),
    pprof_capture_profiles: bool = flag(False, ""),
    server_flags: ServerFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Serve a file-based catalog over gRPC

    The catalog is first validated and cached; with --cache-dir, later starts reuse the cache.

    [bold]Examples:[/]
      opm serve ./catalog
      opm serve ./catalog --cache-dir /tmp/cache --cache-only
      opm serve ./catalog --cache-dir /tmp/cache --port 50051
      opm serve ./catalog --http-port 8080
      opm serve ./catalog --http-port 8080 --cache-dir /tmp/cache --cache-only
    """
    from opmkit import Opm

    enforce = cache_enforce_integrity
    if enforce and cache_dir is None:
        raise UsageError("--cache-dir must be specified with --cache-enforce-integrity", "opm serve")
    enforce = cache_dir is not None and not cache_only if enforce is None else enforce
    http = _http_settings(http_port, http_catalog)
    settings = server_flags.settings(debug=registry_flags.debug, http=http)
    with server_flags.logs(debug=registry_flags.debug):
        opm = Opm() if Path(source).is_dir() else registry_flags.opm()
        if cache_only:
            loading, has_http = waiting("Building the cache"), http is not None
            opm.build_catalog_cache(source, cache_dir, enforce=enforce, http=has_http, loading=loading)
        else:
            loading = waiting(f"Loading {source}")
            opm.serve_catalog(source, settings, cache=cache_dir, enforce=enforce, loading=loading)


def _http_settings(port: str, catalog: str) -> HttpSettings | None:
    if not port and not catalog:
        return None
    from opmkit import HttpSettings

    if not port:
        raise UsageError("--http-port must be specified with --http-catalog", "opm serve")
    settings = HttpSettings(parse_number("--http-port", port, 0, MAX_PORT, example="8080"), catalog)
    if not settings.has_valid_name:
        raise UsageError("--http-catalog must be a DNS subdomain in lower case, such as my-catalog", "opm serve")
    return settings
