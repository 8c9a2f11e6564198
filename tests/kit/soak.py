"""Call a catalog server at random, cancel many of the calls, and record its memory and open files."""

from __future__ import annotations

import random
import sqlite3
import statistics
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from opmkit.index.grpc_api import METHODS, request_class, response_class
from tests.kit.server import channel, children, descriptors

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT = 120
"""Seconds until a call or waiting for closed connections times out."""
EXPECTED = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED}
"""Expected errors: some names do not exist, and some calls are cancelled."""


@dataclass(frozen=True)
class Sample:
    """Seconds since the start, MB of private memory, and number of open files of a server."""

    at: float
    memory: float
    files: int


@dataclass
class Soak:
    """Result of a soak."""

    calls: int = 0
    cancelled: int = 0
    problems: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    files_before: int = 0
    files_after: int = 0

    def memory(self) -> tuple[float, float]:
        """Return the median MB of memory in the second and the last quarter of the time; the first is warm-up."""
        quarter = max(1, len(self.samples) // 4)
        early, late = self.samples[quarter : 2 * quarter] or self.samples, self.samples[-quarter:]
        return tuple(statistics.median(sample.memory for sample in part) for part in (early, late))  # type: ignore[return-value]


def processes(server: int) -> list[int]:
    """Return the ids of a server's supervisor and worker processes."""
    return [server, *children(server)]


def memory(server: int) -> float:
    """Return the memory of a server in MB, with its share of files mapped by several processes."""
    return _memory(server, "Pss")


def own_memory(server: int) -> float:
    """Return the anonymous memory of a server in MB, which does not depend on other processes of the machine."""
    return _memory(server, "Pss_Anon")


def _memory(server: int, kind: str) -> float:
    """Return the sum of a field of ``smaps_rollup``; memory that the processes share is counted once."""
    texts = [Path(f"/proc/{process}/smaps_rollup").read_text() for process in processes(server)]
    lines = [line for text in texts for line in text.splitlines() if line.startswith(f"{kind}:")]
    return sum(int(line.split()[1]) for line in lines) / 1e3


def soak(address: str, server: int, database: Path, seconds: float, callers: int = 8) -> Soak:
    """Call a server for that time and sample its memory and open files."""
    names = requests_for(database)
    result, lock, start = Soak(), threading.Lock(), time.monotonic()
    result.files_before = _files(server)

    def call_repeatedly(seed: int) -> None:
        caller = _Caller(address, names, random.Random(seed))
        while time.monotonic() - start < seconds:
            problem = caller.call()
            with lock:
                result.calls += 1
                result.cancelled += caller.cancelled
                if problem:
                    result.problems.append(problem)
        caller.close()

    threads = [threading.Thread(target=call_repeatedly, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        result.samples.append(Sample(time.monotonic() - start, own_memory(server), _files(server)))
        time.sleep(max(0.2, seconds / 400))
    for thread in threads:
        thread.join()
    deadline = time.monotonic() + TIMEOUT
    while (open_files := _files(server)) > result.files_before and time.monotonic() < deadline:
        time.sleep(0.2)  # connections close asynchronously
    result.files_after = open_files
    return result


def _files(server: int) -> int:
    return sum(map(descriptors, processes(server)))


def requests_for(database: Path) -> dict[str, list[dict[str, str]]]:
    """Return requests for all content of a database by method."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        packages = connection.execute("SELECT name FROM package").fetchall()
        entries = connection.execute(
            "SELECT DISTINCT package_name, channel_name, operatorbundle_name FROM channel_entry"
        ).fetchall()
        apis = connection.execute("SELECT group_name, version, kind FROM api").fetchall()
    provided = [{"group": group, "version": version, "kind": kind} for group, version, kind in apis]
    memberships = [{"pkgName": package, "channelName": name, "csvName": bundle} for package, name, bundle in entries]
    return {
        "ListPackages": [{}],
        "ListBundles": [{}],
        "GetPackage": [{"name": name} for (name,) in packages],
        "GetBundle": memberships,
        "GetBundleForChannel": [{name: fields[name] for name in ("pkgName", "channelName")} for fields in memberships],
        "GetBundleThatReplaces": memberships,
        "GetChannelEntriesThatReplace": [{"csvName": fields["csvName"]} for fields in memberships],
        "GetChannelEntriesThatProvide": provided,
        "GetLatestChannelEntriesThatProvide": provided,
        "GetDefaultBundleThatProvides": provided,
    }


class _Caller:
    """A client that makes random calls, cancels some, and reconnects at times."""

    def __init__(self, address: str, names: dict[str, list[dict[str, str]]], rng: random.Random) -> None:
        self._address = address
        self._names = {method: requests for method, requests in names.items() if requests}
        self._rng = rng
        self._channel = channel(address)
        self.cancelled = False

    def close(self) -> None:
        self._channel.close()

    def call(self) -> str:
        """Make one call and return its unexpected error, "" if there was none."""
        if self._rng.random() < 0.02:
            self._channel.close()
            self._channel = channel(self._address)
        name = self._rng.choice(sorted(self._names))
        request = dict(self._rng.choice(self._names[name]))
        if request and self._rng.random() < 0.05:
            request[min(request)] += "-none"
        self.cancelled = self._rng.random() < 0.2
        try:
            self._make(name, request)
        except grpc.RpcError as error:
            if error.code() not in EXPECTED:
                return f"{name} {request}: {error}"
        return ""

    def _make(self, name: str, request: dict[str, str]) -> None:
        method = METHODS[name]
        message: Any = request_class(name)(**request)
        deadline = self._rng.uniform(0, 0.01) if self.cancelled else TIMEOUT
        make: Callable[..., Any] = self._channel.unary_stream if method.streams else self._channel.unary_unary
        call = make(method.path, request_class(name).SerializeToString, response_class(name).FromString)
        if not method.streams:
            call(message, timeout=deadline)
            return
        stream = call(message, timeout=TIMEOUT)
        limit = self._rng.randrange(50) if self.cancelled else None
        for count, _ in enumerate(stream):
            if count == limit:
                stream.cancel()
                return
