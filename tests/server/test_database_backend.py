"""Responses from unusual databases; those from valid ones are compared with recorded responses."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.errors import CatalogError
from opmkit.index.grpc_api import METHODS, message_class
from opmkit.index.sqlite.serving import served_database
from opmkit.server.database_backend import DatabaseBackend
from opmkit.server.response_cache import ResponseCache
from tests.kit.catalogs import write_library

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHELF = ("shelfs.example.com", "v1", "Shelf")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    write_library(tmp_path / "library.db")
    return tmp_path / "library.db"


def modify(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


@contextmanager
def open_backend(path: Path) -> Iterator[DatabaseBackend]:
    with (
        served_database(path, migrate=True) as database,
        ResponseCache(database.bundles) as cache,
        DatabaseBackend.open(database, cache) as backend,
    ):
        yield backend


def read(name: str, reply: Any) -> Any:
    """Return the message in a reply, or a list of messages."""
    data = reply() if callable(reply) else reply
    parse = message_class(name).FromString
    return parse(data) if isinstance(data, bytes) else list(map(parse, data))


def test_default_provider_needs_only_its_own_manifests(library: Path) -> None:
    modify(library, "UPDATE operatorbundle SET bundle = NULL WHERE name = 'book.v0.1.0'")
    with open_backend(library) as backend:
        assert read("Bundle", backend.get_default_bundle_that_provides(*SHELF)).csvName == "shelf.v1.1.0"
        with pytest.raises(CatalogError, match=r"no entry found that provides books\.example\.com v1 Book"):
            backend.get_default_bundle_that_provides("books.example.com", "v1", "Book")


def test_names_with_quotes(library: Path) -> None:
    value = """{"group":"a\\"b","kind":"it's","version":"v1"}"""
    quoted = value.replace("'", "''")
    modify(
        library,
        f"UPDATE properties SET value = '{quoted}' WHERE type = 'olm.gvk' AND operatorbundle_name = 'book.v0.1.0'",
        "INSERT INTO api VALUES ('a\"b', 'v1', 'it''s', 'plu\"ral')",
    )
    with open_backend(library) as backend:
        (entry,) = read("ChannelEntry", backend.get_channel_entries_that_provide('a"b', "v1", "it's"))
        bundle = read("Bundle", backend.get_bundle(entry.packageName, entry.channelName, entry.bundleName))
        assert bundle.providedApis[0].plural == 'plu"ral'
        for name in ("'", '"', "'; DROP TABLE package; --"):
            with pytest.raises(CatalogError, match="not found"):
                backend.get_package(name)


def test_cached_responses_are_equal(library: Path) -> None:
    with open_backend(library) as backend:
        first, second = (read("Bundle", backend.get_bundle("shelf", "alpha", "shelf.v1.2.0")) for _ in range(2))
        assert first == second
        lists = [read("Bundle", backend.list_bundles()) for _ in range(2)]
        assert lists[0] == lists[1]
        keys = [(bundle.packageName, bundle.channelName, bundle.csvName) for bundle in lists[0]]
        assert keys == sorted(keys)


def test_invalid_utf8_is_replaced(library: Path) -> None:
    modify(library, "UPDATE properties SET value = CAST(x'22ff22' AS TEXT) WHERE operatorbundle_name = 'book.v0.1.0'")
    with open_backend(library) as backend:
        bundle = read("Bundle", backend.get_bundle("book", "alpha", "book.v0.1.0"))
        assert {each.value for each in bundle.properties} == {'"\ufffd"'}


@pytest.mark.parametrize("name", METHODS)
def test_empty_arguments(library: Path, name: str) -> None:
    method = METHODS[name]
    arguments = [""] * len(method.arguments)
    with open_backend(library) as backend:
        query = getattr(backend, method.python_name)
        if name.startswith("List"):
            assert read(method.response, query())
        else:
            with pytest.raises(CatalogError, match="found"):
                query(*arguments)
