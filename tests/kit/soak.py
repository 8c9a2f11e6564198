"""Mixed calls to a catalog server, many of them given up, while its memory and open files are watched."""

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

from opmkit.index.api.messages import request_class, response_class
from opmkit.index.api.methods import METHODS
from tests.kit.server import channel, children, descriptors

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 120
EXPECTED = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED}
"""How calls of a soak may end: names are made up at times, and callers lose patience."""


@dataclass(frozen=True)
class Sample:
    """One look at a server: seconds since the start, MB of memory that it alone has, open files."""

    at: float
    memory: float
    files: int


@dataclass
class Soak:
    """What came of it."""

    calls: int = 0
    cancelled: int = 0
    problems: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    files_before: int = 0
    files_after: int = 0

    def memory(self) -> tuple[float, float]:
        """The median MB of memory in the second and in the last quarter of the time: the first one warms up."""
        quarter = max(1, len(self.samples) // 4)
        early, late = self.samples[quarter : 2 * quarter] or self.samples, self.samples[-quarter:]
        return tuple(statistics.median(one.memory for one in part) for part in (early, late))  # type: ignore[return-value]


def processes(server: int) -> list[int]:
    """A server's processes, with the one that watches over them."""
    return [server, *children(server)]


def memory(server: int) -> float:
    """MB of memory of a server, with its share of files that others have loaded, too."""
    return _memory(server, "Pss")


def own_memory(server: int) -> float:
    """MB of memory of a server without files, of which its share depends on what else runs on the machine."""
    return _memory(server, "Pss_Anon")


def _memory(server: int, kind: str) -> float:
    """Of one kind; what its processes share is counted once."""
    texts = [Path(f"/proc/{one}/smaps_rollup").read_text() for one in processes(server)]
    lines = [line for text in texts for line in text.splitlines() if line.startswith(f"{kind}:")]
    return sum(int(line.split()[1]) for line in lines) / 1e3


def soak(address: str, server: int, database: Path, seconds: float, callers: int = 8) -> Soak:
    """Call for that time, and look at the server now and then."""
    names = requests_for(database)
    result, lock, start = Soak(), threading.Lock(), time.monotonic()
    result.files_before = _files(server)

    def call_on(seed: int) -> None:
        caller = _Caller(address, names, random.Random(seed))
        while time.monotonic() - start < seconds:
            problem = caller.call()
            with lock:
                result.calls += 1
                result.cancelled += caller.cancelled
                if problem:
                    result.problems.append(problem)
        caller.close()

    threads = [threading.Thread(target=call_on, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        result.samples.append(Sample(time.monotonic() - start, own_memory(server), _files(server)))
        time.sleep(max(0.2, seconds / 400))
    for thread in threads:
        thread.join()
    end = time.monotonic() + PATIENCE
    while (left := _files(server)) > result.files_before and time.monotonic() < end:  # connections are being closed
        time.sleep(0.2)
    result.files_after = left
    return result


def _files(server: int) -> int:
    return sum(map(descriptors, processes(server)))


def requests_for(database: Path) -> dict[str, list[dict[str, str]]]:
    """Requests to each method, for everything that is in a database."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        packages = connection.execute("SELECT name FROM package").fetchall()
        entries = connection.execute(
            "SELECT DISTINCT package_name, channel_name, operatorbundle_name FROM channel_entry"
        ).fetchall()
        apis = connection.execute("SELECT group_name, version, kind FROM api").fetchall()
    provided = [{"group": group, "version": version, "kind": kind} for group, version, kind in apis]
    placed = [{"pkgName": package, "channelName": name, "csvName": bundle} for package, name, bundle in entries]
    return {
        "ListPackages": [{}],
        "ListBundles": [{}],
        "GetPackage": [{"name": name} for (name,) in packages],
        "GetBundle": placed,
        "GetBundleForChannel": [{name: one[name] for name in ("pkgName", "channelName")} for one in placed],
        "GetBundleThatReplaces": placed,
        "GetChannelEntriesThatReplace": [{"csvName": one["csvName"]} for one in placed],
        "GetChannelEntriesThatProvide": provided,
        "GetLatestChannelEntriesThatProvide": provided,
        "GetDefaultBundleThatProvides": provided,
    }


class _Caller:
    """One who calls at random, loses patience at times, and connects anew at times."""

    def __init__(self, address: str, names: dict[str, list[dict[str, str]]], chance: random.Random) -> None:
        self._address = address
        self._names = {method: requests for method, requests in names.items() if requests}
        self._chance = chance
        self._channel = channel(address)
        self.cancelled = False

    def close(self) -> None:
        self._channel.close()

    def call(self) -> str:
        """Make one call; what was wrong about it, if anything."""
        if self._chance.random() < 0.02:
            self._channel.close()
            self._channel = channel(self._address)
        name = self._chance.choice(sorted(self._names))
        request = dict(self._chance.choice(self._names[name]))
        if request and self._chance.random() < 0.05:
            request[min(request)] += "-none"
        self.cancelled = self._chance.random() < 0.2
        try:
            self._make(name, request)
        except grpc.RpcError as error:
            if error.code() not in EXPECTED:
                return f"{name} {request}: {error}"
        return ""

    def _make(self, name: str, request: dict[str, str]) -> None:
        method = METHODS[name]
        asked: Any = request_class(name)(**request)
        deadline = self._chance.uniform(0, 0.01) if self.cancelled else PATIENCE
        make: Callable[..., Any] = self._channel.unary_stream if method.streams else self._channel.unary_unary
        call = make(method.path, request_class(name).SerializeToString, response_class(name).FromString)
        if not method.streams:
            call(asked, timeout=deadline)
            return
        stream = call(asked, timeout=PATIENCE)
        most = self._chance.randrange(50) if self.cancelled else None
        for count, _ in enumerate(stream):
            if count == most:
                stream.cancel()
                return
