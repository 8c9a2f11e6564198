"""Index databases to serve."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BUNDLES = 300

# Every table with the columns that name a package or a bundle, which are renamed in each copy.
_NAME_COLUMNS = {
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


def write_database(path: Path, bundles: Path) -> None:
    """Write an index database of the largest bundles of a corpus."""
    images = [
        f"{directory}=quay.io/corpus/{directory.parent.name}:{directory.name.replace('+', '_')}"
        for directory in largest_bundles(bundles)
    ]
    argv = ["opm", "registry", "add", "--permissive", "--database", str(path), "--bundle-images", ",".join(images)]
    subprocess.run(argv, check=True, stderr=subprocess.DEVNULL)


def largest_bundles(bundles: Path) -> list[Path]:
    """Return the bundle directories of the largest published packages of a corpus, about ``BUNDLES`` of them."""
    packages = [path for path in bundles.iterdir() if not path.name.startswith(("syn-", "opreg-"))]
    packages.sort(key=lambda path: (-sum(file.stat().st_size for file in path.rglob("*") if file.is_file()), path.name))
    chosen: list[Path] = []
    for package in packages:
        if len(chosen) < BUNDLES:
            chosen += sorted(path for path in package.iterdir() if (path / "manifests").is_dir())
    return chosen


def copy_packages(path: Path, copies: int) -> None:
    """Copy each package of an index database under other names, so that it has ``copies`` times as many."""
    with closing(sqlite3.connect(path)) as database:
        last_entry = database.execute("SELECT max(entry_id) FROM channel_entry").fetchone()[0]
        for table in _NAME_COLUMNS:
            database.execute(f"CREATE TEMP TABLE first_{table} AS SELECT * FROM {table}")  # noqa: S608 - constant names
        for number in range(1, copies):
            for table, names in _NAME_COLUMNS.items():
                columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
                values = [_copied_value(column, names, f"-c{number}", number * last_entry) for column in columns]
                database.execute(f"INSERT INTO {table} SELECT {', '.join(values)} FROM first_{table}")  # noqa: S608 - constant names
        database.commit()


def _copied_value(column: str, names: Sequence[str], suffix: str, shift: int) -> str:
    if column in names:
        return f"CASE WHEN {column} != '' THEN {column} || '{suffix}' ELSE {column} END"
    if column in ("entry_id", "replaces"):
        return f"{column} + {shift}"
    return column
