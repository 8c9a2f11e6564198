"""``opm serve --http-port``: the web API of OLM v1."""

from __future__ import annotations

import json
import signal
import socket
from typing import TYPE_CHECKING

import pytest
import requests

from tests.kit.certificates import certificate_authority, server_certificate
from tests.kit.opm import PROGRAM
from tests.kit.server import PATIENCE, Server, call, channel, fields

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.opm import Opm

SERVE = (str(PROGRAM), "serve")
BLOBS: list[dict[str, object]] = [
    {"schema": "olm.package", "name": "lagoon", "defaultChannel": "stable", "description": "pools " * 400},
    {"schema": "olm.channel", "package": "lagoon", "name": "stable", "entries": [{"name": "lagoon.v1"}]},
    {
        "schema": "olm.bundle",
        "package": "lagoon",
        "name": "lagoon.v1",
        "image": "example.com/lagoon:1",
        "properties": [{"type": "olm.package", "value": {"packageName": "lagoon", "version": "1.0.0"}}],
    },
]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the catalog."""
    directory = tmp_path_factory.mktemp("catalog")
    (directory / "catalog.json").write_text("\n".join(map(json.dumps, BLOBS)))
    return directory


@pytest.fixture(scope="module")
def server(catalog: Path) -> Iterator[Server]:
    """A server whose catalog is called pools in URLs."""
    with Server(str(catalog), "--http-port", "0", "--http-catalog", "pools", program=SERVE) as server:
        yield server


def http_port(server: Server) -> int:
    (line,) = (line for line in server.out if "http_port=" in line)
    return int(fields(line)["http_port"])


def url(server: Server, path: str = "pools/api/v1/all") -> str:
    return f"http://127.0.0.1:{http_port(server)}/catalogs/{path}"


def test_all_documents_are_json_lines_beside_grpc(server: Server) -> None:
    response = requests.get(url(server), headers={"Accept-Encoding": "identity"}, timeout=PATIENCE)
    assert response.headers["Content-Type"] == "application/jsonl"
    assert int(response.headers["Content-Length"]) == len(response.content)
    assert [json.loads(line) for line in response.content.splitlines()] == BLOBS
    with channel(server.address) as connection:
        assert call(connection, "GetPackage", name="lagoon").name == "lagoon"


def test_large_responses_are_compressed_on_demand(server: Server) -> None:
    response = requests.get(url(server), timeout=PATIENCE)
    assert response.headers["Content-Encoding"] == "gzip"
    assert len(response.text.splitlines()) == len(BLOBS)
    small = requests.get(url(server, "pools/api/v1/metas?schema=olm.bundle"), timeout=PATIENCE)
    assert "Content-Encoding" not in small.headers


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("schema=olm.bundle", [2]),
        ("package=lagoon", [1, 2]),
        ("package=lagoon&name=stable", [1]),
        ("name=absent", []),
        ("name=", [0, 1, 2]),
    ],
)
def test_metas_are_selected_by_fields(server: Server, query: str, expected: list[int]) -> None:
    response = requests.get(url(server, f"pools/api/v1/metas?{query}"), timeout=PATIENCE)
    assert [json.loads(line) for line in response.text.splitlines()] == [BLOBS[number] for number in expected]


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("If-None-Match", "ETag", 304),
        ("If-None-Match", '"other"', 200),
        ("If-Modified-Since", "Last-Modified", 304),
        ("If-Modified-Since", "Thu, 01 Jan 1970 00:00:00 GMT", 200),
        ("If-Modified-Since", "yesterday", 200),
        ("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT", 412),
        ("If-Match", '"other"', 412),
    ],
)
def test_conditions_are_evaluated(server: Server, header: str, value: str, status: int) -> None:
    known = requests.head(url(server), timeout=PATIENCE).headers
    response = requests.get(url(server), headers={header: known.get(value, value)}, timeout=PATIENCE)
    assert response.status_code == status
    assert bool(response.content) == (status == 200)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "pools/api/v1/metas", 200),
        ("GET", "other/api/v1/all", 404),
        ("GET", "pools/api/v1/graphql", 404),
        ("POST", "pools/api/v1/all", 405),
        ("GET", "pools/api/v1/metas?version=1", 400),
        ("GET", "Pools/api/v1/all", 400),
    ],
)
def test_status_codes_are_those_of_catalogd(server: Server, method: str, path: str, status: int) -> None:
    assert requests.request(method, url(server, path), timeout=PATIENCE).status_code == status


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/2.0\r\n\r\n", b"505"),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 40000 + b"\r\n\r\n", b"431"),
    ],
)
def test_invalid_requests_end_the_connection(server: Server, data: bytes, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", http_port(server)), PATIENCE) as connection:
        connection.sendall(data)
        assert connection.recv(4096).split()[1] == status


def test_tls_and_shutdown_with_an_idle_connection(catalog: Path, tmp_path: Path) -> None:
    authority = certificate_authority(tmp_path)
    files = server_certificate(tmp_path, authority)
    flags = ("--http-port", "0", "--tls-cert", str(files.certificate), "--tls-key", str(files.key))
    with Server(str(catalog), *flags, program=SERVE) as server, requests.Session() as session:
        address = f"https://127.0.0.1:{http_port(server)}/catalogs/any.name/api/v1/all"
        assert session.get(address, verify=str(authority.certificate), timeout=PATIENCE).status_code == 200
        assert server.stop(signal.SIGTERM) == 0
        assert "Traceback" not in server.err


def test_shutdown_with_idle_connections_before_and_after_a_request(catalog: Path) -> None:
    with Server(str(catalog), "--http-port", "0", program=SERVE) as server, requests.Session() as session:
        port = http_port(server)
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as silent:
            silent.sendall(b"GET /")
            assert session.get(f"http://127.0.0.1:{port}/catalogs/any/api/v1/all", timeout=PATIENCE).ok
            assert server.stop(signal.SIGTERM) == 0
            assert silent.recv(1) == b""
        assert "Traceback" not in server.err


def test_a_slow_client_gets_its_whole_response_at_shutdown(tmp_path: Path) -> None:
    large = {"schema": "example.com/large", "value": "a" * (8 << 20)}
    (tmp_path / "catalog.json").write_text("\n".join(map(json.dumps, [*BLOBS, large])))
    with Server(str(tmp_path), "--http-port", "0", program=SERVE) as server, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that the server has to wait
        connection.connect(("127.0.0.1", http_port(server)))
        connection.sendall(b"GET /catalogs/pools/api/v1/all HTTP/1.1\r\nHost: pools\r\n\r\n")
        received = [connection.recv(1024)]
        server.process.send_signal(signal.SIGTERM)
        while piece := connection.recv(4096):
            received.append(piece)
        assert server.process.wait(PATIENCE) == 0
        assert "Traceback" not in server.err
    head, _, content = b"".join(received).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(content)}".encode() in head
    assert len(content) > 8 << 20


def test_invalid_flags_are_rejected(opm: Opm, catalog: Path) -> None:
    assert "--http-port" in opm.attempt("serve", str(catalog), "--http-catalog", "a").stderr


def test_access_log_has_the_fields_of_grpc_calls(catalog: Path) -> None:
    with Server(str(catalog), "--http-port", "0", "--access-log", program=SERVE) as server:
        sent = requests.get(url(server), headers={"Accept-Encoding": "identity"}, timeout=PATIENCE).content
        compressed = requests.get(url(server), headers={"Accept-Encoding": "gzip"}, timeout=PATIENCE, stream=True)
        raw = compressed.raw.read(decode_content=False)
        requests.head(url(server, "none"), timeout=PATIENCE)
        with channel(server.address) as connection:
            call(connection, "GetPackage", name="lagoon")
        server.stop()
        records = [fields(line) for line in server.out if "msg=call" in line]
    grpc = next(record for record in records if record["method"] == "/api.Registry/GetPackage")
    first, second, third = (record for record in records if record is not grpc)
    assert first.keys() == second.keys() == third.keys() == grpc.keys() | {"path"}
    assert [(each["method"], each["code"], int(each["bytes"])) for each in (first, second, third)] == [
        ("GET", "200", len(sent)),
        ("GET", "200", len(raw)),
        ("HEAD", "404", 0),
    ]
    assert first["path"] == "/catalogs/pools/api/v1/all"
    assert first["peer"].startswith("127.0.0.1:")


def test_interrupted_downloads_continue_with_ranges(server: Server) -> None:
    whole = requests.get(url(server), headers={"Accept-Encoding": "identity"}, timeout=PATIENCE)
    headers = {"Range": "bytes=100-", "If-Range": whole.headers["Last-Modified"]}
    rest = requests.get(url(server), headers=headers, timeout=PATIENCE)
    assert (rest.status_code, rest.content) == (206, whole.content[100:])
    assert rest.headers["Content-Range"] == f"bytes 100-{len(whole.content) - 1}/{len(whole.content)}"


def test_documents_are_cached(opm: Opm, catalog: Path, tmp_path: Path) -> None:
    flags = ("--http-port", "0", "--cache-dir", str(tmp_path / "cache"))
    opm("serve", str(catalog), *flags, "--cache-only", "-t", str(tmp_path / "log"))
    stored = (tmp_path / "cache" / "documents").stat()
    with Server(str(catalog), *flags, program=SERVE) as server:
        response = requests.get(url(server), timeout=PATIENCE)
        assert [json.loads(line) for line in response.text.splitlines()] == BLOBS
    assert (tmp_path / "cache" / "documents").stat().st_mtime_ns == stored.st_mtime_ns
