"""Documents of custom schemas as messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from google.protobuf.json_format import MessageToDict

from opmkit.index.grpc_api import STRUCT, message_class
from opmkit.server.catalog_backend import (
    CatalogBackend,
    check_custom_schema,
    count_records,
    custom_documents,
    custom_schemas,
)
from opmkit.server.json_cache.cache import load_cache
from opmkit.server.response_cache import ResponseCache
from opmkit.server.settings import InvalidQuery, QueryFailed
from tests.kit.customschemas import write_catalog

if TYPE_CHECKING:
    from pathlib import Path


def test_documents_are_computed_once(tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path / "catalog", [{"schema": "many", "name": f"n{number}"} for number in range(500)])
    cache = load_cache(catalog, tmp_path / "cache", enforce=False)
    assert custom_schemas(cache.directory) == {
        ("acme.note", "reef"), ("acme.note", "tide"), ("acme.note", ""), ("acme-Global_1", ""), ("many", "")
    }  # fmt: skip
    with ResponseCache(count_records(cache)) as responses:
        backend = CatalogBackend(cache, responses)
        first = backend.experimental_list_package_custom_schemas("many", "")
        assert callable(first)
        messages = list(first())
        assert len(messages) == 500
        again = backend.experimental_list_package_custom_schemas("many", "")
        assert not callable(again)
        assert list(again) == messages
        assert backend.experimental_list_package_custom_schemas("many", "reef") == ()
        bundle = backend.get_bundle("reef", "stable", "reef.v1")
        assert callable(bundle)
        assert b"quay.io/me/reef:1" in bundle()


def test_documents_that_are_no_messages_are_errors(tmp_path: Path) -> None:
    directory = tmp_path / "metas" / "acme" / "reef"
    directory.mkdir(parents=True)
    deep = json.dumps({"a": 1}).replace("1", "[" * 900 + "]" * 900)
    for text in ("[1]", "{", "1e999", deep, '{"a": 1'):
        (directory / "a.json").write_text(text)
        with pytest.raises(QueryFailed, match=r"schema acme: document a\.json: not convertible"):
            list(custom_documents(tmp_path, "acme", "reef"))
    (directory / "a.json").write_text('{"b": {"c": [null, {}]}}')
    (message,) = custom_documents(tmp_path, "acme", "reef")
    assert MessageToDict(message_class(STRUCT).FromString(message)) == {"b": {"c": [None, {}]}}


@pytest.mark.parametrize(("schema", "package"), [("", ""), ("..", ""), ("a/b", ""), ("a", "../b"), ("a", "\0")])
def test_names_that_could_leave_the_cache_are_invalid(schema: str, package: str) -> None:
    with pytest.raises(InvalidQuery):
        check_custom_schema(schema, package)
