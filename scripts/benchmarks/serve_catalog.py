"""Benchmark of serving file-based catalogs."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kit.catalogmaker import build_catalog
from tests.kit.catalogs import free_port
from tests.kit.soak import memory

from opmkit.index.fbc.write import to_json, write_catalog

from .databases import largest_bundles
from .measure import programs
from .servers import LoadClient, running_server

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True)
class Figures:
    """Seconds and MB of memory of one server, without a cache (cold) and with one (warm)."""

    cold: float
    warm: float
    first_list: float
    list: float
    memory_cold: float
    memory_warm: float


def bench_serve_catalog(arguments: argparse.Namespace) -> dict[str, object]:
    """Serve a catalog of about 300 bundles: startup with and without a cache, memory, and the list of bundles."""
    report: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as directory:
        client = LoadClient(Path(directory))
        catalog = Path(directory, "catalog")
        blobs = build_catalog(largest_bundles(arguments.bundles))
        write_catalog(blobs, catalog, "json", to_json)
        size = sum(path.stat().st_size for path in catalog.rglob("*") if path.is_file())
        print(f"{len(blobs.packages)} packages, {len(blobs.bundles)} bundles, catalog of {size / 1e6:.0f} MB")
        report["bundles"] = len(blobs.bundles)
        for name, program in programs(arguments.reference).items():
            figures = _measure(client, program, catalog, Path(directory, "cache"), arguments.runs)
            print(
                f"  {name:<10} ready in {figures.cold:.3f} s, {figures.warm:.3f} s with a cache;"
                f" all bundles in {figures.list:.3f} s (first {figures.first_list:.3f} s);"
                f" {figures.memory_cold:.0f} MB of memory, {figures.memory_warm:.0f} MB with a cache"
            )
            report[name] = asdict(figures)
    return report


def _measure(client: LoadClient, program: str, catalog: Path, cache: Path, runs: int) -> Figures:
    cold = [program, "serve", str(catalog), "--pprof-addr", "", "--termination-log", os.devnull]
    warm = [*cold, "--cache-dir", str(cache)]
    shutil.rmtree(cache, ignore_errors=True)
    subprocess.run([*warm, "--cache-only"], check=True, capture_output=True)
    ready_cold = statistics.median(client.time_to_ready(cold, free_port()) for _ in range(runs))
    ready_warm = statistics.median(client.time_to_ready(warm, free_port()) for _ in range(runs))
    with running_server(client, cold) as server:
        client.time_lists(server, 1)
        memory_cold = memory(server.process)
    with running_server(client, warm) as server:
        lists = client.time_lists(server, runs)
        memory_warm = memory(server.process)
    return Figures(ready_cold, ready_warm, *lists, memory_cold, memory_warm)
