"""The recorded results of the reference tool and the bundles they were made from, where that folder is at hand."""

from __future__ import annotations

import importlib.util
import json
import os
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(os.environ.get("OPMKIT_SHARED") or Path(__file__).parents[3] / "shared")
"""The folder beside the checkout, or where OPMKIT_SHARED says."""

needs_shared = pytest.mark.skipif(
    not (SHARED / "golden").is_dir(), reason="the recorded results are not here (set OPMKIT_SHARED to their folder)"
)


@dataclass(frozen=True)
class Case:
    """One recorded case."""

    group: str
    name: str

    @property
    def record(self) -> dict[str, Any]:
        return _record(self.group, self.name)

    def __str__(self) -> str:
        return f"{self.group}/{self.name}"


def cases(*groups: str) -> list[Case]:
    """All cases of the groups; none where the folder is absent."""
    return [Case(group, path.stem) for group in groups for path in sorted((SHARED / "golden" / group).glob("*.json"))]


@cache
def _record(group: str, name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((SHARED / "golden" / group / f"{name}.json").read_text())
    return record


@cache
def _dumper() -> Any:
    spec = importlib.util.spec_from_file_location("dump_index", SHARED / "tools" / "dump_index.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dump_index(database: Path, registry: str, *, loose: bool = False) -> dict[str, Any]:
    """The content of a database in the form of the records, with ``registry`` as ``{registry}``."""
    dump: dict[str, Any] = _dumper().Dumper(str(database), registry, loose).dump(schema=False)
    return dump


def assert_equal_index(record: dict[str, Any], database: Path, registry: str) -> None:
    """Hold a database against the ``index`` of a record, as strictly as its ``compare`` allows."""
    if record["index"] is None:
        assert not database.exists()
        return
    compare = record.get("compare", "exact")
    dump = dump_index(database, registry, loose=compare != "exact")
    assert dump["schema_version"] == record["index"]["schema_version"]
    for table, rows in record["index"]["tables"].items():
        assert dump["tables"][table] == rows, f"table {table}"
    for table, seen in record.get("varying", {}).items():
        _assert_possible(table, dump["tables"][table], seen)


def _assert_possible(table: str, rows: list[Any], seen: dict[str, Any]) -> None:
    left = Counter(map(_canonical, rows))
    always = Counter(map(_canonical, seen["always"]))
    assert always <= left, f"table {table}: rows that the reference always has are missing: {always - left}"
    if isinstance(seen["sometimes"], list):
        more = set(left - always) - set(map(_canonical, seen["sometimes"]))
        assert not more, f"table {table}: rows that the reference never has: {more}"


def _canonical(row: Any) -> str:
    return json.dumps(row, sort_keys=True)
