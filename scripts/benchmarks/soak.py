"""Long-running load on the catalog server."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kit.server import Server
from tests.kit.soak import soak

from .databases import write_database

if TYPE_CHECKING:
    import argparse

MAX_GROWTH = 1.15
"""Factor by which memory may grow between the second and the last quarter of the time."""


def bench_soak(arguments: argparse.Namespace) -> dict[str, object]:
    """Call a server for a long time and cancel a fifth of the calls; fail if memory or open files grow."""
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory, "300.db")
        write_database(database, arguments.bundles)
        with Server("--database", str(database)) as server:
            result = soak(server.address, server.process.pid, database, arguments.seconds)
    early, late = result.memory()
    print(f"{result.calls} calls, {result.cancelled} cancelled, {len(result.problems)} failed {result.problems[:3]}")
    print(f"memory: {early:.1f} MB in the second quarter of the time, {late:.1f} MB in the last")
    print(f"open files: {result.files_before} before, {result.files_after} after")
    if result.problems or late > early * MAX_GROWTH or result.files_after > result.files_before:
        raise SystemExit("calls failed, or memory or open files grew")
    return {"calls": result.calls, "memory": [early, late], "files": [result.files_before, result.files_after]}
