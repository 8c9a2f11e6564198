"""Recorded responses of servers of Go opm, compared with those of opmkit."""

from __future__ import annotations

import json
import shutil
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import yaml
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.json_format import MessageToDict
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from opmkit.cli.entrypoints import run_initializer
from tests.index.recorded_adds import REGISTRY, add_steps
from tests.kit.opm import PROGRAM, run
from tests.kit.server import Server, call, channel
from tests.kit.shared import SHARED, needs_shared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_shared

GOLDEN = SHARED / "golden" / "grpc"
PLURALS = {"apicuritos", "apicuritoes"}
"""Plurals that bundles of one package have for the same kind; operator-registry stores any of them."""
CATALOG = "fbc-migrated"
RECORDS = sorted(path.stem for path in GOLDEN.glob("sqlite-*.json"))


@cache
def record(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    for recorded in read["calls"]:
        choose_plural(recorded.get("response", {}))
    return read


def choose_plural(bundle: dict[str, Any]) -> None:
    """Replace the plurals of a bundle by one of those that are equally valid."""
    for api in bundle.get("providedApis", ()):
        if api.get("plural") in PLURALS:
            api["plural"] = min(PLURALS)


def write_manifests(directory: Path, packages: dict[str, Any]) -> None:
    """Write a directory for each package, with the manifests of its versions and the file with its channels."""
    for name, package in packages.items():
        for version in (SHARED / "corpus" / "bundles" / name).iterdir():
            shutil.copytree(version / "manifests", directory / name / version.name)
        (directory / name / f"{name}.package.yaml").write_text(yaml.safe_dump(package))


def build(name: str, directory: Path) -> Path:
    """Build the database of a record by its steps."""
    database = directory / f"{name}.db"
    recorded = record(name)
    for step in recorded["steps"]:
        if step[0] == "initializer":
            write_manifests(directory / "manifests", recorded["manifests"]["packages"])
            assert run_initializer(["-m", str(directory / "manifests"), "-o", str(database)]) == 0
        elif (added := add_steps({"steps": [{"argv": step}]})) is not None:
            assert added[0].run(database) == 0
        else:
            assert run([part.replace("{db}", str(database)).replace("{registry}", REGISTRY) for part in step]) == 0
    return database


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[grpc.Channel]:
    directory = tmp_path_factory.mktemp("grpc")
    if request.param == CATALOG:
        catalog = (GOLDEN / f"{CATALOG}.catalog.json").read_text()
        (directory / "catalog.json").write_text(catalog.replace("{registry}", REGISTRY))
        serving = Server(str(directory), program=(str(PROGRAM), "serve"))
    else:
        serving = Server("--database", str(build(request.param, directory)))
    with serving as server, channel(server.address) as connection:
        yield connection


def shown(message: Any) -> Any:
    """Return a message in the form of the records, with digests of manifests and a placeholder for the registry."""
    fields = MessageToDict(message, preserving_proto_field_name=True)
    if "csvJson" in fields:
        fields["csvJson"] = digest(fields["csvJson"])
    if "object" in fields:
        fields["object"] = list(map(digest, fields["object"]))
    choose_plural(fields)
    if "bundlePath" in fields:
        fields["bundlePath"] = fields["bundlePath"].replace(REGISTRY, "{registry}")
    return fields


def digest(document: str) -> str:
    text = json.dumps(json.loads(document), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def with_sorted_lists(value: Any) -> Any:
    """Return a value with all lists sorted."""
    if isinstance(value, dict):
        return {name: with_sorted_lists(member) for name, member in value.items()}
    if isinstance(value, list):
        return sorted(map(with_sorted_lists, value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def outcome(connection: grpc.Channel, method: str, request: dict[str, str]) -> dict[str, Any]:
    """Return the response to a call in the form of the records."""
    try:
        response = call(connection, method, **request)
    except grpc.RpcError as error:
        return {"error": {"code": error.code().name, "message": error.details()}}
    return {"responses": list(map(shown, response))} if isinstance(response, list) else {"response": shown(response)}


@pytest.mark.parametrize("served", RECORDS, indirect=True)
def test_database_responses_equal_the_record(served: grpc.Channel, request: pytest.FixtureRequest) -> None:
    calls = record(request.node.callspec.params["served"])["calls"]
    assert len(calls) > 150
    for recorded in calls:
        actual = outcome(served, recorded["method"], recorded["request"])
        assert with_sorted_lists(actual) == with_sorted_lists(expected(recorded)), (
            recorded["method"],
            recorded["request"],
        )


@pytest.mark.parametrize("served", [CATALOG], indirect=True)
def test_catalog_responses_equal_the_record(served: grpc.Channel) -> None:
    """Of several bundles that replace the same one, Go opm returns any, opmkit the one nearest to the head."""
    calls = record(CATALOG)["calls"]
    assert len(calls) > 150
    for recorded in calls:
        valid = [expected(recorded)]
        if recorded["method"] == "GetBundleThatReplaces" and "response" in recorded:
            valid = list(alternatives(served, calls, recorded["request"]))
            assert expected(recorded) in valid
        actual = outcome(served, recorded["method"], recorded["request"])
        assert with_sorted_lists(actual) in list(map(with_sorted_lists, valid)), (
            recorded["method"],
            recorded["request"],
        )


def expected(recorded: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded outcome of a call."""
    return {name: recorded[name] for name in ("response", "responses", "error") if name in recorded}


def alternatives(
    connection: grpc.Channel, calls: list[dict[str, Any]], request: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the recorded responses with all bundles that replace the requested one in its channel."""
    entries = call(connection, "GetChannelEntriesThatReplace", csvName=request["csvName"])
    names = {entry.bundleName for entry in entries if entry.channelName == request["channelName"]}
    channel_fields = {name: request[name] for name in ("pkgName", "channelName")}
    for recorded in calls:
        fields = recorded["request"]
        in_channel = channel_fields.items() <= fields.items()
        if recorded["method"] == "GetBundle" and in_channel and fields.get("csvName") in names:
            yield {"response": recorded["response"]}


@pytest.mark.parametrize("served", RECORDS[:1], indirect=True)
def test_health_and_reflection_equal_the_record(served: grpc.Channel) -> None:
    """opmkit lists the newer version of reflection as well, and error messages differ.

    The API of the recorded version has no dependencies; that of later ones has.
    """
    reflection = "grpc.reflection.v1alpha.ServerReflection"
    health: Any = health_pb2_grpc.HealthStub(served)
    for recorded in record(RECORDS[0])["other_services"]:
        method, fields = recorded["method"], recorded["request"]
        if method.startswith(reflection):
            request = reflection_pb2.ServerReflectionRequest(**fields)
            stub: Any = reflection_pb2_grpc.ServerReflectionStub
            (answer,) = stub(served).ServerReflectionInfo(iter([request]))
            if "list_services" in fields:
                names = {service.name for service in answer.list_services_response.service}
                services = recorded["response"]["list_services_response"]["service"]
                assert names == {service["name"] for service in services} | {"grpc.reflection.v1.ServerReflection"}
            elif "error_response" in recorded["response"]:
                assert answer.error_response.error_code == recorded["response"]["error_response"]["error_code"]
            else:
                files = map(FileDescriptorProto.FromString, answer.file_descriptor_response.file_descriptor_proto)
                file, *dependencies = (each.name for each in files)
                assert [file] == recorded["response"]["file_descriptor_names"]
                assert set(dependencies) <= {"google/protobuf/struct.proto"}
        elif "error" in recorded:
            with pytest.raises(grpc.RpcError) as caught:
                list(health.Watch(health_pb2.HealthCheckRequest(**fields)))
            assert caught.value.code().name == recorded["error"]["code"]
            assert caught.value.details() == recorded["error"]["message"]
        else:
            answer = health.Check(health_pb2.HealthCheckRequest(**fields))
            assert MessageToDict(answer) == recorded["response"]
