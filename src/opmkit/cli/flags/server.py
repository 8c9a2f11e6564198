"""Flags of commands that serve a catalog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.output.errors import UsageError
from opmkit.cli.parser.declaration import flag

if TYPE_CHECKING:
    from opmkit import HttpSettings, ServerSettings

SkipMigrate = Annotated[
    bool, typer.Option("--skip-migrate", help="Serve a database with an older schema without migrating a copy of it")
]
TLS_PANEL = "TLS"
INFINITE = "infinite"
MAX_PORT = 65535
MAX_PROCESSES = 64
_NSSWITCH = Path("/etc/nsswitch.conf")


@dataclass(frozen=True, slots=True)
class ServerFlags:
    """Flags of a catalog server and its logs."""

    port: str = flag("50051", "TCP port; 0 selects a free port, which is logged", "-p", metavar="PORT")
    termination_log: Path = flag(
        Path("/dev/termination-log"), "File to write the reason of a fatal error to", "-t", metavar="FILE"
    )
    processes: str = flag("", "Number of worker processes; default: one per processor, at most 2", metavar="N")
    access_log: bool = flag(False, "Log each call with method, peer, status and duration, as --debug does")
    tls_cert: Path | None = flag(
        None, "PEM file with the certificate chain to serve TLS", panel=TLS_PANEL, metavar="FILE"
    )
    tls_key: Path | None = flag(None, "PEM file with the private key to serve TLS", panel=TLS_PANEL, metavar="FILE")

    def settings(
        self, *, debug: bool = False, timeout: str = INFINITE, http: HttpSettings | None = None
    ) -> ServerSettings:
        """Return the settings of the server; raises UsageError."""
        from opmkit import ServerSettings, TlsFiles

        if (self.tls_cert is None) != (self.tls_key is None):
            raise UsageError("--tls-cert and --tls-key must be used together")
        settings = ServerSettings(
            port=parse_number("--port", self.port, 0, MAX_PORT, example="50051"),
            timeout=None
            if timeout == INFINITE
            else parse_number("--timeout-seconds", timeout, 0, MAX_PORT, example="60"),
            http=http,
            access_log=self.access_log or debug,
            tls=TlsFiles(self.tls_cert, self.tls_key) if self.tls_cert and self.tls_key else None,
        )
        if not self.processes:
            return settings
        return replace(settings, processes=parse_number("--processes", self.processes, 1, MAX_PROCESSES, example="2"))

    @contextmanager
    def logs(self, *, debug: bool = False) -> Iterator[None]:
        """Log in the format of servers, with fatal errors also in the termination log."""
        from opmkit.cli.output.server_logs import server_logs

        with server_logs(self.termination_log, debug=debug):
            _ensure_nsswitch()
            yield


def parse_number(flag: str, value: str, minimum: int, maximum: int, *, example: str) -> int:
    """Return the value of a flag as a number within limits; raises UsageError."""
    if value.isascii() and value.isdigit() and minimum <= int(value[:9]) <= maximum:
        return int(value)
    message = f'invalid argument "{value}" for "{flag}" flag: must be a number from {minimum} to {maximum}'
    raise UsageError(message, hint=f"write a number, such as {flag} {example}")


def _ensure_nsswitch() -> None:
    """Write nsswitch.conf if it does not exist, so that names are resolved from ``/etc/hosts`` first, as in Go opm."""
    with suppress(OSError), _NSSWITCH.open("x") as file:
        file.write("hosts: files dns\n")
