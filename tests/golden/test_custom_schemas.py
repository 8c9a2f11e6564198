"""Replay calls of the experimental service for custom schemas whose responses Go opm has recorded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.kit.customschemas import RECORD, responses, write_catalog
from tests.kit.opm import PROGRAM
from tests.kit.server import Server, channel

if TYPE_CHECKING:
    from pathlib import Path


def test_responses_equal_those_of_go_opm(tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path / "catalog")
    recorded = json.loads(RECORD.read_text())
    assert sum(bool(each["response"]) for each in recorded) > 10
    with Server(str(catalog), program=(str(PROGRAM), "serve")) as server, channel(server.address) as connection:
        for _ in range(2):  # from the files of the cache, then from the response cache
            assert responses(connection) == recorded
        described = ProtoReflectionDescriptorDatabase(connection)
        assert {"api.Registry", "api.ExperimentalRegistry"} <= set(described.get_services())
        file = described.FindFileContainingSymbol("api.ExperimentalRegistry")
        assert list(file.dependency) == ["google/protobuf/struct.proto"]
