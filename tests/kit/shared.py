"""The recorded results of the reference tool and the bundles they were made from, where that folder is at hand."""

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
"""The folder beside the checkout, or where OPMKIT_SHARED says."""

needs_shared = pytest.mark.skipif(
    not (SHARED / "golden").is_dir(), reason="the recorded results are not here (set OPMKIT_SHARED to their folder)"
)

# Records that miss outcomes of the reference, told by running it again (v1.26.5).
_DEFAULT_LATER = "a default channel that a later bundle brings: in 40 runs of add-semver/cockroachdb one left with 0"
INCOMPLETE = {
    "add-semver/cockroachdb": _DEFAULT_LATER,  # likewise add-semver/etcd: recorded 0, but 7 of 16 runs left with 1
    "add-skippatch/cockroachdb": _DEFAULT_LATER,
    "add-skippatch/file-integrity-console-plugin": "24 more runs gave 6 databases, and 1 as exit 5 times",
}

_NO_PACKAGE = "Go opm adds a bundle without a package, and no command can read the index afterwards"
REFUSED = {"add-scenarios/files-1.4.0": _NO_PACKAGE, "add-scenarios/files-semver-1.4.0": _NO_PACKAGE}
"""Records of adds that opmkit refuses, and why."""

# Rows of records, and what other runs of the reference have in their place: 2 of 12 runs of v1.26.5 for rm-after, and
# the records of add-semver/apicurito and add-replaces/apicurito, which are of the same adds.
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
    """All cases of the groups; none where the folder is absent."""
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
    """The module that shows a database as the records do."""
    spec = importlib.util.spec_from_file_location("dump_index", SHARED / "tools" / "dump_index.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dump_index(database: Path, registry: str, *, loose: bool = False) -> dict[str, Any]:
    """The content of a database in the form of the records, with ``registry`` as ``{registry}``."""
    dump: dict[str, Any] = dump_tool().Dumper(str(database), registry, loose).dump(schema=False)
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


def defective(step: dict[str, Any]) -> bool:
    """Whether a recorded step failed because the reference leaves a hole below the patches that it skips.

    opmkit does not, so such a step succeeds; what it comes to is held against the rule instead of the record.
    """
    return "semver-skippatch" in step["argv"] and "Invalid graph" in step["error"]


def found_files(root: Path) -> list[dict[str, Any]]:
    """What is below a directory, as the records tell it."""
    found = []
    for path in sorted(root.rglob("*")):
        if path.is_file():
            documents = list(yaml.load_all(path.read_text(), yaml.CSafeLoader))
            text = json.dumps(documents, sort_keys=True, separators=(",", ":"), default=str)
            told = {"path": path.relative_to(root).as_posix(), "yaml_sha256": sha256(text.encode()).hexdigest()}
            found.append({**told, "content": documents[0]} if path.name == "package.yaml" else told)
    return found
