"""``grpc_health_probe``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from opmkit.cli.grpc_health_probe import probe
from tests.kit.catalogs import ScriptedCatalog, free_port
from tests.kit.certificates import certificate_authority, server_certificate

if TYPE_CHECKING:
    from pathlib import Path

HEALTH = "grpc.health.v1.Health"


def server(status: int | grpc.StatusCode, **settings: Any) -> ScriptedCatalog:
    def check(request: Any, context: grpc.ServicerContext) -> bytes:
        if isinstance(status, grpc.StatusCode):
            context.abort(status, "no")
        return health_pb2.HealthCheckResponse(status=status).SerializeToString()

    return ScriptedCatalog({"Check": check}, service=HEALTH, **settings)


@pytest.mark.parametrize("flag", ["-addr={}", "--addr={}"])
def test_a_serving_server(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with server(health_pb2.HealthCheckResponse.SERVING) as catalog:
        assert probe([flag.format(catalog.address), "-connect-timeout=5s", "-rpc-timeout", "500ms"]) == 0
    assert capsys.readouterr().out == "status: SERVING\n"


def test_the_default_host_is_localhost() -> None:
    with server(health_pb2.HealthCheckResponse.SERVING) as catalog:
        assert probe([f"-addr=:{catalog.address.rpartition(':')[2]}"]) == 0


@pytest.mark.parametrize(
    ("answer", "status"),
    [(health_pb2.HealthCheckResponse.NOT_SERVING, 4), (grpc.StatusCode.INTERNAL, 3), (grpc.StatusCode.NOT_FOUND, 3)],
)
def test_a_server_that_is_not_serving(answer: Any, status: int) -> None:
    with server(answer) as catalog:
        assert probe([f"-addr={catalog.address}"]) == status


def test_a_failed_connection(capsys: pytest.CaptureFixture[str]) -> None:
    assert probe([f"-addr=127.0.0.1:{free_port()}"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.slow
def test_tls(tmp_path: Path) -> None:
    authority = certificate_authority(tmp_path)
    with server(health_pb2.HealthCheckResponse.SERVING, tls=server_certificate(tmp_path, authority)) as catalog:
        assert probe([f"-addr={catalog.address}", "-tls", f"-tls-ca-cert={authority.certificate}"]) == 0
        assert probe([f"-addr={catalog.address}", "-tls"]) == 2


@pytest.mark.parametrize("arguments", [[], ["-addr"], ["-addr=x:1", "-bogus"], ["-addr=x:1", "-rpc-timeout=soon"]])
def test_an_invalid_command_line(arguments: list[str]) -> None:
    assert probe(arguments) == 1


def test_help() -> None:
    assert probe(["-h"]) == 0
