"""What the reference's servers answered, asked of ours by a gRPC client over a socket."""

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
"""What bundles of one package call the same kind: which of them the reference stores is chance."""
CATALOG = "fbc-migrated"
RECORDS = sorted(path.stem for path in GOLDEN.glob("sqlite-*.json"))


@cache
def record(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    for recorded in read["calls"]:
        choose_plural(recorded.get("response", {}))
    return read


def choose_plural(bundle: dict[str, Any]) -> None:
    """Let a bundle have one plural where either is right."""
    for api in bundle.get("providedApis", ()):
        if api.get("plural") in PLURALS:
            api["plural"] = min(PLURALS)


def write_manifests(directory: Path, packages: dict[str, Any]) -> None:
    """A folder for each package: the manifests of its versions, and the file that names its channels."""
    for name, package in packages.items():
        for version in (SHARED / "corpus" / "bundles" / name).iterdir():
            shutil.copytree(version / "manifests", directory / name / version.name)
        (directory / name / f"{name}.package.yaml").write_text(yaml.safe_dump(package))


def build(name: str, directory: Path) -> Path:
    """The database of a record, by its steps."""
    database = directory / f"{name}.db"
    told = record(name)
    for step in told["steps"]:
        if step[0] == "initializer":
            write_manifests(directory / "manifests", told["manifests"]["packages"])
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
    """A message as the records show it; manifests are digests of their content there, and registries have no name."""
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


def as_sets(value: Any) -> Any:
    """Everything repeated in one order."""
    if isinstance(value, dict):
        return {name: as_sets(member) for name, member in value.items()}
    if isinstance(value, list):
        return sorted(map(as_sets, value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def outcome(connection: grpc.Channel, method: str, request: dict[str, str]) -> dict[str, Any]:
    """The answer to a call, in the form of the records."""
    try:
        answer = call(connection, method, **request)
    except grpc.RpcError as error:
        return {"error": {"code": error.code().name, "message": error.details()}}
    return {"responses": list(map(shown, answer))} if isinstance(answer, list) else {"response": shown(answer)}


@pytest.mark.parametrize("served", RECORDS, indirect=True)
def test_every_call_is_answered_as_recorded(served: grpc.Channel, request: pytest.FixtureRequest) -> None:
    calls = record(request.node.callspec.params["served"])["calls"]
    assert len(calls) > 150
    for recorded in calls:
        found = outcome(served, recorded["method"], recorded["request"])
        assert as_sets(found) == as_sets(wanted(recorded)), (recorded["method"], recorded["request"])


@pytest.mark.parametrize("served", [CATALOG], indirect=True)
def test_a_catalog_is_served_as_recorded(served: grpc.Channel) -> None:
    """Of several bundles that replace the same, the reference gives any, and ours the one nearest to the head."""
    calls = record(CATALOG)["calls"]
    assert len(calls) > 150
    for recorded in calls:
        right = [wanted(recorded)]
        if recorded["method"] == "GetBundleThatReplaces" and "response" in recorded:
            right = list(alternatives(served, calls, recorded["request"]))
            assert wanted(recorded) in right
        found = outcome(served, recorded["method"], recorded["request"])
        assert as_sets(found) in list(map(as_sets, right)), (recorded["method"], recorded["request"])


def wanted(recorded: dict[str, Any]) -> dict[str, Any]:
    """The recorded outcome of a call."""
    return {name: recorded[name] for name in ("response", "responses", "error") if name in recorded}


def alternatives(
    connection: grpc.Channel, calls: list[dict[str, Any]], asked: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """All bundles that replace the one asked for in its channel."""
    entries = call(connection, "GetChannelEntriesThatReplace", csvName=asked["csvName"])
    names = {entry.bundleName for entry in entries if entry.channelName == asked["channelName"]}
    place = {name: asked[name] for name in ("pkgName", "channelName")}
    for one in calls:
        request = one["request"]
        if one["method"] == "GetBundle" and place.items() <= request.items() and request.get("csvName") in names:
            yield {"response": one["response"]}


@pytest.mark.parametrize("served", RECORDS[:1], indirect=True)
def test_health_and_reflection_answer_as_recorded(served: grpc.Channel) -> None:
    """Ours lists the newer version of reflection as well, and each error has words of its own."""
    reflection = "grpc.reflection.v1alpha.ServerReflection"
    health: Any = health_pb2_grpc.HealthStub(served)
    for recorded in record(RECORDS[0])["other_services"]:
        method, asked = recorded["method"], recorded["request"]
        if method.startswith(reflection):
            request = reflection_pb2.ServerReflectionRequest(**asked)
            stub: Any = reflection_pb2_grpc.ServerReflectionStub
            (answer,) = stub(served).ServerReflectionInfo(iter([request]))
            if "list_services" in asked:
                names = {service.name for service in answer.list_services_response.service}
                wanted = {one["name"] for one in recorded["response"]["list_services_response"]["service"]}
                assert names == wanted | {"grpc.reflection.v1.ServerReflection"}
            elif "error_response" in recorded["response"]:
                assert answer.error_response.error_code == recorded["response"]["error_response"]["error_code"]
            else:
                (file,) = map(FileDescriptorProto.FromString, answer.file_descriptor_response.file_descriptor_proto)
                assert [file.name] == recorded["response"]["file_descriptor_names"]
        elif "error" in recorded:
            with pytest.raises(grpc.RpcError) as caught:
                list(health.Watch(health_pb2.HealthCheckRequest(**asked)))
            assert caught.value.code().name == recorded["error"]["code"]
            assert caught.value.details() == recorded["error"]["message"]
        else:
            answer = health.Check(health_pb2.HealthCheckRequest(**asked))
            assert MessageToDict(answer) == recorded["response"]
