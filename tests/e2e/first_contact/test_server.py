"""The installed server with clients that violate the protocol, send floods, or open too many connections."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import time
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING

import pytest

from opmkit.server.http2.frames import ErrorCode, FrameType, pack_frame
from tests.kit import golang
from tests.kit.catalogs import write_library
from tests.kit.h2peer import Peer
from tests.kit.server import PATIENCE, Server, call, channel, descriptors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
