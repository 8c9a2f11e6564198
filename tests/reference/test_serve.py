"""Calls to the catalog server have the same results as with Go opm.

The tests serve databases with missing and unusual values, file-based catalogs, and one index in both formats.
``OPMKIT_REFERENCE_OPM_NEWEST`` is the path of the newest Go opm, which is needed for catalogs.
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
from opmkit.index.fbc.check.result import validate
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.load import load_directory, read_blobs
from opmkit.index.grpc_api import METHODS
from tests.golden.test_grpc import CATALOG, GOLDEN, build
from tests.index.recorded_adds import REGISTRY
from tests.kit.catalogs import free_port, write_library
from tests.kit.opm import PROGRAM
from tests.kit.randomcatalogs import requests_for_catalog
from tests.kit.server import Server, call, channel
from tests.kit.shared import needs_shared
from tests.kit.soak import requests_for
from tests.reference.comparison import REFERENCE, needs_reference
from tests.reference.test_catalog_results import COUNT, SEED, SHARES, write_random_catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    Requests = Mapping[str, list[dict[str, str]]]

NEWEST = os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST", "")
needs_newest = pytest.mark.skipif(not NEWEST, reason="set OPMKIT_REFERENCE_OPM_NEWEST to the path of the newest Go opm")
SERVED = COUNT // 5
"""Number of random catalogs; the valid ones are served."""

COLUMNS = (
    *(("operatorbundle", column) for column in ("version", "bundlepath", "skiprange", "csv", "bundle")),
    *(("channel_entry", f"{part}_name") for part in ("channel", "package", "operatorbundle")),
    *(("channel_entry", "replaces"), ("channel_entry", "depth")),
    *(("channel", "head_operatorbundle_name"), ("package", "default_channel")),
    *(("properties", column) for column in ("type", "value", "operatorbundle_version", "operatorbundle_path")),
    *(("dependencies", column) for column in ("type", "value", "operatorbundle_version")),
)
TEXTS = (None, None, "", "x", '{"kind":1}', "null", '{"Kind":"Shelf","group":"g"}')
INVALID_MANIFESTS = ("invalid character", "Object 'Kind' is missing")
"""Error messages of Go opm for manifests that are not JSON objects; opmkit has another text."""
BUNDLE = ("packageName", "channelName", "csvName")
INVALID_REQUESTS: Requests = {
    "GetPackage": [{"name": "none"}, {}],
    "GetBundle": [{"pkgName": "shelf", "channelName": "alpha", "csvName": "none"}, {}],
    "GetBundleForChannel": [{"pkgName": "shelf", "channelName": "none"}, {"pkgName": "none", "channelName": "alpha"}],
    "GetBundleThatReplaces": [{"csvName": "none", "pkgName": "shelf", "channelName": "alpha"}, {"pkgName": "none"}],
    "GetChannelEntriesThatReplace": [{"csvName": "none"}],
    "GetChannelEntriesThatProvide": [{"group": "none", "version": "v1", "kind": "Shelf"}],
    "GetLatestChannelEntriesThatProvide": [{"group": "none", "version": "v1", "kind": "Shelf"}],
    "GetDefaultBundleThatProvides": [{"group": "none", "version": "v1", "kind": "Shelf"}],
}


def replace_values(path: Path, seed: int) -> None:
    """Replace some values of a database with unusual ones."""
    rng = random.Random(seed)
    with closing(sqlite3.connect(path)) as database:
        for _ in range(rng.randint(1, 6)):
            table, column = rng.choice(COLUMNS)
            rows = [row for (row,) in database.execute(f"SELECT rowid FROM {table}")]
            choices = {"replaces": [*rows, None], "depth": [None, 0, 1, 5]}.get(column, TEXTS)
            value = rng.choice(choices)
            with suppress(sqlite3.IntegrityError):
                database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, rng.choice(rows)))
        database.commit()


def as_sets(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_sets(_manifests(name, member)) for name, member in value.items()}
    if isinstance(value, list):
        return sorted(map(as_sets, value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def _manifests(name: str, value: Any) -> Any:
    """Return the JSON of manifests in canonical form."""
    if name == "object":
        return [_manifests("csvJson", text) for text in value]
    if name == "csvJson":
        with suppress(ValueError):
            return json.dumps(json.loads(value), sort_keys=True)
    return value


def call_result(connection: grpc.Channel, method: str, request: dict[str, str]) -> Any:
    try:
        answer = call(connection, method, **request)
    except grpc.RpcError as error:
        status, text = error.code().name, error.details() or ""
        return status, "invalid manifests" if text.startswith(
            (*INVALID_MANIFESTS, "invalid manifests", "no csv")
        ) else text
    return as_sets(
        [MessageToDict(message) for message in answer] if isinstance(answer, list) else MessageToDict(answer)
    )


def all_requests(*requests: Requests) -> Iterable[tuple[str, dict[str, str]]]:
    """Yield all requests with their methods, without fields that are None."""
    for method, request in chain.from_iterable(
        ((name, fields) for name, group in by_method.items() for fields in group) for by_method in requests
    ):
        yield method, {name: value for name, value in request.items() if value is not None}


def replacements(connection: grpc.Channel, request: dict[str, str]) -> set[str]:
    """Return the bundles that replace or skip a bundle: each of them is a valid answer."""
    entries = call(connection, "GetChannelEntriesThatReplace", csvName=request["csvName"])
    return {entry.bundleName for entry in entries}


def assert_same(first: grpc.Channel, second: grpc.Channel, *requests: Requests) -> None:
    """Assert that each call has the same result on both connections."""
    for method, given in all_requests(*requests):
        expected, actual = (call_result(connection, method, given) for connection in (first, second))
        if method == "GetBundleThatReplaces" and "csvName" in expected:
            assert actual["csvName"] in replacements(second, given), given
        else:
            assert actual == expected, (method, given)


def theirs(kind: str, source: Path, tool: str = REFERENCE) -> Server:
    """Return a server of Go opm, whose releases log to different streams."""
    command = {
        "registry": ("registry", "serve", "--database", source),
        "catalog": ("serve", source, "--pprof-addr", f"localhost:{free_port()}"),  # the default port would conflict
    }[kind]
    argv = ("sh", "-c", 'exec "$@" 2>&1', "sh", tool, *map(str, command))
    return Server(program=argv, port=free_port())


def ours(kind: str, source: Path) -> Server:
    command = {"registry": ("registry", "serve", "--database", source), "catalog": ("serve", source)}[kind]
    return Server("--processes", "1", program=(str(PROGRAM), *map(str, command)))


@needs_reference
@pytest.mark.parametrize("seed", range(24))
def test_calls_to_a_database_have_the_results_of_go_opm(seed: int, tmp_path: Path) -> None:
    database = tmp_path / "library.db"
    write_library(database)
    replace_values(database, seed)
    with (
        theirs("registry", database) as first,
        ours("registry", database) as second,
        channel(first.address) as their_channel,
        channel(second.address) as our_channel,
    ):
        assert_same(their_channel, our_channel, requests_for(database))


@needs_newest
@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(SHARES))
def test_calls_to_a_catalog_have_the_results_of_go_opm(share: int, tmp_path: Path) -> None:
    for seed in range(SEED + share, SEED + SERVED, SHARES):
        root = tmp_path / str(seed)
        root.mkdir()
        write_random_catalog(seed, root)
        if not validate(load_directory(root), CatalogCompat.NEWEST).passed or has_referenced_objects(root):
            continue
        with (
            theirs("catalog", root, NEWEST) as first,
            ours("catalog", root) as second,
            channel(first.address) as their_channel,
            channel(second.address) as our_channel,
        ):
            assert_same(their_channel, our_channel, requests_for_catalog(read_blobs(root)), INVALID_REQUESTS)


def has_referenced_objects(root: Path) -> bool:
    """Return whether a manifest is in another file, in whose place Go opm repeats the previous manifest."""
    return any('"ref"' in path.read_text() or "ref:" in path.read_text() for path in root.rglob("*") if path.is_file())


@needs_newest
@needs_shared
def test_calls_to_a_migrated_index_have_the_results_of_go_opm(tmp_path: Path) -> None:
    text = (GOLDEN / f"{CATALOG}.catalog.json").read_text().replace("{registry}", REGISTRY)
    (tmp_path / "catalog.json").write_text(text)
    with (
        theirs("catalog", tmp_path, NEWEST) as first,
        ours("catalog", tmp_path) as second,
        channel(first.address) as their_channel,
        channel(second.address) as our_channel,
    ):
        assert_same(their_channel, our_channel, requests_for_catalog(read_blobs(tmp_path)), INVALID_REQUESTS)


@needs_reference
@pytest.mark.parametrize("name", ["library", pytest.param("sqlite-replaces", marks=needs_shared)])
def test_both_formats_of_an_index_have_the_same_results_where_they_do_in_go_opm(name: str, tmp_path: Path) -> None:
    database, catalog = tmp_path / "index.db", tmp_path / "catalog"
    if name == "library":
        write_library(database)
    else:
        build(name, tmp_path).rename(database)
    assert run(["migrate", str(database), str(catalog)]) == 0
    compared = set()
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
        for method, request in all_requests(requests_for(database), INVALID_REQUESTS):
            connections = (their_database, their_catalog, our_database, our_catalog)
            first, second, *both = (parts(method, call_result(each, method, request)) for each in connections)
            for part in first.keys() | second.keys() | both[0].keys() | both[1].keys():
                if first.get(part) == second.get(part):
                    assert [found.get(part) for found in both] == [first.get(part)] * 2, (method, request, part)
                    compared |= {method} if part in first else set()
    assert compared == set(METHODS)


def parts(method: str, found: Any) -> dict[Any, Any]:
    """Split a result into parts that are compared separately: fields of bundles, status and text of an error."""
    if isinstance(found, tuple):
        return dict(zip(("status", "text"), found, strict=True))
    if method == "ListBundles":
        fields = [(tuple(bundle[name] for name in BUNDLE), bundle) for bundle in found]
        return {(*key, name): value for key, bundle in fields for name, value in bundle.items()}
    return found if isinstance(found, dict) else {"messages": found}
