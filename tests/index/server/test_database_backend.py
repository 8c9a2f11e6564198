"""Answers from databases that are not as they should be; the recorded answers are of those that are."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.api.messages import message_class
from opmkit.index.api.methods import METHODS
from opmkit.index.errors import CatalogError
from opmkit.index.server.database_backend import DatabaseBackend
from opmkit.index.server.response_cache import ResponseCache
from opmkit.index.sqlite.serving import served_database
from tests.kit.catalogs import write_library

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHELF = ("shelfs.example.com", "v1", "Shelf")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    write_library(tmp_path / "library.db")
    return tmp_path / "library.db"


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


@contextmanager
def answers(path: Path) -> Iterator[DatabaseBackend]:
    with (
        served_database(path, migrate=True) as database,
        ResponseCache(database.bundles) as prepared,
        DatabaseBackend.open(database, prepared) as opened,
    ):
        yield opened


def read(kind: str, answer: Any) -> Any:
    """The messages of an answer, which is made where it is not ready."""
    made = answer() if callable(answer) else answer
    parse = message_class(kind).FromString
    return parse(made) if isinstance(made, bytes) else [parse(one) for one in made]


def test_the_default_provider_needs_its_own_manifests_alone(library: Path) -> None:
    change(library, "UPDATE operatorbundle SET bundle = NULL WHERE name = 'book.v0.1.0'")
    with answers(library) as opened:
        assert read("Bundle", opened.get_default_bundle_that_provides(*SHELF)).csvName == "shelf.v1.1.0"
        with pytest.raises(CatalogError, match=r"no entry found that provides books\.example\.com v1 Book"):
            opened.get_default_bundle_that_provides("books.example.com", "v1", "Book")


def test_names_may_have_quotes(library: Path) -> None:
    value = """{"group":"a\\"b","kind":"it's","version":"v1"}"""
    quoted = value.replace("'", "''")
    change(
        library,
        f"UPDATE properties SET value = '{quoted}' WHERE type = 'olm.gvk' AND operatorbundle_name = 'book.v0.1.0'",
        "INSERT INTO api VALUES ('a\"b', 'v1', 'it''s', 'plu\"ral')",
    )
    with answers(library) as opened:
        (entry,) = read("ChannelEntry", opened.get_channel_entries_that_provide('a"b', "v1", "it's"))
        bundle = read("Bundle", opened.get_bundle(entry.packageName, entry.channelName, entry.bundleName))
        assert bundle.providedApis[0].plural == 'plu"ral'
        for strange in ("'", '"', "'; DROP TABLE package; --"):
            with pytest.raises(CatalogError, match="not found"):
                opened.get_package(strange)


def test_answers_are_the_same_whether_prepared_before_or_now(library: Path) -> None:
    with answers(library) as opened:
        first, second = (read("Bundle", opened.get_bundle("shelf", "alpha", "shelf.v1.2.0")) for _ in range(2))
        assert first == second
        lists = [read("Bundle", opened.list_bundles()) for _ in range(2)]
        assert lists[0] == lists[1]
        places = [(one.packageName, one.channelName, one.csvName) for one in lists[0]]
        assert places == sorted(places)


def test_text_that_is_no_utf8_is_sent_with_replacements(library: Path) -> None:
    change(library, "UPDATE properties SET value = CAST(x'22ff22' AS TEXT) WHERE operatorbundle_name = 'book.v0.1.0'")
    with answers(library) as opened:
        bundle = read("Bundle", opened.get_bundle("book", "alpha", "book.v0.1.0"))
        assert {one.value for one in bundle.properties} == {'"\ufffd"'}


@pytest.mark.parametrize("name", METHODS)
def test_empty_names_are_looked_up_like_others(library: Path, name: str) -> None:
    method = METHODS[name]
    arguments = [""] * len(method.arguments)
    with answers(library) as opened:
        query = getattr(opened, method.python_name)
        if name.startswith("List"):
            assert read(method.response, query())
        else:
            with pytest.raises(CatalogError, match="found"):
                query(*arguments)
