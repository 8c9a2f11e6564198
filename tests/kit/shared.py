"""Recorded results of Go opm, and the corpus of bundles that they were recorded from."""

from __future__ import annotations

import importlib.util
import json
import os
from collections import Counter
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

SHARED = Path(os.environ.get("OPMKIT_SHARED") or Path(__file__).parents[3] / "shared")
"""The directory of the records and the corpus: OPMKIT_SHARED, or ``shared`` next to the checkout."""

needs_shared = pytest.mark.skipif(
    not (SHARED / "golden").is_dir(), reason="recorded results not found (set OPMKIT_SHARED to their directory)"
)

# Records of commands whose result varies from run to run of Go opm v1.26.5.
_DEFAULT_LATER = "default channel of a later bundle: 1 of 40 runs of add-semver/cockroachdb exited with 0"
INCOMPLETE = {
    "add-semver/cockroachdb": _DEFAULT_LATER,  # add-semver/etcd as well: recorded 0, but 7 of 16 runs exited with 1
    "add-skippatch/cockroachdb": _DEFAULT_LATER,
    "add-skippatch/file-integrity-console-plugin": "5 of 24 runs exited with 1, the others wrote 6 databases",
}

_NO_PACKAGE = "Go opm adds a bundle without a package, after which no command can read the index"
REFUSED = {
    "add-scenarios/files-1.4.0": _NO_PACKAGE,
    "add-scenarios/files-semver-1.4.0": _NO_PACKAGE,
    "add-errors/unknown-command": "Go opm prints its help, so that a typo passes in a pipeline",
}
"""Records of commands that opmkit rejects, with the reason."""

# Recorded rows and those of other runs of Go opm: 2 of 12 runs of v1.26.5 for rm-after, and the records
# add-semver/apicurito and add-replaces/apicurito, which have the same adds.
_PLURAL = {"group_name": "apicur.io", "kind": "Apicurito", "version": "v1alpha1"}
_PLURALS = ("api", {**_PLURAL, "plural": "apicuritoes"}, {**_PLURAL, "plural": "apicuritos"})
_DEFAULT = {"name": "apicurito"}
_DEFAULTS = ("package", {**_DEFAULT, "default_channel": "alpha"}, {**_DEFAULT, "default_channel": "latest"})
ALSO_SEEN = {"add-multi/rm-after": [_PLURALS], "index-image/add-semver": [_PLURALS, _DEFAULTS]}


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
    """Return the cases of the groups, none if the records are not available."""
    return [Case(group, path.stem) for group in groups for path in sorted((SHARED / "golden" / group).glob("*.json"))]


@cache
def _record(group: str, name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((SHARED / "golden" / group / f"{name}.json").read_text())
    for table, recorded, other in ALSO_SEEN.get(f"{group}/{name}", ()):
        rows = record["index"]["tables"].pop(table)
        seen = {"always": [row for row in rows if row != recorded], "sometimes": [recorded, other]}
        record["varying"] = {**record.get("varying", {}), table: seen}
    return record


@cache
def dump_tool() -> Any:
    """Return the module that dumps a database in the form of the records."""
    spec = importlib.util.spec_from_file_location("dump_index", SHARED / "tools" / "dump_index.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dump_index(database: Path, registry: str, *, loose: bool = False) -> dict[str, Any]:
    """Return the content of a database in the form of the records, with ``registry`` as ``{registry}``."""
    dump: dict[str, Any] = dump_tool().Dumper(str(database), registry, loose).dump(schema=False)
    return dump


def assert_equal_index(record: dict[str, Any], database: Path, registry: str) -> None:
    """Compare a database with the ``index`` of a record, as strictly as its ``compare`` requires."""
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
    assert always <= left, f"table {table}: missing rows that Go opm always writes: {always - left}"
    if isinstance(seen["sometimes"], list):
        more = set(left - always) - set(map(_canonical, seen["sometimes"]))
        assert not more, f"table {table}: rows that Go opm never writes: {more}"


def _canonical(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


def defective(step: dict[str, Any]) -> bool:
    """Return whether a recorded step failed because Go opm leaves a gap in the graph below skipped patches.

    opmkit does not, so the step succeeds, and its result is compared with the rule instead of the record.
    """
    return "semver-skippatch" in step["argv"] and "Invalid graph" in step["error"]


def found_files(root: Path) -> list[dict[str, Any]]:
    """Return the files below a directory in the form of the records."""
    files = []
    for path in sorted(root.rglob("*")):
        if path.is_file():
            documents = list(yaml.load_all(path.read_text(), yaml.CSafeLoader))
            text = json.dumps(documents, sort_keys=True, separators=(",", ":"), default=str)
            entry = {"path": path.relative_to(root).as_posix(), "yaml_sha256": sha256(text.encode()).hexdigest()}
            files.append({**entry, "content": documents[0]} if path.name == "package.yaml" else entry)
    return files
