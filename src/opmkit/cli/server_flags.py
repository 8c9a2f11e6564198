"""The flags of commands that serve a catalog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.errors import UsageProblem

if TYPE_CHECKING:
    from opmkit.index.server.settings import ServerSettings

SkipMigrate = Annotated[
    bool, typer.Option("--skip-migrate", help="Serve a database of an older schema as it is, without migrating a copy.")
]
TLS_PANEL = "Encryption"
INFINITE = "infinite"
_NSSWITCH = Path("/etc/nsswitch.conf")


@dataclass(frozen=True, slots=True)
class Serving:
    """How a catalog is served, and where the reason goes if that fails."""

    port: Annotated[
        str, typer.Option("--port", "-p", metavar="PORT", help="TCP port to serve on; 0 takes a free one and logs it.")
    ] = "50051"
    termination_log: Annotated[
        Path,
        typer.Option("--termination-log", "-t", metavar="FILE", help="File that gets the reason if the server fails."),
    ] = Path("/dev/termination-log")
    processes: Annotated[
        str,
        typer.Option(metavar="N", help="Processes that answer calls; without it one for each processor, at most 2."),
    ] = ""
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log every call: method, caller, status, time; so does --debug.")
    ] = False
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Serve TLS with this certificate chain (PEM).", rich_help_panel=TLS_PANEL),
    ] = None
    tls_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The certificate's private key (PEM).", rich_help_panel=TLS_PANEL),
    ] = None

    def settings(self, *, debug: bool = False, timeout: str = INFINITE) -> ServerSettings:
        """The settings of the server; raises UsageProblem."""
        from opmkit.index.server.settings import ServerSettings, TlsFiles, default_processes

        if (self.tls_cert is None) != (self.tls_key is None):
            raise UsageProblem("--tls-cert and --tls-key belong together")
        return ServerSettings(
            port=_number("--port", self.port),
            processes=_number("--processes", self.processes, 1, 64) if self.processes else default_processes(),
            timeout=None if timeout == INFINITE else _number("--timeout-seconds", timeout),
            access_log=self.access_log or debug,
            tls=TlsFiles(self.tls_cert, self.tls_key) if self.tls_cert and self.tls_key else None,
        )

    @contextmanager
    def logs(self, *, debug: bool = False) -> Iterator[None]:
        """Log as servers do, with their fatal errors in the termination log, from before anything can fail."""
        from opmkit.cli.server_logs import server_logs

        with server_logs(self.termination_log, debug=debug):
            _ensure_nsswitch()
            yield


def _number(flag: str, value: str, least: int = 0, most: int = 65535) -> int:
    if value.isascii() and value.isdigit() and least <= int(value[:9]) <= most:
        return int(value)
    raise UsageProblem(f'invalid argument "{value}" for "{flag}" flag: must be a number from {least} to {most}')


def _ensure_nsswitch() -> None:
    """Have names looked up in ``/etc/hosts`` first where the image does not say, as the Go servers do."""
    with suppress(OSError), _NSSWITCH.open("x") as file:
        file.write("hosts: files dns\n")
