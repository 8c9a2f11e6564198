"""Documents for the web API in the directory of a catalog's cache."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import pytest

from opmkit.core.errors import DiskError
from opmkit.server.http_api import content
from opmkit.server.http_api.content import CatalogLines, open_content
from opmkit.server.json_cache.cache import JsonCache, load_cache
from tests.kit.catalogd import DOCUMENTS, write_catalog

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    return write_catalog(tmp_path / "catalog")


@pytest.fixture
def cache(catalog: Path, tmp_path: Path) -> JsonCache:
    return load_cache(catalog, tmp_path / "cache", enforce=False)


def read(catalog: Path, cache: JsonCache, directory: Path | None) -> tuple[str, list[bytes]]:
    """Return the tag, and the responses to some queries."""
    with open_content(catalog, cache, directory) as content:
        queries: list[dict[str, str]] = [
            {},
            {"schema": "olm.bundle"},
            {"name": "lagoon"},
            {"package": "lagoon", "name": "x"},
        ]
        return content.tag, [b"".join(content.read(content.select(**query))) for query in queries]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The catalogs that were parsed."""
    found: list[Path] = []
    write = CatalogLines.write.__func__  # type: ignore[attr-defined]

    def counting(cls: type[CatalogLines], root: Path) -> CatalogLines:
        found.append(root)
        content: CatalogLines = write(cls, root)
        return content

    monkeypatch.setattr(CatalogLines, "write", classmethod(counting))
    return found


def test_catalog_is_parsed_once(catalog: Path, cache: JsonCache, tmp_path: Path, parsed: list[Path]) -> None:
    directory = tmp_path / "cache"
    first = read(catalog, cache, directory)
    assert [len(text.splitlines()) for text in first[1]] == [len(DOCUMENTS), 1, 2, 0]
    assert read(catalog, cache, directory) == first
    assert parsed == [catalog]
    assert load_cache(catalog, directory, enforce=True) == cache
    assert sorted(path.name for path in directory.iterdir()) == ["cache", "digest", "documents"]
    assert read(catalog, cache, None) == first
    assert len(parsed) == 2


def test_documents_of_another_catalog_are_replaced(
    catalog: Path, cache: JsonCache, tmp_path: Path, parsed: list[Path]
) -> None:
    directory = tmp_path / "cache"
    read(catalog, cache, directory)
    (catalog / "more.json").write_text('{"schema": "acme.more"}')
    newer = load_cache(catalog, directory, enforce=False)
    assert newer.digest != cache.digest
    _, (everything, *_) = read(catalog, newer, directory)
    assert b"acme.more" in everything
    assert read(catalog, newer, directory)[1][0] == everything
    assert len(parsed) == 2


def damaged(data: bytes) -> dict[str, bytes]:
    """Return variants of stored documents that must not be used."""
    (length,) = struct.unpack(">Q", data[-8:])
    documents, index = data[: -8 - length], json.loads(data[-8 - length : -8])

    def with_index(**changes: object) -> bytes:
        text = json.dumps(index | changes).encode()
        return documents + text + struct.pack(">Q", len(text))

    return {
        "empty": b"",
        "short": data[:100],
        "another document": data.replace(b"example.com/lagoon:1", b"example.com/lagoon:2"),
        "length": data[:-8] + b"\xff" * 8,
        "not JSON": documents + b"x" * length + data[-8:],
        "a list": documents + b"[]" + struct.pack(">Q", 2),
        "digest": with_index(digest="0"),
        "negative offset": with_index(offsets=[-1, len(documents)]),
        "missing offsets": with_index(offsets=[]),
        "offsets out of order": with_index(offsets=[0, 50, 20, len(documents)]),
        "offsets of other types": with_index(offsets="abc"),
        "number out of range": with_index(numbers=index["numbers"] | {"name": {"lagoon": [len(DOCUMENTS)]}}),
        "numbers of other types": with_index(numbers={"name": [], "schema": [], "package": []}),
        "missing field": with_index(numbers={}),
    }


def test_damaged_documents_are_replaced(catalog: Path, cache: JsonCache, tmp_path: Path, parsed: list[Path]) -> None:
    directory = tmp_path / "cache"
    expected = read(catalog, cache, directory)
    path = directory / "documents"
    data = path.read_bytes()
    for problem, text in damaged(data).items():
        assert text != data
        path.write_bytes(text)
        parsed.clear()
        assert read(catalog, cache, directory) == expected, problem
        assert parsed == [catalog], problem
        assert path.read_bytes() == data, problem


def test_catalog_that_changes_meanwhile_is_not_stored(
    catalog: Path, cache: JsonCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (catalog / "more.json").write_text('{"schema": "acme.more"}')
    with open_content(catalog, cache, tmp_path / "cache"):
        pass
    assert not (tmp_path / "cache" / "documents").exists()
    (catalog / "more.json").unlink()
    monkeypatch.setattr(content, "_read", lambda path, digest: None)
    (tmp_path / "cache" / ".documents-0").touch()  # of a process that was killed
    with open_content(catalog, cache, tmp_path / "cache"):
        pass
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["cache", "digest", "documents"]


def test_documents_that_cannot_be_stored_are_served(catalog: Path, cache: JsonCache, tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    (directory / "documents").mkdir()  # as permissions do not stop root
    assert read(catalog, cache, directory) == read(catalog, cache, None)
    with pytest.raises(DiskError, match="documents"):
        open_content(catalog, cache, directory, must_store=True)
    assert not list(directory.glob(".documents-*"))
