"""Databases with holes and crossed edges, served by the reference and by us: every call has the same outcome."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict

from kit.catalogs import free_port, write_library
from kit.server import Server, call, channel
from kit.soak import requests_for
from reference.play import REFERENCE, needs_reference

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_reference

COLUMNS = (
    *(("operatorbundle", column) for column in ("version", "bundlepath", "skiprange", "csv", "bundle")),
    *(("channel_entry", f"{part}_name") for part in ("channel", "package", "operatorbundle")),
    *(("channel_entry", "replaces"), ("channel_entry", "depth")),
    *(("channel", "head_operatorbundle_name"), ("package", "default_channel")),
    *(("properties", column) for column in ("type", "value", "operatorbundle_version", "operatorbundle_path")),
    *(("dependencies", column) for column in ("type", "value", "operatorbundle_version")),
)
TEXTS = (None, None, "", "x", '{"kind":1}', "null", '{"Kind":"Shelf","group":"g"}')
BROKEN = ("invalid character", "Object 'Kind' is missing")
"""How the reference tells manifests that are no JSON, or no objects; we say it in other words."""


def spoil(path: Path, seed: int) -> None:
    """Change some values of a database to what can hardly be there."""
    chance = random.Random(seed)
    with closing(sqlite3.connect(path)) as database:
        for _ in range(chance.randint(1, 6)):
            table, column = chance.choice(COLUMNS)
            rows = [row for (row,) in database.execute(f"SELECT rowid FROM {table}")]
            choices = {"replaces": [*rows, None], "depth": [None, 0, 1, 5]}.get(column, TEXTS)
            value = chance.choice(choices)  # type: ignore[arg-type]
            with suppress(sqlite3.IntegrityError):
                database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, chance.choice(rows)))
        database.commit()


def as_sets(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_sets(member) for name, member in value.items()}
    if isinstance(value, list):
        return sorted(map(as_sets, value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def outcome(connection: grpc.Channel, method: str, request: dict[str, str]) -> Any:
    try:
        answer = call(connection, method, **request)
    except grpc.RpcError as error:
        status, text = error.code().name, error.details()  # type: ignore[attr-defined]
        return status, "invalid manifests" if text.startswith((*BROKEN, "invalid manifests", "no csv")) else text
    return as_sets([MessageToDict(one) for one in answer] if isinstance(answer, list) else MessageToDict(answer))


@pytest.mark.parametrize("seed", range(24))
def test_every_call_has_the_same_outcome(seed: int, tmp_path: Path) -> None:
    database = tmp_path / "library.db"
    write_library(database)
    spoil(database, seed)
    with (
        Server("-d", str(database), program=(REFERENCE, "registry", "serve"), port=free_port()) as theirs,
        Server("-d", str(database), "--processes", "1") as ours,
        channel(theirs.address) as first,
        channel(ours.address) as second,
    ):
        for method, requests in requests_for(database).items():
            for request in requests:
                given = {name: value for name, value in request.items() if value is not None}
                wanted, found = (outcome(connection, method, given) for connection in (first, second))
                if method == "GetBundleThatReplaces" and "csvName" in wanted:
                    assert found["csvName"] in replacements(second, given), given
                else:
                    assert found == wanted, (method, given)


def replacements(connection: grpc.Channel, request: dict[str, str]) -> set[str]:
    """The bundles that replace or skip one: any of them is right."""
    entries = call(connection, "GetChannelEntriesThatReplace", csvName=request["csvName"])
    return {entry.bundleName for entry in entries}
