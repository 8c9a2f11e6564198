"""Benchmark of serving index databases."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kit.catalogs import free_port
from tests.kit.soak import memory, requests_for

from .databases import copy_packages, write_database
from .measure import programs
from .servers import LoadClient, running_server

if TYPE_CHECKING:
    import argparse

    from .servers import RunningServer

    Requests = list[dict[str, str]]
    Rates = dict[str, dict[int, float]]

COPIES = 10
CALLERS = (1, 8, 32)
METHODS_CALLED = ("GetPackage", "GetBundle", "GetBundleForChannel", "ListPackages")


@dataclass(frozen=True)
class Figures:
    """Seconds, MB of memory, and calls per second by method and number of callers, of one server."""

    ready: float
    first_list: float
    list: float
    memory: float
    rates: Rates


def bench_serve(arguments: argparse.Namespace) -> dict[str, object]:
    """Serve databases of about 300 and 3000 bundles: startup, memory, streams and calls per second."""
    report: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as directory:
        client = LoadClient(Path(directory))
        small, large = Path(directory, "300.db"), Path(directory, "3000.db")
        write_database(small, arguments.bundles)
        shutil.copy(small, large)
        copy_packages(large, COPIES)
        for database in (small, large):
            print(f"\n{_describe(database)}")
            figures = _measure(client, programs(arguments.reference), database, arguments.runs)
            for name, server_figures in figures.items():
                _print(name, server_figures)
            report[database.stem] = {name: asdict(server_figures) for name, server_figures in figures.items()}
    return report


def _describe(database: Path) -> str:
    counts = {method: len(requests) for method, requests in requests_for(database).items()}
    size = database.stat().st_size / 1e6
    return f"{counts['GetPackage']} packages, {counts['GetBundle']} bundles in channels, database of {size:.0f} MB"


def _measure(client: LoadClient, programs: dict[str, str], database: Path, runs: int) -> dict[str, Figures]:
    """Measure each server; all of them run at the same time and are called in turn."""
    with ExitStack() as stack:
        argv = {
            name: [program, "registry", "serve", "--database", str(database), "--termination-log", os.devnull]
            for name, program in programs.items()
        }
        ready: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(runs):
            for name in programs:
                ready[name].append(client.time_to_ready(argv[name], free_port()))
        servers = {name: stack.enter_context(running_server(client, argv[name])) for name in programs}
        lists = {name: client.time_lists(server, runs) for name, server in servers.items()}
        memory_used = {name: memory(server.process) for name, server in servers.items()}
        rates = _measure_rates(client, servers, requests_for(database))
        return {
            name: Figures(statistics.median(ready[name]), *lists[name], memory_used[name], rates[name])
            for name in programs
        }


def _measure_rates(
    client: LoadClient, servers: dict[str, RunningServer], requests: dict[str, Requests]
) -> dict[str, Rates]:
    rates: dict[str, Rates] = {name: {} for name in servers}
    for method in METHODS_CALLED:
        for callers in CALLERS:
            for name, server in servers.items():
                if callers == CALLERS[0]:  # fill the server's caches
                    client.call(server.port, method, requests[method], 4, "-seconds", "2")
                result = client.call(server.port, method, requests[method], callers, "-seconds", "2")
                rates[name].setdefault(method, {})[callers] = result["calls"] / result["seconds"]
    return rates


def _print(name: str, figures: Figures) -> None:
    print(
        f"  {name:<10} ready in {figures.ready:.3f} s; all bundles in {figures.list:.3f} s"
        f" (first {figures.first_list:.3f} s); then {figures.memory:.0f} MB of memory"
    )
    for method, rates in figures.rates.items():
        values = "  ".join(f"{rate:7.0f}" for rate in rates.values())
        print(f"  {name:<10} {method:<20} calls per second by {CALLERS} callers: {values}")
