"""``grpc_health_probe``: what catalog pods run to ask their own server whether it is well.

It has the flags and exit codes of the program of that name that images of the Go tool hold: 1 for a wrong command
line, 2 where no connection comes about, 3 where the call fails, 4 for an answer other than SERVING.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn

WRONG_FLAGS, NO_CONNECTION, CALL_FAILED, UNHEALTHY = 1, 2, 3, 4
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}


def main() -> NoReturn:
    """Run the program."""
    sys.exit(probe(sys.argv[1:]))


def probe(arguments: list[str]) -> int:
    """Run one command line, and give its exit status."""
    try:
        flags = _parser().parse_args(arguments)
    except SystemExit as end:
        return WRONG_FLAGS if end.code else 0
    from opmkit.cli.console import print_line
    from opmkit.cli.errors import print_to_stderr
    from opmkit.imagetools.errors import OpmkitError
    from opmkit.index.client import CatalogClient, ServerUnreachable

    try:
        address = f"localhost{flags.addr}" if flags.addr.startswith(":") else flags.addr
        timeout = flags.connect_timeout + flags.rpc_timeout
        with CatalogClient.connect(address, timeout=timeout, tls=flags.tls, ca_file=flags.tls_ca_cert) as client:
            healthy = client.is_healthy(flags.service)
    except (OpmkitError, OSError) as error:
        print_to_stderr(f"error: {error}")
        return NO_CONNECTION if isinstance(error, ServerUnreachable | OSError) else CALL_FAILED
    print_line(f"status: {'SERVING' if healthy else 'NOT_SERVING'}")
    return 0 if healthy else UNHEALTHY


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("grpc_health_probe", description="Ask a gRPC server whether it is well.")

    def flag(name: str, **settings: object) -> None:
        parser.add_argument(f"-{name}", f"--{name}", **settings)  # type: ignore[arg-type]

    flag("addr", required=True, metavar="HOST:PORT", help="Where the server is; without HOST it is this machine.")
    flag("service", default="", help="The service to ask about.")
    flag("connect-timeout", type=_seconds, default=1.0, metavar="1s", help="How long a connection may take.")
    flag("rpc-timeout", type=_seconds, default=1.0, metavar="1s", help="How long the answer may take.")
    flag("tls", action="store_true", help="Speak TLS.")
    flag(
        "tls-ca-cert", type=Path, metavar="FILE", help="PEM file of the authorities to trust, in place of the system's."
    )
    return parser


def _seconds(text: str) -> float:
    """A duration as Go writes it, of one unit: ``500ms``, ``5s``, ``1m``."""
    number = text.rstrip("ms")
    return float(number) * _UNITS[text[len(number) :]]
