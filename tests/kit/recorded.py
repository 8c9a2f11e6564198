"""Results of Go opm on the sample bundles in ``fixtures/recorded``, written by ``scripts/record-results``."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[2] / "fixtures" / "recorded"
BUNDLES = RECORDED / "bundles"
RESULTS = RECORDED / "results"


@dataclass(frozen=True)
class RecordedCase:
    """A sequence of commands, the database they wrote, and the output of queries on it."""

    name: str

    @property
    def record(self) -> dict[str, Any]:
        """Return the record in JSON types; see ``fixtures/recorded/README.md``."""
        record: dict[str, Any] = json.loads((RESULTS / f"{self.name}.json").read_text())
        return record

    def __str__(self) -> str:
        return self.name


def recorded_cases() -> list[RecordedCase]:
    """Return all cases."""
    return [RecordedCase(path.stem) for path in sorted(RESULTS.glob("*.json"))]


def dump_database(path: Path, prefix: str) -> dict[str, list[Any]]:
    """Return the rows of each table, sorted and without row ids, with ``prefix`` as ``{registry}``.

    Texts of manifests are replaced by the SHA-256 digest of their canonical JSON.
    """
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {table: [_decoded(row) for row in database.execute(f"SELECT * FROM {table}")] for table in tables}
    names = {row["entry_id"]: row["operatorbundle_name"] for row in rows["channel_entry"]}
    for entry in rows["channel_entry"]:
        del entry["entry_id"]
        entry["replaces"] = names.get(entry["replaces"])
    for migration in rows["schema_migrations"]:
        migration.pop("timestamp", None)
    for bundle in rows["operatorbundle"]:
        bundle["csv"], bundle["bundle"] = _digest(bundle["csv"]), _digest(bundle["bundle"])
    text = json.dumps({table: sorted(values, key=_canonical) for table, values in rows.items()})
    dump: dict[str, list[Any]] = json.loads(text.replace(f"{prefix}/", "{registry}/"))
    return dump


def sorted_lines(text: str, prefix: str) -> list[str]:
    """Return the lines of an output with single spaces, in a fixed order, with ``prefix`` as ``{registry}``."""
    return sorted(" ".join(line.split()).replace(f"{prefix}/", "{registry}/") for line in text.splitlines())


def _decoded(row: sqlite3.Row) -> dict[str, Any]:
    return {name: row[name].decode() if isinstance(row[name], bytes) else row[name] for name in row.keys()}  # noqa: SIM118


def _digest(text: str | None) -> str | None:
    """Return the digest of the JSON documents in a text, in any order."""
    if not text:
        return None
    decoder, documents, position = json.JSONDecoder(), list[str](), 0
    while position < len(text):
        document, position = decoder.raw_decode(text, position)
        documents.append(_canonical(document))
        while text[position : position + 1].isspace():
            position += 1
    return sha256("\n".join(sorted(documents)).encode()).hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
