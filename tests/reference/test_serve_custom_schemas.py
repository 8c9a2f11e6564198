"""Calls of the experimental service for custom schemas have the same results as with Go opm."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.fbc.load import read_blobs
from tests.kit.catalogs import free_port, write_library
from tests.kit.customschemas import ACKNOWLEDGED, RAW, RECORD, call, call_raw, responses, serve_go, write_catalog
from tests.kit.opm import PROGRAM
from tests.kit.randomcatalogs import requests_for_catalog
from tests.kit.server import Server, channel
from tests.reference.test_serve import INVALID_REQUESTS, NEWEST, assert_same, needs_newest
from tests.reference.test_serve_cache import build_theirs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_newest
SERVE = (str(PROGRAM), "serve")


def random_value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(9 if depth < 4 else 6)
    if kind < 6:
        simple = (None, rng.random() < 0.5, rng.randint(-5, 2**40), rng.uniform(-1e9, 1e9), "\u00e9<&>\u2028\x02", "")
        return simple[kind]
    if kind == 6:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice("abcdef") * rng.randint(1, 3): random_value(rng, depth + 1) for _ in range(rng.randrange(5))}


def random_documents(seed: int, count: int) -> list[dict[str, Any]]:
    """Return documents of a few schemas and packages with any content."""
    rng = random.Random(seed)
    return [
        {
            **{f"field{number}": random_value(rng) for number in range(rng.randrange(5))},
            "schema": rng.choice(("acme.note", "z", "A.b-c_9")),
            "name": f"n{position}",
            **({"package": package} if (package := rng.choice(("", "reef", "tide"))) else {}),
        }
        for position in range(count)
    ]


def test_recorded_responses_are_those_of_go_opm(tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path / "catalog")
    with serve_go(NEWEST, catalog) as server, channel(server.address) as connection:
        assert responses(connection) == json.loads(RECORD.read_text())


@pytest.mark.parametrize("json_format", [False, True], ids=["pogreb", "json"])
@pytest.mark.parametrize("seed", range(3))
def test_documents_equal_those_of_go_opm(seed: int, json_format: bool, tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path / "catalog", random_documents(seed, 300))
    cache = tmp_path / "cache"
    build_theirs(catalog, cache, json_format=json_format)
    mine = ("--cache-dir", str(cache)) if json_format else ()
    with (
        serve_go(NEWEST, catalog, "--cache-dir", str(cache)) as first,
        Server(str(catalog), *mine, program=SERVE) as second,
        channel(first.address) as theirs,
        channel(second.address) as ours,
    ):
        documents = 0
        for schema in ("acme.note", "z", "A.b-c_9", "acme-Global_1", "none"):
            for package in ("", "reef", "tide", "none"):
                request = {"schema": schema, "packageName": package}
                expected = call(theirs, request, [ACKNOWLEDGED])
                assert call(ours, request, [ACKNOWLEDGED]) == expected, request
                documents += len(expected)
        assert documents > 290
        for path, raw in RAW:
            expected = call_raw(theirs, path, raw)
            actual = call_raw(ours, path, raw)
            assert actual[0] == expected[0], (path, expected, actual)
        assert_same(theirs, ours, requests_for_catalog(read_blobs(catalog)), INVALID_REQUESTS)


def test_servers_of_databases_lack_the_service(tmp_path: Path) -> None:
    database = tmp_path / "index.db"
    write_library(database)
    flags = ("registry", "serve", "--database", str(database))
    their_program = ("sh", "-c", 'exec "$@" 2>&1', "sh", NEWEST, *flags)
    with (
        Server(program=their_program, port=free_port()) as first,
        Server(program=(str(PROGRAM), *flags)) as second,
        channel(first.address) as theirs,
        channel(second.address) as ours,
    ):
        for path, raw in RAW:
            assert call_raw(ours, path, raw) == call_raw(theirs, path, raw)
