"""Benchmark of the catalog server, beside that of the reference: start, memory, streams and calls a second."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import sqlite3
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kit.catalogs import free_port
from tests.kit.server import Server
from tests.kit.soak import memory, requests_for, soak

from opmkit.index.api.messages import request_class
from opmkit.index.api.methods import METHODS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    Requests = list[dict[str, str]]

LOAD = Path(__file__).parents[1] / "tests" / "kit" / "loadclient"
BUNDLES = 300
COPIES = 10
CALLERS = (1, 8, 32)
CALLED = ("GetPackage", "GetBundle", "GetBundleForChannel", "ListPackages")
MOST_GROWTH = 1.15

# Every table with the columns that name a package or a bundle, which get another name in each copy.
_NAMED = {
    "operatorbundle": ("name", "replaces"),
    "package": ("name",),
    "channel": ("package_name", "head_operatorbundle_name"),
    "channel_entry": ("package_name", "operatorbundle_name"),
    "properties": ("operatorbundle_name",),
    "dependencies": ("operatorbundle_name",),
    "api_provider": ("operatorbundle_name",),
    "api_requirer": ("operatorbundle_name",),
    "related_image": ("operatorbundle_name",),
}


def make_index(path: Path, bundles: Path) -> None:
    """An index database of the chosen bundles."""
    images = [f"{one}=quay.io/corpus/{one.parent.name}:{one.name.replace('+', '_')}" for one in chosen_bundles(bundles)]
    argv = ["opm", "registry", "add", "--permissive", "--database", str(path), "--bundle-images", ",".join(images)]
    subprocess.run(argv, check=True, stderr=subprocess.DEVNULL)


def chosen_bundles(bundles: Path) -> list[Path]:
    """The directories of the published packages of a corpus, the largest ones, about ``BUNDLES`` bundles."""
    packages = [one for one in bundles.iterdir() if not one.name.startswith(("syn-", "opreg-"))]
    packages.sort(key=lambda one: (-sum(file.stat().st_size for file in one.rglob("*") if file.is_file()), one.name))
    chosen: list[Path] = []
    for package in packages:
        if len(chosen) < BUNDLES:
            chosen += sorted(one for one in package.iterdir() if (one / "manifests").is_dir())
    return chosen


def copy_packages(path: Path, copies: int) -> None:
    """Let an index have each of its packages so many times, under other names."""
    with closing(sqlite3.connect(path)) as database:
        last = database.execute("SELECT max(entry_id) FROM channel_entry").fetchone()[0]
        for table in _NAMED:
            database.execute(f"CREATE TEMP TABLE first_{table} AS SELECT * FROM {table}")  # noqa: S608 - constant names
        for number in range(1, copies):
            for table, named in _NAMED.items():
                columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
                values = [_copied(column, named, f"-c{number}", number * last) for column in columns]
                database.execute(f"INSERT INTO {table} SELECT {', '.join(values)} FROM first_{table}")  # noqa: S608 - constant names
        database.commit()


def _copied(column: str, named: Sequence[str], suffix: str, shift: int) -> str:
    if column in named:
        return f"CASE WHEN {column} != '' THEN {column} || '{suffix}' ELSE {column} END"
    if column in ("entry_id", "replaces"):
        return f"{column} + {shift}"
    return column


@dataclass(frozen=True)
class Figures:
    """What was measured of one server: seconds, MB, and calls a second by method and number of callers."""

    ready: float
    first_list: float
    list: float
    memory: float
    rates: dict[str, dict[int, float]]


class LoadClient:
    """The client that makes the calls, built for this run."""

    def __init__(self, directory: Path) -> None:
        if not shutil.which("go"):
            raise SystemExit("the load client is built with Go, which is not installed")
        self._program = directory / "loadclient"
        subprocess.run(["go", "build", "-o", str(self._program), "."], cwd=LOAD, check=True)

    def ready(self, argv: Sequence[str], port: int) -> float:
        """Seconds from the start of a server to its first answer that it is healthy."""
        argv = [str(self._program), "ready", f"127.0.0.1:{port}", *argv, "--port", str(port)]
        done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
        return float(json.loads(done.stdout))

    def calls(
        self, port: int, method: str, requests: list[dict[str, str]], callers: int, *flags: str
    ) -> dict[str, Any]:
        """Make calls for a time; how many were made in how many seconds."""
        described = METHODS[method]
        messages = [base64.b64encode(request_class(method)(**one).SerializeToString()).decode() for one in requests]
        argv = [str(self._program), "calls", "-address", f"127.0.0.1:{port}", "-method", described.path]
        argv += ["-callers", str(callers), *(["-streams"] if described.streams else []), *flags]
        done = subprocess.run(argv, input=json.dumps(messages).encode(), stdout=subprocess.PIPE, check=True)
        result: dict[str, Any] = json.loads(done.stdout)
        return result


def bench_serve(arguments: argparse.Namespace) -> dict[str, object]:
    """The catalog server on indexes of about 300 and 3000 bundles: start, memory, streams, calls a second."""
    report: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as directory:
        client = LoadClient(Path(directory))
        small, large = Path(directory, "300.db"), Path(directory, "3000.db")
        make_index(small, arguments.bundles)
        shutil.copy(small, large)
        copy_packages(large, COPIES)
        programs = {"opmkit": "opm"} | ({"reference": arguments.reference} if arguments.reference else {})
        for database in (small, large):
            print(f"\n{_size(database)}")
            measured = _measured(client, programs, database, arguments.runs)
            for who, figures in measured.items():
                _print(who, figures)
            report[database.stem] = {who: asdict(figures) for who, figures in measured.items()}
    return report


def _size(database: Path) -> str:
    names = requests_for(database)
    counts = {name: len(found) for name, found in names.items()}
    size = database.stat().st_size / 1e6
    return f"{counts['GetPackage']} packages, {counts['GetBundle']} bundles in channels, {size:.0f} MB of database"


def _measured(client: LoadClient, programs: dict[str, str], database: Path, runs: int) -> dict[str, Figures]:
    """All figures of each server; they start one after the other, and are called in turn."""
    with ExitStack() as stack:
        argv = {
            who: [program, "registry", "serve", "--database", str(database), "--termination-log", os.devnull]
            for who, program in programs.items()
        }
        ready: dict[str, list[float]] = {who: [] for who in programs}
        for _ in range(runs):
            for who in programs:
                ready[who].append(client.ready(argv[who], free_port()))
        servers = {who: stack.enter_context(started(client, argv[who])) for who in programs}
        lists = {who: list_bundles(client, server, runs) for who, server in servers.items()}
        used = {who: memory(server.process) for who, server in servers.items()}
        rates = _rates(client, servers, requests_for(database))
        return {who: Figures(statistics.median(ready[who]), *lists[who], used[who], rates[who]) for who in programs}


@dataclass(frozen=True)
class Started:
    """A server that runs: the number of its process, and its port."""

    process: int
    port: int


@contextmanager
def started(client: LoadClient, argv: Sequence[str]) -> Iterator[Started]:
    """Start a server, and wait until it answers."""
    port = free_port()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([*argv, "--port", str(port)], **quiet)
    try:
        end = time.monotonic() + 60
        while not _listens(port) and time.monotonic() < end:
            time.sleep(0.02)
        client.calls(port, "ListPackages", [{}], 1, "-most", "1")
        yield Started(process.pid, port)
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def list_bundles(client: LoadClient, server: Started, runs: int) -> tuple[float, float]:
    """Seconds of the first list of all bundles, and the median of the next ones."""
    seconds = [client.calls(server.port, "ListBundles", [{}], 1, "-most", "1")["seconds"] for _ in range(runs + 1)]
    return seconds[0], statistics.median(seconds[1:])


def _rates(
    client: LoadClient, servers: dict[str, Started], requests: dict[str, Requests]
) -> dict[str, dict[str, dict[int, float]]]:
    rates: dict[str, dict[str, dict[int, float]]] = {who: {} for who in servers}
    for method in CALLED:
        for callers in CALLERS:
            for who, server in servers.items():
                if callers == CALLERS[0]:  # what is made for the first who asks, has been asked for
                    client.calls(server.port, method, requests[method], 4, "-seconds", "2")
                made = client.calls(server.port, method, requests[method], callers, "-seconds", "2")
                rates[who].setdefault(method, {})[callers] = made["calls"] / made["seconds"]
    return rates


def _print(who: str, figures: Figures) -> None:
    print(
        f"  {who:<10} ready in {figures.ready:.3f} s; all bundles in {figures.list:.3f} s, at first"
        f" {figures.first_list:.3f}; then {figures.memory:.0f} MB of memory"
    )
    for method, rates in figures.rates.items():
        told = "  ".join(f"{rate:7.0f}" for rate in rates.values())
        print(f"  {who:<10} {method:<20} calls a second by {CALLERS} callers: {told}")


def bench_soak(arguments: argparse.Namespace) -> dict[str, object]:
    """Mixed calls for a long time, a fifth of them given up: memory and open files must not grow."""
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory, "300.db")
        make_index(database, arguments.bundles)
        with Server("--database", str(database)) as server:
            result = soak(server.address, server.process.pid, database, arguments.seconds)
    early, late = result.memory()
    print(f"{result.calls} calls, {result.cancelled} given up, {len(result.problems)} failed {result.problems[:3]}")
    print(f"memory {early:.1f} MB in the second quarter of the time, {late:.1f} MB in the last")
    print(f"open files {result.files_before} before, {result.files_after} after")
    if result.problems or late > early * MOST_GROWTH or result.files_after > result.files_before:
        raise SystemExit("calls failed, or memory or open files have grown")
    return {"calls": result.calls, "memory": [early, late], "files": [result.files_before, result.files_after]}
