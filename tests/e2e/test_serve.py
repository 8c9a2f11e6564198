"""``opm registry serve`` and ``registry-server``: start, errors, calls and shutdown."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import time
from contextlib import closing
from typing import TYPE_CHECKING, cast

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from opmkit.index.grpc_api import METHODS, request_class, response_class
from opmkit.server.http2.frames import window_update_frame
from tests.index.sqlite.old_databases import write_old_database
from tests.kit.catalogs import write_library
from tests.kit.certificates import certificate_authority, server_certificate
from tests.kit.h2peer import Peer
from tests.kit.opm import PROGRAM
from tests.kit.requirements import require
from tests.kit.server import PATIENCE, SERVE, Server, call, channel, fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.kit.opm import Opm

REGISTRY_SERVER = (str(PROGRAM.with_name("registry-server")),)
LARGE = 400
"""Number of bundles of 20 kB each."""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    write_library(tmp_path / "library.db")
    return tmp_path / "library.db"


@pytest.fixture
def large(library: Path) -> Path:
    """An index whose list of bundles is larger than the buffers of a connection."""
    add_large_bundles(library, LARGE)
    return library


def add_large_bundles(library: Path, count: int) -> None:
    with closing(sqlite3.connect(library)) as database:
        for number in range(count):
            name = f"large.v{number}"
            database.execute(
                "INSERT INTO operatorbundle (name, version, bundlepath) VALUES (?, '1.0.0', 'quay.io/x/y')", (name,)
            )
            database.execute("INSERT INTO channel_entry VALUES (NULL, 'stable', 'large', ?, NULL, 0)", (name,))
            database.execute("INSERT INTO properties VALUES ('x', ?, ?, '1.0.0', 'quay.io/x/y')", ("x" * 20_000, name))
        database.commit()


def packages(server: Server) -> list[str]:
    with channel(server.address) as connection:
        return [package.name for package in call(connection, "ListPackages")]


def failure(*flags: str, status: int = 1, program: tuple[str, ...] = SERVE) -> str:
    """Return the errors of a server that does not start."""
    done = subprocess.run([*program, *flags], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    return done.stderr


def has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def wait_for_end(processes: list[int]) -> None:
    end = time.monotonic() + PATIENCE
    while not all(map(has_ended, processes)):
        assert time.monotonic() < end, processes
        time.sleep(0.02)


@pytest.mark.parametrize("program", [SERVE, REGISTRY_SERVER], ids=["opm", "registry-server"])
def test_database_is_served_without_changing_it(library: Path, program: tuple[str, ...]) -> None:
    before, directory = (library.read_bytes(), library.stat()), sorted(library.parent.iterdir())
    library.chmod(0o444)
    with Server("--database", str(library), program=program) as server:
        assert packages(server) == ["book", "shelf"]
        with channel(server.address) as connection:
            assert len(call(connection, "ListBundles")) == 6
        assert server.stop() == 0
    assert (library.read_bytes(), library.stat().st_mtime_ns) == (before[0], before[1].st_mtime_ns)
    assert sorted(library.parent.iterdir()) == directory
    assert [fields(line)["msg"] for line in server.out] == ["serving registry", "shutting down..."]
    assert server.err == ""


def test_database_of_an_index_image_is_served(opm: Opm) -> None:
    opm.build_bundle("0.1.0", "oci:layout:bundle")
    opm(
        "index",
        "add",
        "--bundles",
        "oci:layout:bundle",
        "--binary-image",
        "scratch",
        "--push",
        "--tag",
        "oci:layout:index",
    )
    with Server("--index", f"oci:{opm.directory}/layout:index") as server:
        assert packages(server) == ["lagoon-operator"]
        assert fields(server.out[0])["database"] == f"oci:{opm.directory}/layout:index"


def test_older_schema_is_migrated_in_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database, scratch = tmp_path / "old.db", tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    write_old_database(database, 5)
    before = database.read_bytes()
    with Server("--database", str(database)) as server:
        with channel(server.address) as connection:
            bundle = call(connection, "GetBundle", pkgName="a", channelName="stable", csvName="a.v3")
        assert "olm.package" in {known.type for known in bundle.properties}
        assert list(scratch.iterdir())
        assert server.stop() == 0
    assert database.read_bytes() == before
    assert list(scratch.iterdir()) == []


def test_older_schema_is_served_without_migration(tmp_path: Path) -> None:
    write_old_database(tmp_path / "old.db", 5)
    with Server("--database", str(tmp_path / "old.db"), "--skip-migrate") as server:
        assert packages(server) == ["a", "b"]
        with channel(server.address) as connection, pytest.raises(grpc.RpcError) as caught:
            call(connection, "GetBundle", pkgName="a", channelName="stable", csvName="a.v3")
    assert caught.value.details() == "no such table: properties"
    assert caught.value.code() is grpc.StatusCode.UNKNOWN


def test_empty_file_is_an_empty_catalog(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with Server("--database", str(tmp_path / "empty.db")) as server:
        assert packages(server) == []
        with channel(server.address) as connection:
            assert call(connection, "ListBundles") == []


def test_empty_file_without_migration_has_no_tables(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with Server("--database", str(tmp_path / "empty.db"), "--skip-migrate") as server:
        for method in METHODS:
            with channel(server.address) as connection, pytest.raises(grpc.RpcError, match="no such table") as caught:
                call(connection, method)
            assert caught.value.details() in {f"no such table: {name}" for name in ("package", "channel_entry")}
        assert 'level=warning msg="no tables found in db"' in server.err


def test_replaced_database_is_still_served(library: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    write_old_database(other, 12)
    with Server("--database", str(library)) as server:
        other.replace(library)
        with channel(server.address) as connection:
            assert call(connection, "GetBundleForChannel", pkgName="shelf", channelName="alpha").csvJson
            assert {bundle.packageName for bundle in call(connection, "ListBundles")} == {"book", "shelf"}


def write_truncated(path: Path) -> None:
    write_library(path)
    os.truncate(path, 9000)


@pytest.mark.parametrize(
    ("write", "cause"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.write_bytes(b"nonsense" * 100), "not a database"),
        (write_truncated, "damaged database: truncated"),
        (lambda path: write_old_database(path, 99), "this release supports versions up to"),
        (lambda path: path.mkdir(), "Is a directory"),
    ],
    ids=["missing", "not a database", "truncated", "newer", "directory"],
)
def test_invalid_database_is_reported_in_one_line(write: object, cause: str, tmp_path: Path) -> None:
    database, log = tmp_path / "index.db", tmp_path / "termination-log"
    assert callable(write)
    write(database)
    errors = failure("--database", str(database), "-t", str(log), "--port", "0")
    (line,) = errors.splitlines()
    assert fields(line)["level"] == "fatal"
    assert str(database) in fields(line)["msg"]
    assert cause in fields(line)["msg"]
    assert fields(line)["hint"]
    assert log.read_text() == errors
    assert log.stat().st_mode & 0o777 == 0o755 & ~umask()


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_termination_log_is_overwritten_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    log.write_text("." * 2000)
    errors = failure("--database", "none.db", "-t", str(log))
    assert log.read_text() == errors + "." * (2000 - len(errors))


def test_logs_are_written_to_stderr_without_a_termination_log(library: Path, tmp_path: Path) -> None:
    argv = [*REGISTRY_SERVER, "--database", str(library), "--port", "0", "-t", str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first, second = (fields(process.stderr.readline()) for _ in range(2))
        process.terminate()
        out, _ = process.communicate(timeout=PATIENCE)
    assert (first["level"], second["msg"]) == ("warning", "serving registry")
    assert out == ""


def test_port_in_use_is_refused(library: Path, tmp_path: Path) -> None:
    with Server("--database", str(library)) as server:  # whose processes share the port
        errors = failure("-d", str(library), "-p", str(server.port), "-t", str(tmp_path / "log"))
    assert f"port {server.port}: already in use" in errors
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        assert f"port {port}: already in use" in failure(
            "-d", str(library), "-p", str(port), "-t", str(tmp_path / "log")
        )


@pytest.mark.parametrize(
    ("flags", "cause"),
    [
        (("--port", "http"), '"http" for "--port"'),
        (("--port", "65536"), '"65536" for "--port"'),
        (("--timeout-seconds", "soon"), '"soon" for "--timeout-seconds"'),
        (("--processes", "0"), '"0" for "--processes"'),
        (("--tls-cert", "x.pem"), "--tls-cert and --tls-key must be used together"),
    ],
)
def test_usage_errors(flags: tuple[str, ...], cause: str) -> None:
    assert cause in failure(*flags)
    if flags[0] != "--timeout-seconds":
        assert cause in failure(*flags, program=REGISTRY_SERVER, status=2)


def test_invalid_certificates_are_refused(library: Path, tmp_path: Path) -> None:
    authority = certificate_authority(tmp_path)
    server = server_certificate(tmp_path, authority)
    (tmp_path / "nonsense").write_text("nonsense")

    def errors(certificate: object, key: object) -> str:
        flags = ("--tls-cert", str(certificate), "--tls-key", str(key), "-t", str(tmp_path / "log"), "-p", "0")
        return failure("-d", str(library), *flags)

    assert f"{tmp_path}/none: No such file or directory" in errors(tmp_path / "none", server.key)
    assert "invalid certificate or key" in errors(server.certificate, tmp_path / "nonsense")
    assert "invalid certificate or key" in errors(server.certificate, authority.key)


def test_tls(library: Path, tmp_path: Path) -> None:
    authority = certificate_authority(tmp_path)
    server = server_certificate(tmp_path, authority)
    flags = ("--tls-cert", str(server.certificate), "--tls-key", str(server.key))
    credentials = grpc.ssl_channel_credentials(authority.certificate.read_bytes())
    with Server("-d", str(library), *flags) as started, channel(f"localhost:{started.port}", credentials) as connection:
        assert [package.name for package in call(connection, "ListPackages")] == ["book", "shelf"]


def test_access_log(library: Path) -> None:
    with Server("-d", str(library), "--access-log") as server:
        with channel(server.address) as connection:
            call(connection, "ListBundles")
            with pytest.raises(grpc.RpcError):
                call(connection, "GetPackage", name="none")
        assert server.stop() == 0
    records = [fields(line) for line in server.out if fields(line)["msg"] == "call"]
    assert [(record["method"], record["code"]) for record in records] == [
        ("/api.Registry/ListBundles", "OK"),
        ("/api.Registry/GetPackage", "UNKNOWN"),
    ]
    assert int(records[0]["bytes"]) > int(records[1]["bytes"]) == 0
    assert records[0]["peer"].startswith("127.0.0.1:")
    assert float(records[0]["ms"]) >= 0


def test_unknown_methods_and_invalid_requests(library: Path) -> None:
    with Server("-d", str(library)) as server, channel(server.address) as connection:
        for path, message in (
            ("/api.Registry/Drop", "unknown method Drop for service api.Registry"),
            ("/api.Other/Get", "unknown service api.Other"),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                raw_call(connection, path, b"")
            assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNIMPLEMENTED, message)
        with pytest.raises(grpc.RpcError) as caught:
            raw_call(connection, "/api.Registry/GetPackage", b"\xff\xff")
        assert caught.value.code() is grpc.StatusCode.INTERNAL


def raw_call(connection: grpc.Channel, path: str, request: bytes) -> bytes:
    method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = connection.unary_unary(path, bytes, bytes)
    return method(request, timeout=PATIENCE)


@pytest.mark.parametrize("version", ["v1alpha", "v1"])
def test_reflection(library: Path, version: str) -> None:
    """Call methods with the messages that reflection describes."""
    from grpc_reflection.v1alpha import reflection_pb2

    with Server("-d", str(library)) as server, channel(server.address) as connection:
        call_reflection = connection.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )

        def reflect(**question: str) -> object:
            request = ParseDict(question, reflection_pb2.ServerReflectionRequest())
            (response,) = call_reflection(iter([request]), timeout=PATIENCE)
            return response

        services = [each.name for each in reflect(list_services="").list_services_response.service]  # type: ignore[attr-defined]
        assert f"grpc.reflection.{version}.ServerReflection" in services
        pool = DescriptorPool()
        for name in services:
            response = reflect(file_containing_symbol=name)
            files = response.file_descriptor_response.file_descriptor_proto  # type: ignore[attr-defined]
            for file in reversed(files):  # the dependencies follow the file
                pool.Add(FileDescriptorProto.FromString(file))
        assert reflect(file_by_filename="registry.proto").file_descriptor_response.file_descriptor_proto  # type: ignore[attr-defined]
        for unknown in ({"file_containing_symbol": "api.None"}, {"file_by_filename": "none.proto"}):
            assert reflect(**unknown).error_response.error_code == 5  # type: ignore[attr-defined]

        def call_described(path: str, **request: str) -> object:
            method = pool.FindServiceByName(path.partition("/")[0]).FindMethodByName(path.partition("/")[2])
            kind = connection.unary_stream if method.server_streaming else connection.unary_unary
            request_type, response_type = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
            stub = kind(f"/{path}", request_type.SerializeToString, response_type.FromString)
            response = stub(request_type(**request), timeout=PATIENCE)
            return list(cast("Iterable[object]", response)) if method.server_streaming else response

        assert call_described("grpc.health.v1.Health/Check", service="any").status == 1  # type: ignore[attr-defined]
        assert [each.name for each in call_described("api.Registry/ListPackages")] == ["book", "shelf"]  # type: ignore[attr-defined]
        assert call_described("api.Registry/GetPackage", name="shelf").defaultChannelName == "beta"  # type: ignore[attr-defined]


def start_list(connection: grpc.Channel) -> Iterator[object]:
    """Return a stream of bundles of which the first has been read."""
    request, response = request_class("ListBundles"), response_class("ListBundles")
    path = METHODS["ListBundles"].path
    stream = connection.unary_stream(path, request.SerializeToString, response.FromString)
    bundles = stream(request(), timeout=PATIENCE)
    next(bundles)
    return bundles


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_streams_in_progress_are_completed_on_shutdown(large: Path, number: int) -> None:
    with Server("-d", str(large), "--processes", "1") as server, channel(server.address) as connection:
        bundles = start_list(connection)
        server.process.send_signal(number)
        end = time.monotonic() + PATIENCE
        while not refused(server):  # new calls are refused while the earlier one continues
            assert time.monotonic() < end
            time.sleep(0.01)
        assert len(list(bundles)) == LARGE + 6 - 1
        assert server.process.wait(PATIENCE) == 0


def test_client_that_reads_late_receives_everything_on_shutdown(library: Path) -> None:
    add_large_bundles(library, 100)
    with Server("-d", str(library), "--processes", "1") as server, Peer(int(server.address.rpartition(":")[2])) as peer:
        peer.greet(initial_window_size=2**30)
        peer.send(window_update_frame(0, 2**30))
        peer.ask(1, "/api.Registry/ListBundles")
        time.sleep(0.5)  # everything is in the buffers of the two sockets
        server.process.send_signal(signal.SIGTERM)
        for _ in range(3):
            time.sleep(1)
            peer.send(window_update_frame(0, 1))
        content, trailers = peer.answer(1)
        assert len(content) > 2_000_000
        assert trailers[b"grpc-status"] == b"0"
    assert server.process.wait(PATIENCE) == 0


def refused(server: Server) -> bool:
    """Return whether the server refuses a new connection; a gRPC client that connects at this moment can hang."""
    try:
        socket.create_connection(("127.0.0.1", server.port), PATIENCE).close()
    except ConnectionRefusedError:
        return True
    return False


def test_second_signal_aborts_streams(large: Path) -> None:
    with Server("-d", str(large), "--processes", "1") as server, channel(server.address) as connection:
        bundles = start_list(connection)
        server.process.send_signal(signal.SIGTERM)
        while not any("shutting down" in line for line in server.out):
            time.sleep(0.01)
        assert server.stop() == 0
        with pytest.raises(grpc.RpcError):
            list(bundles)


def test_cancelled_stream(large: Path) -> None:
    with Server("-d", str(large), "--access-log") as server, channel(server.address) as connection:
        bundles = start_list(connection)
        bundles.cancel()  # type: ignore[attr-defined]
        end = time.monotonic() + PATIENCE
        while not any("code=CANCELLED" in line for line in server.out):
            assert time.monotonic() < end, server.out
            time.sleep(0.02)


def test_many_idle_connections(library: Path) -> None:
    with Server("-d", str(library)) as server:
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(400)]
        assert packages(server) == ["book", "shelf"]
        for connection in idle:
            connection.close()


def test_timeout_stops_the_server(library: Path) -> None:
    with Server("-d", str(library), "--timeout-seconds", "1") as server:
        assert server.process.wait(PATIENCE) == 0
        assert "timeout expired" in server.out[-1]


def test_workers_end_with_their_supervisor(library: Path) -> None:
    with Server("-d", str(library), "--processes", "3") as server:
        workers = server.workers()
        assert len(workers) == 3
        server.process.kill()
        wait_for_end(workers)


def test_server_ends_with_any_of_its_workers(library: Path) -> None:
    with Server("-d", str(library), "--processes", "2") as server:
        first, second = server.workers()
        os.kill(first, signal.SIGKILL)
        assert server.process.wait(PATIENCE) == 1
        assert f"process {first} of the server ended by itself (killed by SIGKILL)" in server.err
        wait_for_end([second])


def test_workers_ignore_signals(library: Path) -> None:
    with Server("-d", str(library), "--processes", "2") as server:
        for process in server.workers():
            os.kill(process, signal.SIGTERM)
        assert packages(server) == ["book", "shelf"]
        assert server.stop() == 0


def test_full_disk_fails_the_call_but_not_the_server(large: Path) -> None:
    program = (require("prlimit"), "--fsize=100000", *SERVE)
    with Server("-d", str(large), program=program) as server, channel(server.address) as connection:
        with pytest.raises(grpc.RpcError, match="File too large"):
            call(connection, "ListBundles")
        assert call(connection, "GetBundle", pkgName="shelf", channelName="alpha", csvName="shelf.v1.2.0").csvJson
