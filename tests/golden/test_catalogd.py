"""Replay requests of the web API whose responses catalogd has recorded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.test_serve_http import http_port
from tests.kit.catalogd import CATALOG, DIFFERENT, RECORD, exchange, responses, write_catalog
from tests.kit.opm import PROGRAM
from tests.kit.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    catalog = write_catalog(tmp_path_factory.mktemp("served") / "catalog")
    flags = ("--http-port", "0", "--http-catalog", CATALOG)
    with Server(str(catalog), *flags, program=(str(PROGRAM), "serve")) as server:
        yield http_port(server)


def test_responses_equal_those_of_catalogd(port: int) -> None:
    recorded = json.loads(RECORD.read_text())
    assert len(recorded) > 300
    for expected, actual in zip(recorded, responses(port), strict=True):
        assert actual == expected, expected["request"]


def test_some_responses_differ_on_purpose(port: int) -> None:
    for call, (_, status) in DIFFERENT.items():
        assert exchange(port, call).status == status, call
