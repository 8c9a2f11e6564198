"""The installed server with clients that violate the protocol, send floods, or open too many connections."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.server.http2.frames import ErrorCode, FrameType, pack_frame
from tests.kit import golang
from tests.kit.catalogs import write_library
from tests.kit.h2peer import Peer
from tests.kit.server import PATIENCE, Server, call, channel, descriptors, fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.installed import InstalledOpm

pytestmark = pytest.mark.timeout(900)  # h2spec is built once


@pytest.fixture
def served(newcomer: InstalledOpm) -> Iterator[Server]:
    database = newcomer.directory / "index.db"
    write_library(database)
    program = (str(newcomer.bin / "opm"), "registry", "serve")
    with Server("-d", str(database), "--processes", "1", program=program) as server:
        yield server
        assert packages(server) == ["book", "shelf"]


def packages(server: Server) -> list[str]:
    with channel(server.address) as connection:
        return [one.name for one in call(connection, "ListPackages")]


@pytest.fixture(scope="session")
def h2spec(pytestconfig: pytest.Config) -> Path:
    assert pytestconfig.cache is not None
    return golang.h2spec(pytestconfig.cache.mkdir("opmkit-go"))


def test_h2spec_passes_completely(served: Server, h2spec: Path) -> None:
    argv = [str(h2spec), "-h", "127.0.0.1", "-p", str(served.port), "-o", "10"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "145 tests, 145 passed, 0 skipped, 0 failed" in done.stdout, done.stdout
    assert served.err == ""


def test_a_flood_of_pings_ends_the_connection_as_in_grpc(served: Server) -> None:
    with Peer(served.port) as peer:
        peer.greet()
        assert (
            peer.flood(repeat(pack_frame(FrameType.PING, 0, 0, b"12345678") * 100, 100)) is ErrorCode.ENHANCE_YOUR_CALM
        )


def test_running_out_of_descriptors_is_logged_once(served: Server) -> None:
    (worker,) = served.workers()
    used = descriptors(worker)
    resource.prlimit(worker, resource.RLIMIT_NOFILE, (used + 2, 4096))
    clients = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(8)]
    before = cpu(worker)
    time.sleep(2.5)  # the server tries again each second
    spent = cpu(worker) - before
    lines = served.err.splitlines()
    resource.prlimit(worker, resource.RLIMIT_NOFILE, (4096, 4096))
    for client in clients:
        client.close()
    assert len(lines) == 1, lines[:20]
    assert "cannot accept connections" in lines[0]
    assert "Too many open files" in lines[0]
    assert spent < 1


def test_calls_are_answered_while_idle_clients_use_all_connections(newcomer: InstalledOpm) -> None:
    write_library(newcomer.directory / "index.db")
    program = ("prlimit", "--nofile=100", str(newcomer.bin / "opm"), "registry", "serve")
    flags = ("-d", str(newcomer.directory / "index.db"), "--processes", "1")
    with Server(*flags, program=program) as server:
        clients = [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) for _ in range(60)]
        for client in clients:  # 50 fit: half of the descriptors
            with suppress(ConnectionResetError):
                client.recv(1)  # of the greeting, or the end
        assert packages(server) == ["book", "shelf"]
        for client in clients:
            client.close()
        lines = server.err.splitlines()
        assert 1 <= len(lines) <= 2  # idle connections were closed, and perhaps new ones refused
        assert [line for line in lines if "too many are open" in line] == lines


def cpu(process: int) -> float:
    """Return the CPU seconds that a process has used."""
    with open(f"/proc/{process}/stat") as file:  # noqa: PTH123
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write_large_catalog(directory: Path) -> None:
    """Write a catalog whose bundles are more than a client receives unless it reads."""
    directory.mkdir()
    names = [f"pool.v1.{number}.0" for number in range(10_000)]
    package = {"packageName": "pool", "version": "1.0.0"}
    bundle = {"schema": "olm.bundle", "package": "pool", "name": names[0], "image": "quay.io/pool/pool:1"}
    documents: list[dict[str, Any]] = [
        {"schema": "olm.package", "name": "pool", "defaultChannel": "stable"},
        {"schema": "olm.channel", "package": "pool", "name": "stable", "entries": [{"name": names[0]}]},
        {**bundle, "properties": [{"type": "olm.package", "value": package}]},
    ]
    documents += [{"schema": "noise", "package": "pool", "name": name, "text": os.urandom(250).hex()} for name in names]
    (directory / "catalog.json").write_text("".join(f"{json.dumps(document)}\n" for document in documents))


def used_memory(server: Server) -> int:
    """Return the bytes of memory of a server and its workers, shared ones counted once."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    rollups = [Path(f"/proc/{process}/smaps_rollup").read_text() for process in (server.process.pid, *children)]
    return sum(int(line.split()[1]) << 10 for text in rollups for line in text.splitlines() if line.startswith("Pss:"))


@pytest.fixture
def large(newcomer: InstalledOpm) -> Iterator[tuple[Server, int]]:
    """A server of a large catalog and the port of its web API."""
    catalog = newcomer.directory / "large"
    write_large_catalog(catalog)
    program = (str(newcomer.bin / "opm"), "serve")
    cache = ("--cache-dir", str(newcomer.directory / "cache"), "--cache-enforce-integrity=false")
    with Server(str(catalog), "--http-port", "0", "--processes", "1", *cache, program=program) as server:
        (line,) = (line for line in server.out if "http_port=" in line)
        yield server, int(fields(line)["http_port"])


@pytest.mark.parametrize("header", ["", "Accept-Encoding: gzip\r\n"], ids=["plain", "compressed"])
def test_clients_that_do_not_read_use_little_memory(large: tuple[Server, int], header: str) -> None:
    server, port = large
    request = f"GET /catalogs/a/api/v1/metas?schema=noise HTTP/1.1\r\nHost: a\r\n{header}\r\n".encode()
    with ExitStack() as stack:
        before = 0
        for number in range(160):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", port))
            client.sendall(request)
            assert client.recv(20).startswith(b"HTTP/1.1 200")
            if number == 9:
                before = used_memory(server)
        assert used_memory(server) - before < 150 * 500_000


def test_redirects_stay_on_the_server(large: tuple[Server, int]) -> None:
    _, port = large
    for path in (r"//\evil.example", r"/\\evil.example/..", r"/./\evil.example", "///evil.example", r"/a/..//\evil"):
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
            client.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            response = b"".join(iter(lambda: client.recv(1 << 16), b"")).decode()
        (location,) = re.findall(r"(?m)^Location: (.*)\r$", response) or ["/"]
        assert re.match(r"/(?![/\\])", f"{location} ")
        assert "\\" not in response
