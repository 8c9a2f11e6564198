"""What the reference serves and what we do: every call has the same outcome.

That is asked of databases with holes and crossed edges, of file-based catalogs, and of one index in both forms.
``OPMKIT_REFERENCE_OPM_NEWEST`` names the newest reference tool, which serves catalogs as we do.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
from contextlib import closing, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict

from opmkit.cli.main import run
from opmkit.index.api.methods import METHODS
from opmkit.index.fbc.check.result import validate
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.load import load_directory, read_blobs
from tests.golden.test_grpc import CATALOG, GOLDEN, build
from tests.index.recorded_adds import REGISTRY
from tests.kit.catalogs import free_port, write_library
from tests.kit.opm import PROGRAM
from tests.kit.randomcatalogs import requests_for_catalog
from tests.kit.server import Server, call, channel
from tests.kit.shared import needs_shared
from tests.kit.soak import requests_for
from tests.reference.play import REFERENCE, needs_reference
from tests.reference.test_catalog_verdicts import COUNT, SEED, SHARES, made_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    Requests = Mapping[str, list[dict[str, str]]]

NEWEST = os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST", "")
needs_newest = pytest.mark.skipif(not NEWEST, reason="OPMKIT_REFERENCE_OPM_NEWEST does not name the reference tool")
SERVED = COUNT // 5
"""How many catalogs are made up; those that are sound are served by both."""

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
BUNDLE = ("packageName", "channelName", "csvName")
STRANGE: Requests = {
    "GetPackage": [{"name": "none"}, {}],
    "GetBundle": [{"pkgName": "shelf", "channelName": "alpha", "csvName": "none"}, {}],
    "GetBundleForChannel": [{"pkgName": "shelf", "channelName": "none"}, {"pkgName": "none", "channelName": "alpha"}],
    "GetBundleThatReplaces": [{"csvName": "none", "pkgName": "shelf", "channelName": "alpha"}, {"pkgName": "none"}],
    "GetChannelEntriesThatReplace": [{"csvName": "none"}],
    "GetChannelEntriesThatProvide": [{"group": "none", "version": "v1", "kind": "Shelf"}],
    "GetLatestChannelEntriesThatProvide": [{"group": "none", "version": "v1", "kind": "Shelf"}],
    "GetDefaultBundleThatProvides": [{"group": "none", "version": "v1", "kind": "Shelf"}],
}


def spoil(path: Path, seed: int) -> None:
    """Change some values of a database to what can hardly be there."""
    chance = random.Random(seed)
    with closing(sqlite3.connect(path)) as database:
        for _ in range(chance.randint(1, 6)):
            table, column = chance.choice(COLUMNS)
            rows = [row for (row,) in database.execute(f"SELECT rowid FROM {table}")]
            choices = {"replaces": [*rows, None], "depth": [None, 0, 1, 5]}.get(column, TEXTS)
            value = chance.choice(choices)
            with suppress(sqlite3.IntegrityError):
                database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, chance.choice(rows)))
        database.commit()


def as_sets(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_sets(_manifests(name, member)) for name, member in value.items()}
    if isinstance(value, list):
        return sorted(map(as_sets, value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def _manifests(name: str, value: Any) -> Any:
    """JSON in texts, where its form does not matter, as what it says."""
    if name == "object":
        return [_manifests("csvJson", text) for text in value]
    if name == "csvJson":
        with suppress(ValueError):
            return json.dumps(json.loads(value), sort_keys=True)
    return value


def outcome(connection: grpc.Channel, method: str, request: dict[str, str]) -> Any:
    try:
        answer = call(connection, method, **request)
    except grpc.RpcError as error:
        status, text = error.code().name, error.details() or ""
        return status, "invalid manifests" if text.startswith((*BROKEN, "invalid manifests", "no csv")) else text
    return as_sets([MessageToDict(one) for one in answer] if isinstance(answer, list) else MessageToDict(answer))


def every(*requests: Requests) -> Iterable[tuple[str, dict[str, str]]]:
    """All requests with their methods, each once, without what is not told."""
    for method, request in chain.from_iterable(
        ((m, one) for m, all_of in each.items() for one in all_of) for each in requests
    ):
        yield method, {name: value for name, value in request.items() if value is not None}


def replacements(connection: grpc.Channel, request: dict[str, str]) -> set[str]:
    """The bundles that replace or skip one: any of them is right."""
    entries = call(connection, "GetChannelEntriesThatReplace", csvName=request["csvName"])
    return {entry.bundleName for entry in entries}


def assert_same(first: grpc.Channel, second: grpc.Channel, *requests: Requests) -> None:
    """Every call to ``second`` has the outcome that it has to ``first``."""
    for method, given in every(*requests):
        wanted, found = (outcome(connection, method, given) for connection in (first, second))
        if method == "GetBundleThatReplaces" and "csvName" in wanted:
            assert found["csvName"] in replacements(second, given), given
        else:
            assert found == wanted, (method, given)


def theirs(kind: str, source: Path, tool: str = REFERENCE) -> Server:
    """The reference, of which releases differ in where they log to."""
    command = {
        "registry": ("registry", "serve", "--database", source),
        "catalog": ("serve", source, "--pprof-addr", f"localhost:{free_port()}"),  # the default is for one at a time
    }[kind]
    argv = ("sh", "-c", 'exec "$@" 2>&1', "sh", tool, *map(str, command))
    return Server(program=argv, port=free_port())


def ours(kind: str, source: Path) -> Server:
    command = {"registry": ("registry", "serve", "--database", source), "catalog": ("serve", source)}[kind]
    return Server("--processes", "1", program=(str(PROGRAM), *map(str, command)))


@needs_reference
@pytest.mark.parametrize("seed", range(24))
def test_every_call_to_a_database_has_the_same_outcome(seed: int, tmp_path: Path) -> None:
    database = tmp_path / "library.db"
    write_library(database)
    spoil(database, seed)
    with (
        theirs("registry", database) as first,
        ours("registry", database) as second,
        channel(first.address) as wanted,
        channel(second.address) as found,
    ):
        assert_same(wanted, found, requests_for(database))


@needs_newest
@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(SHARES))
def test_every_call_to_a_catalog_has_the_same_outcome(share: int, tmp_path: Path) -> None:
    for seed in range(SEED + share, SEED + SERVED, SHARES):
        root = tmp_path / str(seed)
        root.mkdir()
        made_up(seed, root)
        if not validate(load_directory(root), Compat.NEWEST).passed or lacks_data(root):
            continue
        with (
            theirs("catalog", root, NEWEST) as first,
            ours("catalog", root) as second,
            channel(first.address) as wanted,
            channel(second.address) as found,
        ):
            assert_same(wanted, found, requests_for_catalog(read_blobs(root)), STRANGE)


def lacks_data(root: Path) -> bool:
    """Whether a manifest is in another file: the reference takes the one before it once more."""
    return any('"ref"' in path.read_text() or "ref:" in path.read_text() for path in root.rglob("*") if path.is_file())


@needs_newest
@needs_shared
def test_every_call_to_a_migrated_index_has_the_same_outcome(tmp_path: Path) -> None:
    text = (GOLDEN / f"{CATALOG}.catalog.json").read_text().replace("{registry}", REGISTRY)
    (tmp_path / "catalog.json").write_text(text)
    with (
        theirs("catalog", tmp_path, NEWEST) as first,
        ours("catalog", tmp_path) as second,
        channel(first.address) as wanted,
        channel(second.address) as found,
    ):
        assert_same(wanted, found, requests_for_catalog(read_blobs(tmp_path)), STRANGE)


@needs_reference
@pytest.mark.parametrize("name", ["library", pytest.param("sqlite-replaces", marks=needs_shared)])
def test_both_forms_of_an_index_are_served_alike_where_the_reference_does_so(name: str, tmp_path: Path) -> None:
    database, catalog = tmp_path / "index.db", tmp_path / "catalog"
    if name == "library":
        write_library(database)
    else:
        build(name, tmp_path).rename(database)
    assert run(["migrate", str(database), str(catalog)]) == 0
    agreed = set()
    with (
        theirs("registry", database) as a,
        theirs("catalog", catalog) as b,
        ours("registry", database) as c,
        ours("catalog", catalog) as d,
        channel(a.address) as their_database,
        channel(b.address) as their_catalog,
        channel(c.address) as our_database,
        channel(d.address) as our_catalog,
    ):
        for method, request in every(requests_for(database), STRANGE):
            connections = (their_database, their_catalog, our_database, our_catalog)
            first, second, *both = (parts(method, outcome(each, method, request)) for each in connections)
            for part in first.keys() | second.keys() | both[0].keys() | both[1].keys():
                if first.get(part) == second.get(part):
                    assert [found.get(part) for found in both] == [first.get(part)] * 2, (method, request, part)
                    agreed |= {method} if part in first else set()
    assert agreed == set(METHODS)


def parts(method: str, found: Any) -> dict[Any, Any]:
    """An outcome by what can differ on its own: the fields of bundles, the status and text of an error."""
    if isinstance(found, tuple):
        return dict(zip(("status", "text"), found, strict=True))
    if method == "ListBundles":
        fields = [(tuple(one[name] for name in BUNDLE), one) for one in found]
        return {(*key, name): value for key, one in fields for name, value in one.items()}
    return found if isinstance(found, dict) else {"messages": found}
