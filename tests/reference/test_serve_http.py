"""The web API has the same responses as catalogd.

``OPMKIT_REFERENCE_CATALOGD`` is the path of the program that ``python -m tests.kit.catalogd build PROGRAM`` builds.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from opmkit.index.fbc.write import to_json, to_yaml
from opmkit.index.fbc.write import write_catalog as write_blobs
from tests.e2e.test_serve_http import http_port
from tests.kit.catalogd import (
    ALL,
    CATALOG,
    DIFFERENT,
    METAS,
    RECORD,
    Call,
    exchange,
    responses,
    serve_go,
    write_catalog,
)
from tests.kit.catalogmaker import build_catalog
from tests.kit.opm import FIXTURES, PROGRAM
from tests.kit.server import Server
from tests.kit.shared import SHARED, needs_shared

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

CATALOGD = os.environ.get("OPMKIT_REFERENCE_CATALOGD", "")
pytestmark = pytest.mark.skipif(not CATALOGD, reason="set OPMKIT_REFERENCE_CATALOGD to the path of catalogd")


def serve(catalog: Path) -> AbstractContextManager[Server]:
    return Server(str(catalog), "--http-port", "0", "--http-catalog", CATALOG, program=(str(PROGRAM), "serve"))


def test_recorded_responses_are_those_of_catalogd(tmp_path: Path) -> None:
    with serve_go(CATALOGD, write_catalog(tmp_path / "catalog")) as port:
        assert responses(port) == json.loads(RECORD.read_text())
        for call, (status, _) in DIFFERENT.items():
            assert exchange(port, call).status == status, call


def assert_same_documents(catalog: Path) -> int:
    """Compare the responses to queries by one field; return the number of such queries."""
    with serve_go(CATALOGD, catalog) as theirs, serve(catalog) as server:
        ours = http_port(server)
        everything = exchange(theirs, Call("GET", ALL)).content
        assert exchange(ours, Call("GET", ALL)).content == everything
        documents = list(map(json.loads, everything.splitlines()))
        wanted = {(key, document.get(key)) for document in documents for key in ("schema", "package", "name")}
        queries = sorted(f"{key}={quote(value, safe='')}" for key, value in wanted if value)
        for query in queries[:100]:
            call = Call("GET", f"{METAS}?{query}")
            assert exchange(ours, call).content == exchange(theirs, call).content, query
        return len(queries)


def test_documents_equal_those_of_catalogd(tmp_path: Path) -> None:
    assert assert_same_documents(FIXTURES / "catalogs" / "valid") > 5
    assert assert_same_documents(write_catalog(tmp_path / "catalog")) == 8


@needs_shared
@pytest.mark.timeout(0)
@pytest.mark.parametrize("extension", ["json", "yaml"])
def test_documents_of_published_bundles_equal_those_of_catalogd(extension: str, tmp_path: Path) -> None:
    directories = sorted(path.parent for path in (SHARED / "corpus" / "bundles").glob("*/*/metadata"))
    published = [path for path in directories if not path.parent.name.startswith(("syn-", "opreg-"))]
    encode = to_json if extension == "json" else to_yaml
    write_blobs(build_catalog(published), tmp_path / "catalog", extension, encode)
    assert assert_same_documents(tmp_path / "catalog") > 300
