"""``grpc_health_probe``: the health check that catalog pods run against their own server.

It has the flags and exit codes of the program of the same name in images built with Go opm: 1 for an invalid command
line, 2 for a failed connection, 3 for a failed call, 4 for a status other than SERVING.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn

INVALID_FLAGS, CONNECTION_FAILED, CALL_FAILED, UNHEALTHY = 1, 2, 3, 4
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}


def main() -> NoReturn:
    """Run the program."""
    sys.exit(probe(sys.argv[1:]))


def probe(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        flags = _parser().parse_args(arguments)
    except SystemExit as end:
        return INVALID_FLAGS if end.code else 0
    from opmkit import CatalogClient, ServerUnreachable
    from opmkit.cli.output.console import print_line
    from opmkit.cli.output.errors import print_to_stderr
    from opmkit.core.errors import OpmkitError

    try:
        address = f"localhost{flags.addr}" if flags.addr.startswith(":") else flags.addr
        timeout = flags.connect_timeout + flags.rpc_timeout
        with CatalogClient.connect(address, timeout=timeout, tls=flags.tls, ca_file=flags.tls_ca_cert) as client:
            healthy = client.is_healthy(flags.service)
    except (OpmkitError, OSError) as error:
        print_to_stderr(f"error: {error}")
        return CONNECTION_FAILED if isinstance(error, ServerUnreachable | OSError) else CALL_FAILED
    print_line(f"status: {'SERVING' if healthy else 'NOT_SERVING'}")
    return 0 if healthy else UNHEALTHY


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("grpc_health_probe", description="Check the health of a gRPC server")

    def flag(name: str, **settings: object) -> None:
        parser.add_argument(f"-{name}", f"--{name}", **settings)  # type: ignore[arg-type]

    flag("addr", required=True, metavar="HOST:PORT", help="Address of the server; the default HOST is localhost")
    flag("service", default="", help="Name of the service to check")
    flag("connect-timeout", type=_seconds, default=1.0, metavar="1s", help="Timeout of the connection")
    flag("rpc-timeout", type=_seconds, default=1.0, metavar="1s", help="Timeout of the call")
    flag("tls", action="store_true", help="Use TLS")
    flag(
        "tls-ca-cert",
        type=Path,
        metavar="FILE",
        help="PEM file of certificate authorities to trust instead of the system's",
    )
    return parser


def _seconds(text: str) -> float:
    """Parse a Go duration with one unit, such as ``500ms``, ``5s`` or ``1m``."""
    number = text.rstrip("ms")
    return float(number) * _UNITS[text[len(number) :]]
