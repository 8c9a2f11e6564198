"""Servers that examples start: started on free ports, and stopped after the examples that call them."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.kit.command_lines import ROOT, resolve, simple_commands
from tests.kit.server import Server, call, channel, fields

if TYPE_CHECKING:
    from tests.kit.example_site import ExampleSite

_SERVERS = ("opm serve", "opm registry serve")
_HTTP_PORT = re.compile(r"(?<=--http-port )\d+")
_SERVICE = re.compile(r"python (examples/service/\w+\.py) 8080")
_CLIENT = re.compile(r"opm catalog (?!.* --address )")


def is_server(line: str) -> bool:
    """Return whether a command line starts a server, and therefore does not end."""
    words = simple_commands(line)[0]
    if words[0] != "opm":
        return _SERVICE.fullmatch(line) is not None
    return resolve(words)[1] in _SERVERS and not {"--cache-only", "--help", "--help-all"} & set(words)


@dataclass(frozen=True)
class ExampleServer:
    """A running server, and the addresses that take the places of the documented ones."""

    process: subprocess.Popen[str]
    addresses: dict[str, str]
    server: Server | None = None

    @classmethod
    def start(cls, site: ExampleSite, line: str) -> ExampleServer:
        """Start a server and call it once."""
        if service := _SERVICE.fullmatch(line):
            return cls._start_service(service[1])
        words = shlex.split(_HTTP_PORT.sub("0", site.local(line)))
        variables = [f"{name}={value}" for name, value in site.env.items()]
        server = Server(program=["env", "-C", str(site.directory), *variables, *words])
        server.__enter__()
        with channel(server.address) as connection:
            call(connection, "ListPackages")
        (record,) = (fields(line) for line in server.out if "serving registry" in line)
        addresses = {"localhost:50051": server.address, "localhost:8080": f"127.0.0.1:{record.get('http_port', 0)}"}
        return cls(server.process, addresses, server)

    @classmethod
    def _start_service(cls, program: str) -> ExampleServer:
        argv = [sys.executable, "-u", str(ROOT / program), "0"]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        return cls(process, {"127.0.0.1:8080": process.stdout.readline().split("/")[2]})

    def translate(self, line: str) -> str:
        """Return a command line of a client with the addresses of this server."""
        if _CLIENT.match(line):
            line += " --address localhost:50051"
        for documented, actual in self.addresses.items():
            line = line.replace(documented, actual)
        return line

    def stop(self) -> int:
        """Send SIGTERM and return the exit status."""
        if self.server is None:
            self.process.send_signal(signal.SIGTERM)
            status = self.process.wait(60)
            self.process.communicate()
            return status
        status = self.server.stop()
        self.server.__exit__()
        return status
