"""The catalog server as people and clusters run it: what it reads, how it starts, fails and stops."""

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

from opmkit.index.api.messages import request_class, response_class
from opmkit.index.api.methods import METHODS
from opmkit.index.server.http2.frames import window_update_frame
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
"""Bundles of a list that no client takes in one gulp: 20 kB each."""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    write_library(tmp_path / "library.db")
    return tmp_path / "library.db"


@pytest.fixture
def large(library: Path) -> Path:
    """An index whose list of bundles is larger than what a connection has room for."""
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
    """What a server that does not start says."""
    done = subprocess.run([*program, *flags], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    return done.stderr


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def until_gone(processes: list[int]) -> None:
    end = time.monotonic() + PATIENCE
    while not all(map(gone, processes)):
        assert time.monotonic() < end, processes
        time.sleep(0.02)


@pytest.mark.parametrize("program", [SERVE, REGISTRY_SERVER], ids=["opm", "companion"])
def test_a_database_is_served_and_never_written(library: Path, program: tuple[str, ...]) -> None:
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


def test_the_database_of_an_index_image_is_served(opm: Opm) -> None:
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


def test_an_older_schema_is_migrated_on_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_an_older_schema_is_served_as_it_is(tmp_path: Path) -> None:
    write_old_database(tmp_path / "old.db", 5)
    with Server("--database", str(tmp_path / "old.db"), "--skip-migrate") as server:
        assert packages(server) == ["a", "b"]
        with channel(server.address) as connection, pytest.raises(grpc.RpcError) as caught:
            call(connection, "GetBundle", pkgName="a", channelName="stable", csvName="a.v3")
    assert caught.value.details() == "no such table: properties"
    assert caught.value.code() is grpc.StatusCode.UNKNOWN


def test_an_empty_file_is_an_empty_catalog(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with Server("--database", str(tmp_path / "empty.db")) as server:
        assert packages(server) == []
        with channel(server.address) as connection:
            assert call(connection, "ListBundles") == []


def test_an_empty_file_that_is_not_migrated_has_no_tables(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with Server("--database", str(tmp_path / "empty.db"), "--skip-migrate") as server:
        for method in METHODS:
            with channel(server.address) as connection, pytest.raises(grpc.RpcError, match="no such table") as caught:
                call(connection, method)
            assert caught.value.details() in {f"no such table: {name}" for name in ("package", "channel_entry")}
        assert 'level=warning msg="no tables found in db"' in server.err


def test_a_replaced_database_is_served_as_it_was(library: Path, tmp_path: Path) -> None:
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
    ("make", "cause"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.write_bytes(b"nonsense" * 100), "not a database"),
        (write_truncated, "damaged database: truncated"),
        (lambda path: write_old_database(path, 99), "this release supports versions up to"),
        (lambda path: path.mkdir(), "Is a directory"),
    ],
    ids=["missing", "no database", "truncated", "newer", "directory"],
)
def test_a_database_that_can_not_be_served_is_told_in_a_line(make: object, cause: str, tmp_path: Path) -> None:
    database, log = tmp_path / "index.db", tmp_path / "termination-log"
    assert callable(make)
    make(database)
    told = failure("--database", str(database), "-t", str(log), "--port", "0")
    (line,) = told.splitlines()
    assert fields(line)["level"] == "fatal"
    assert str(database) in fields(line)["msg"]
    assert cause in fields(line)["msg"]
    assert fields(line)["hint"]
    assert log.read_text() == told
    assert log.stat().st_mode & 0o777 == 0o755 & ~umask()


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_termination_log_is_written_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    log.write_text("." * 2000)
    told = failure("--database", "none.db", "-t", str(log))
    assert log.read_text() == told + "." * (2000 - len(told))


def test_without_a_termination_log_everything_goes_to_stderr(library: Path, tmp_path: Path) -> None:
    argv = [*REGISTRY_SERVER, "--database", str(library), "--port", "0", "-t", str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first, second = (fields(process.stderr.readline()) for _ in range(2))
        process.terminate()
        out, _ = process.communicate(timeout=PATIENCE)
    assert (first["level"], second["msg"]) == ("warning", "serving registry")
    assert out == ""


def test_a_port_that_is_taken_is_refused(library: Path, tmp_path: Path) -> None:
    with Server("--database", str(library)) as server:  # also by one that would share it with its own processes
        told = failure("-d", str(library), "-p", str(server.port), "-t", str(tmp_path / "log"))
    assert f"port {server.port}: already in use" in told
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
def test_a_wrong_command_line_is_a_usage_error(flags: tuple[str, ...], cause: str) -> None:
    assert cause in failure(*flags)
    if flags[0] != "--timeout-seconds":
        assert cause in failure(*flags, program=REGISTRY_SERVER, status=2)


def test_certificates_that_are_no_good_are_refused(library: Path, tmp_path: Path) -> None:
    authority = certificate_authority(tmp_path)
    server = server_certificate(tmp_path, authority)
    (tmp_path / "nonsense").write_text("nonsense")

    def told(certificate: object, key: object) -> str:
        flags = ("--tls-cert", str(certificate), "--tls-key", str(key), "-t", str(tmp_path / "log"), "-p", "0")
        return failure("-d", str(library), *flags)

    assert f"{tmp_path}/none: No such file or directory" in told(tmp_path / "none", server.key)
    assert "invalid certificate or key" in told(server.certificate, tmp_path / "nonsense")
    assert "invalid certificate or key" in told(server.certificate, authority.key)


def test_tls(library: Path, tmp_path: Path) -> None:
    authority = certificate_authority(tmp_path)
    server = server_certificate(tmp_path, authority)
    flags = ("--tls-cert", str(server.certificate), "--tls-key", str(server.key))
    trusting = grpc.ssl_channel_credentials(authority.certificate.read_bytes())
    with Server("-d", str(library), *flags) as started, channel(f"localhost:{started.port}", trusting) as connection:
        assert [package.name for package in call(connection, "ListPackages")] == ["book", "shelf"]


def test_calls_are_logged_where_that_is_asked_for(library: Path) -> None:
    with Server("-d", str(library), "--access-log") as server:
        with channel(server.address) as connection:
            call(connection, "ListBundles")
            with pytest.raises(grpc.RpcError):
                call(connection, "GetPackage", name="none")
        assert server.stop() == 0
    records = [fields(line) for line in server.out if fields(line)["msg"] == "call"]
    assert [(one["method"], one["code"]) for one in records] == [
        ("/api.Registry/ListBundles", "OK"),
        ("/api.Registry/GetPackage", "UNKNOWN"),
    ]
    assert int(records[0]["bytes"]) > int(records[1]["bytes"]) == 0
    assert records[0]["peer"].startswith("127.0.0.1:")
    assert float(records[0]["ms"]) >= 0


def test_other_calls_are_not_implemented(library: Path) -> None:
    with Server("-d", str(library)) as server, channel(server.address) as connection:
        for path, told in (
            ("/api.Registry/Drop", "unknown method Drop for service api.Registry"),
            ("/api.Other/Get", "unknown service api.Other"),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                raw_call(connection, path, b"")
            assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNIMPLEMENTED, told)
        with pytest.raises(grpc.RpcError) as caught:
            raw_call(connection, "/api.Registry/GetPackage", b"\xff\xff")
        assert caught.value.code() is grpc.StatusCode.INTERNAL


def raw_call(connection: grpc.Channel, path: str, request: bytes) -> bytes:
    method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = connection.unary_unary(path, bytes, bytes)
    return method(request, timeout=PATIENCE)


@pytest.mark.parametrize("version", ["v1alpha", "v1"])
def test_a_client_can_do_with_reflection_alone(library: Path, version: str) -> None:
    """It knows the messages of reflection, and learns the rest from the server."""
    from grpc_reflection.v1alpha import reflection_pb2

    with Server("-d", str(library)) as server, channel(server.address) as connection:
        ask = connection.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )

        def reflect(**asked: str) -> object:
            request = ParseDict(asked, reflection_pb2.ServerReflectionRequest())
            (answer,) = ask(iter([request]), timeout=PATIENCE)
            return answer

        services = [one.name for one in reflect(list_services="").list_services_response.service]  # type: ignore[attr-defined]
        assert f"grpc.reflection.{version}.ServerReflection" in services
        pool = DescriptorPool()
        for name in services:
            answer = reflect(file_containing_symbol=name)
            for file in answer.file_descriptor_response.file_descriptor_proto:  # type: ignore[attr-defined]
                pool.Add(FileDescriptorProto.FromString(file))
        assert reflect(file_by_filename="registry.proto").file_descriptor_response.file_descriptor_proto  # type: ignore[attr-defined]
        for unknown in ({"file_containing_symbol": "api.None"}, {"file_by_filename": "none.proto"}):
            assert reflect(**unknown).error_response.error_code == 5  # type: ignore[attr-defined]

        def make(path: str, **request: str) -> object:
            method = pool.FindServiceByName(path.partition("/")[0]).FindMethodByName(path.partition("/")[2])
            kind = connection.unary_stream if method.server_streaming else connection.unary_unary
            asked, answered = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
            found = kind(f"/{path}", asked.SerializeToString, answered.FromString)(asked(**request), timeout=PATIENCE)
            return list(cast("Iterable[object]", found)) if method.server_streaming else found

        assert make("grpc.health.v1.Health/Check", service="any").status == 1  # type: ignore[attr-defined]
        assert [one.name for one in make("api.Registry/ListPackages")] == ["book", "shelf"]  # type: ignore[attr-defined]
        assert make("api.Registry/GetPackage", name="shelf").defaultChannelName == "beta"  # type: ignore[attr-defined]


def slow_list(connection: grpc.Channel) -> Iterator[object]:
    """A list of bundles of which the caller has taken one, and takes the others only when it goes on."""
    request, response = request_class("ListBundles"), response_class("ListBundles")
    path = METHODS["ListBundles"].path
    stream = connection.unary_stream(path, request.SerializeToString, response.FromString)
    bundles = stream(request(), timeout=PATIENCE)
    next(bundles)
    return bundles


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stream_in_progress_may_end_when_the_server_stops(large: Path, number: int) -> None:
    with Server("-d", str(large), "--processes", "1") as server, channel(server.address) as connection:
        bundles = slow_list(connection)
        server.process.send_signal(number)
        end = time.monotonic() + PATIENCE
        while not refused(server):  # soon, since nothing is waited for but what was called before
            assert time.monotonic() < end
            time.sleep(0.01)
        assert len(list(bundles)) == LARGE + 6 - 1
        assert server.process.wait(PATIENCE) == 0


def test_a_client_that_reads_late_gets_the_whole_answer_of_a_stopping_server(library: Path) -> None:
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
    """Whether new calls are not answered any more."""
    with channel(server.address) as connection:
        try:
            call(connection, "ListPackages")
        except grpc.RpcError as error:
            return error.code() is grpc.StatusCode.UNAVAILABLE
    return False


def test_a_second_signal_ends_streams_too(large: Path) -> None:
    with Server("-d", str(large), "--processes", "1") as server, channel(server.address) as connection:
        bundles = slow_list(connection)
        server.process.send_signal(signal.SIGTERM)
        while not any("shutting down" in line for line in server.out):
            time.sleep(0.01)
        assert server.stop() == 0
        with pytest.raises(grpc.RpcError):
            list(bundles)


def test_a_cancelled_stream_ends(large: Path) -> None:
    with Server("-d", str(large), "--access-log") as server, channel(server.address) as connection:
        bundles = slow_list(connection)
        bundles.cancel()  # type: ignore[attr-defined]
        end = time.monotonic() + PATIENCE
        while not any("code=CANCELLED" in line for line in server.out):
            assert time.monotonic() < end, server.out
            time.sleep(0.02)


def test_many_may_be_connected_and_do_nothing(library: Path) -> None:
    with Server("-d", str(library)) as server:
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(400)]
        assert packages(server) == ["book", "shelf"]
        for one in idle:
            one.close()


def test_the_server_stops_by_itself_after_a_while(library: Path) -> None:
    with Server("-d", str(library), "--timeout-seconds", "1") as server:
        assert server.process.wait(PATIENCE) == 0
        assert "timeout expired" in server.out[-1]


def test_the_processes_go_with_the_one_that_watches(library: Path) -> None:
    with Server("-d", str(library), "--processes", "3") as server:
        workers = server.workers()
        assert len(workers) == 3
        server.process.kill()
        until_gone(workers)


def test_the_server_ends_with_any_of_its_processes(library: Path) -> None:
    with Server("-d", str(library), "--processes", "2") as server:
        first, second = server.workers()
        os.kill(first, signal.SIGKILL)
        assert server.process.wait(PATIENCE) == 1
        assert f"process {first} of the server ended by itself (killed by SIGKILL)" in server.err
        until_gone([second])


def test_signals_to_all_processes_stop_it_as_gracefully(library: Path) -> None:
    with Server("-d", str(library), "--processes", "2") as server:
        for process in server.workers():
            os.kill(process, signal.SIGTERM)
        assert packages(server) == ["book", "shelf"]
        assert server.stop() == 0


def test_a_full_disk_fails_the_call_and_not_the_server(large: Path) -> None:
    program = (require("prlimit"), "--fsize=100000", *SERVE)
    with Server("-d", str(large), program=program) as server, channel(server.address) as connection:
        with pytest.raises(grpc.RpcError, match="File too large"):
            call(connection, "ListBundles")
        assert call(connection, "GetBundle", pkgName="shelf", channelName="alpha", csvName="shelf.v1.2.0").csvJson
