"""Benchmark of the server of file-based catalogs, beside that of the reference: starts, memory, the list of bundles."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench_serve import LoadClient, chosen_bundles, list_bundles, started
from tests.kit.catalogmaker import catalog_of
from tests.kit.catalogs import free_port
from tests.kit.soak import memory

from opmkit.index.fbc.directory import write_catalog
from opmkit.index.fbc.write import to_json

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True)
class Figures:
    """What was measured of one server, with the cache made at its start or kept from the last: seconds and MB."""

    cold: float
    warm: float
    first_list: float
    list: float
    memory_cold: float
    memory_warm: float


def bench_serve_catalog(arguments: argparse.Namespace) -> dict[str, object]:
    """The server of a file-based catalog of about 300 bundles: cold and warm start, memory, the list of bundles."""
    report: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as directory:
        client = LoadClient(Path(directory))
        catalog = Path(directory, "catalog")
        blobs = catalog_of(chosen_bundles(arguments.bundles))
        write_catalog(blobs, catalog, "json", to_json)
        size = sum(path.stat().st_size for path in catalog.rglob("*") if path.is_file())
        print(f"{len(blobs.packages)} packages, {len(blobs.bundles)} bundles, {size / 1e6:.0f} MB of catalog")
        programs = {"opmkit": "opm"} | ({"reference": arguments.reference} if arguments.reference else {})
        for who, program in programs.items():
            figures = _measured(client, program, catalog, Path(directory, "cache"), arguments.runs)
            print(
                f"  {who:<10} ready in {figures.cold:.3f} s, with a cache in {figures.warm:.3f}; all bundles in"
                f" {figures.list:.3f} s, at first {figures.first_list:.3f}; {figures.memory_cold:.0f} MB of memory,"
                f" with a cache {figures.memory_warm:.0f}"
            )
            report[who] = asdict(figures)
    return report


def _measured(client: LoadClient, program: str, catalog: Path, cache: Path, runs: int) -> Figures:
    cold = [program, "serve", str(catalog), "--pprof-addr", "", "--termination-log", os.devnull]
    warm = [*cold, "--cache-dir", str(cache)]
    shutil.rmtree(cache, ignore_errors=True)
    subprocess.run([*warm, "--cache-only"], check=True, capture_output=True)
    seconds = [[client.ready(argv, free_port()) for _ in range(runs)] for argv in (cold, warm)]
    with started(client, cold) as server:
        list_bundles(client, server, 1)
        memory_cold = memory(server.process)
    with started(client, warm) as server:
        lists = list_bundles(client, server, runs)
        memory_warm = memory(server.process)
    return Figures(*map(statistics.median, seconds), *lists, memory_cold, memory_warm)
