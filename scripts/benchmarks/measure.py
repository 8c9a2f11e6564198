"""Run commands and measure their time, memory and registry traffic."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.kit.registry import Registry

RELAY_BUFFER_SIZE = 1 << 18
PACKET_SIZE = 1 << 14
IN_FLIGHT = 32
"""Packets of one connection between sender and receiver, more than fit into a link of 100 Mbit/s and 20 ms."""

# The peak memory of a child includes that of the process that it was forked from, so a small process starts it.
LAUNCHER = """
import json, os, sys, time
start = time.perf_counter()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
_, status, usage = os.wait4(pid, 0)
seconds = time.perf_counter() - start
print(json.dumps([os.waitstatus_to_exitcode(status), seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss]))
"""


@dataclass(frozen=True)
class Run:
    """Wall and CPU seconds, peak memory in MB, and MB read from and written to the registry by one command."""

    seconds: float
    cpu: float
    memory: float
    read: float
    written: float

    def __str__(self) -> str:
        traffic = f" {self.read:8.1f} MB read {self.written:8.1f} MB written" if self.read or self.written else ""
        return f"{self.seconds:8.2f} s {self.cpu:8.2f} s cpu {self.memory:8.0f} MB memory{traffic}"


class Link:
    """A network that all connections share, the same in both directions."""

    def __init__(self, bits_per_second: float, round_trip: float) -> None:
        self._bytes_per_second = bits_per_second / 8
        self.round_trip = round_trip
        self._free_at = dict.fromkeys(("read", "written"), 0.0)
        self._lock = threading.Lock()

    def arrival(self, direction: str, count: int) -> float:
        """Return the time on the monotonic clock at which bytes arrive that are sent now."""
        with self._lock:
            sent = max(time.monotonic(), self._free_at[direction]) + count / self._bytes_per_second
            self._free_at[direction] = sent
        return sent + self.round_trip / 2


class Meter:
    """A TCP relay in front of the registry that counts the bytes of each direction.

    ``link`` slows it down; None is the network of this machine.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.read = self.written = 0
        self.link: Link | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._server.accept()
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        if self.link:
            time.sleep(self.link.round_trip)  # the handshake of TCP
        upstream = socket.create_connection(self._target)
        relay = self._relay_slowly if self.link else self._relay
        for source, sink, counter in ((client, upstream, "written"), (upstream, client, "read")):
            threading.Thread(target=relay, args=(source, sink, counter), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket, counter: str) -> None:
        buffer = memoryview(bytearray(RELAY_BUFFER_SIZE))
        try:
            while count := source.recv_into(buffer):
                sink.sendall(buffer[:count])
                setattr(self, counter, getattr(self, counter) + count)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            sink.close()

    def _relay_slowly(self, source: socket.socket, sink: socket.socket, counter: str) -> None:
        """Relay at the speed of the link. Bytes are in flight while the next ones are read."""
        in_flight: queue.Queue[tuple[float, bytes]] = queue.Queue(IN_FLIGHT)
        threading.Thread(target=self._deliver, args=(in_flight, sink), daemon=True).start()
        link, content = self.link, b"-"
        while link and content:
            try:
                content = source.recv(PACKET_SIZE)
            except OSError:
                content = b""
            setattr(self, counter, getattr(self, counter) + len(content))
            in_flight.put((link.arrival(counter, len(content)), content))

    @staticmethod
    def _deliver(in_flight: queue.Queue[tuple[float, bytes]], sink: socket.socket) -> None:
        """Send what arrives, until the end of the stream, which is empty."""
        content = b"-"
        while content:
            arrival, content = in_flight.get()
            time.sleep(max(0.0, arrival - time.monotonic()))
            with contextlib.suppress(OSError):  # the receiver does not want the rest
                sink.sendall(content) if content else sink.shutdown(socket.SHUT_WR)


class Workbench:
    """A working directory and a metered registry for the commands that are measured."""

    def __init__(self, registry: Registry, work: Path) -> None:
        self.meter = Meter(registry.host)
        self.work = work
        self.host = self.meter.host

    def plain_http_settings(self) -> dict[str, str]:
        """Return the environment with which all programs use plain HTTP for the registry, even without a flag."""
        registries = self.work / "registries.conf"
        registries.write_text(f'[[registry]]\nlocation = "{self.host}"\ninsecure = true\n')
        return {"CONTAINERS_REGISTRIES_CONF": str(registries)}

    def run(self, argv: list[str], env: dict[str, str] | None = None, *, statuses: tuple[int, ...] = (0,)) -> Run:
        """Run a command and measure it.

        Raises:
            SystemExit: The command failed with a status that is not in ``statuses``.
        """
        self.meter.read = self.meter.written = 0
        log = self.work / "log"
        environment = {**os.environ, **(env or {})}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # commands load bytecode, as installed ones do
        with log.open("wb") as stderr:
            launcher = subprocess.run(
                [sys.executable, "-ISc", LAUNCHER, *argv],
                cwd=self.work,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment,
                check=True,
            )
        status, seconds, cpu, memory = json.loads(launcher.stdout)
        if status not in statuses:
            raise SystemExit(f"{argv[:4]}: exit code {status}:\n{log.read_text()[-3000:]}")
        return Run(seconds, cpu, memory / 1e3, self.meter.read / 1e6, self.meter.written / 1e6)


def programs(reference: str | None) -> dict[str, str]:
    """Return the programs to measure by the name that reports use: opmkit, and Go opm if its path is given."""
    return {"opmkit": "opm"} | ({"Go opm": reference} if reference else {})


def report_comparison(
    label: str, runs: Sequence[Run], others: Sequence[Run], other: str = "Go opm"
) -> dict[str, object]:
    """Print and return the medians and, if the other program ran, the ratios."""
    print(f"\n{label}")
    ours = median(runs)
    print(f"  opmkit     {ours}")
    report: dict[str, object] = {"opmkit": asdict(ours)}
    if others:
        theirs = median(others)
        print(f"  {other:<10} {theirs}")
        ratios = theirs.seconds / ours.seconds, theirs.cpu / ours.cpu, theirs.memory / ours.memory
        print(f"  {other} / opmkit: {ratios[0]:.2f} in time, {ratios[1]:.2f} in cpu, {ratios[2]:.2f} in memory")
        report |= {other: asdict(theirs), "time_ratio": ratios[0]}
    return report


def median(runs: Sequence[Run]) -> Run:
    """Return the median of each measure."""
    return Run(*(statistics.median(getattr(run, field.name) for run in runs) for field in fields(Run)))


def total(steps: Sequence[Run]) -> Run:
    """Return the sum of commands that run one after the other, and the highest peak memory."""
    return Run(
        seconds=sum(step.seconds for step in steps),
        cpu=sum(step.cpu for step in steps),
        memory=max(step.memory for step in steps),
        read=sum(step.read for step in steps),
        written=sum(step.written for step in steps),
    )
