"""Benchmark of the catalog server, beside that of the reference: start, memory, streams and calls a second."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from kit.server import SERVE, channel, children

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from opmkit.index.api import Method

LOAD = Path(__file__).parents[1] / "tests" / "kit" / "loadclient"
BUNDLES = 300
COPIES = 10
CALLERS = (1, 8, 32)

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
    """An index database of the published packages of a corpus, the largest ones, about ``BUNDLES`` bundles."""
    packages = [one for one in bundles.iterdir() if not one.name.startswith(("syn-", "opreg-"))]
    packages.sort(key=lambda one: (-sum(file.stat().st_size for file in one.rglob("*") if file.is_file()), one.name))
    chosen: list[str] = []
    for package in packages:
        if len(chosen) < BUNDLES:
            versions = sorted(one for one in package.iterdir() if (one / "manifests").is_dir())
            chosen += [f"{one}=quay.io/corpus/{package.name}:{one.name.replace('+', '_')}" for one in versions]
    argv = ["opm", "registry", "add", "--permissive", "--database", str(path), "--bundle-images", ",".join(chosen)]
    subprocess.run(argv, check=True, stderr=subprocess.DEVNULL)


def copy_packages(path: Path, copies: int) -> None:
    """Let an index have each of its packages so many times, under other names."""
    with closing(sqlite3.connect(path)) as database:
        last = database.execute("SELECT max(entry_id) FROM channel_entry").fetchone()[0]
        for table in _NAMED:
            database.execute(f"CREATE TEMP TABLE first_{table} AS SELECT * FROM {table}")  # noqa: S608
        for number in range(1, copies):
            for table, named in _NAMED.items():
                columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
                values = [_copied(column, named, f"-c{number}", number * last) for column in columns]
                database.execute(f"INSERT INTO {table} SELECT {', '.join(values)} FROM first_{table}")  # noqa: S608
        database.commit()


def _copied(column: str, named: Sequence[str], suffix: str, shift: int) -> str:
    if column in named:
        return f"CASE WHEN {column} != '' THEN {column} || '{suffix}' ELSE {column} END"
    if column in ("entry_id", "replaces"):
        return f"{column} + {shift}"
    return column
