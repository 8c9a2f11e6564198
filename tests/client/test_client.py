"""The client with servers of opmkit and, if OPMKIT_REFERENCE_OPM is set, of Go opm, and with faulty servers."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from opmkit.client import (
    Api,
    CallFailed,
    CallTimedOut,
    CatalogClient,
    InvalidAddress,
    RemoteChannel,
    RemoteDeprecation,
    RemoteEntry,
    RemotePackage,
    ServerUnreachable,
    parse_address,
)
from opmkit.index.errors import CatalogError
from opmkit.index.grpc_api import message_class
from tests.kit.catalogs import ScriptedCatalog, free_port, write_library
from tests.kit.certificates import certificate_authority, server_certificate
from tests.kit.server import SERVE, Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPM", "")
SHELF = ("shelfs.example.com", "v1", "Shelf")
BOOK = ("books.example.com", "v1", "Book")


@pytest.fixture(scope="module", params=["opmkit", "reference"])
def catalog(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogClient]:
    if request.param == "reference" and not REFERENCE:
        pytest.skip("OPMKIT_REFERENCE_OPM is not set")
    database = tmp_path_factory.mktemp("catalog") / "index.db"
    write_library(database)
    program, port = (SERVE, 0) if request.param == "opmkit" else ((REFERENCE, *SERVE[1:]), free_port())
    with (
        Server("--database", str(database), program=program, port=port) as server,
        CatalogClient.connect(server.address) as client,
    ):
        yield client


def test_list_packages(catalog: CatalogClient) -> None:
    assert sorted(catalog.list_packages()) == ["book", "shelf"]


def test_get_package(catalog: CatalogClient) -> None:
    package = catalog.get_package("shelf")
    assert (package.name, package.default_channel, package.deprecation) == ("shelf", "beta", None)
    assert set(package.channels) == {RemoteChannel("alpha", "shelf.v1.2.0"), RemoteChannel("beta", "shelf.v1.1.0")}


def test_get_bundle(catalog: CatalogClient) -> None:
    bundle = catalog.get_bundle("shelf", "alpha", "shelf.v1.2.0")
    assert (bundle.package, bundle.channel, bundle.name, bundle.version) == ("shelf", "alpha", "shelf.v1.2.0", "1.2.0")
    assert bundle.image == "quay.io/example/shelf:1.2.0"
    assert bundle.skip_range == "<1.2.0"
    assert bundle.provided_apis == (Api(*SHELF, plural="shelfs"),)
    assert [str(api) for api in bundle.required_apis] == ["books.example.com/v1/Book"]
    assert "olm.package" in {each.type for each in bundle.dependencies}
    assert {each.type for each in bundle.properties} == {"olm.package", "olm.gvk"}
    assert '"displayName":"shelf.v1.2.0, revision 0"' in bundle.csv.replace(": ", ":")
    assert len(bundle.objects) == 2
    assert bundle.deprecation is None


def test_get_bundle_for_channel(catalog: CatalogClient) -> None:
    bundle = catalog.get_bundle_for_channel("shelf", "beta")
    assert bundle.name == "shelf.v1.1.0"
    assert bundle.csv


def test_updates(catalog: CatalogClient) -> None:
    assert set(catalog.get_channel_entries_that_replace("shelf.v1.0.0")) == {
        RemoteEntry("shelf", "alpha", "shelf.v1.2.0", "shelf.v1.0.0"),
        RemoteEntry("shelf", "beta", "shelf.v1.1.0", "shelf.v1.0.0"),
    }
    assert catalog.get_bundle_that_replaces("shelf.v1.0.0", "shelf", "beta").name == "shelf.v1.1.0"


def test_providers(catalog: CatalogClient) -> None:
    entries = set(catalog.get_channel_entries_that_provide(*SHELF))
    assert RemoteEntry("shelf", "alpha", "shelf.v1.2.0", "shelf.v1.1.0") in entries
    assert RemoteEntry("shelf", "beta", "shelf.v1.0.0", "") in entries
    latest = {(each.channel, each.bundle) for each in catalog.get_latest_channel_entries_that_provide(*SHELF)}
    assert latest == {("alpha", "shelf.v1.2.0"), ("beta", "shelf.v1.1.0")}
    assert catalog.get_default_bundle_that_provides(*SHELF).name == "shelf.v1.1.0"


def test_list_bundles(catalog: CatalogClient) -> None:
    listed = {(each.channel, each.name): each for each in catalog.list_bundles()}
    assert len(listed) == 6
    newest = listed["alpha", "shelf.v1.2.0"]
    assert (newest.replaces, newest.skips) == ("shelf.v1.0.0", ("shelf.v1.1.0",))
    assert (newest.csv, newest.objects) == ("", ())


def test_health(catalog: CatalogClient) -> None:
    assert catalog.is_healthy()


def test_threads_share_a_client(catalog: CatalogClient) -> None:
    assert [each.name for each in catalog.fetch_packages()] == ["book", "shelf"]


def test_errors_have_the_message_of_the_server(catalog: CatalogClient) -> None:
    with pytest.raises(CallFailed, match="GetPackage: package nix not found") as caught:
        catalog.get_package("nix")
    assert (caught.value.method, caught.value.code) == ("GetPackage", "UNKNOWN")
    assert caught.value.text == "package nix not found"
    assert "list_served_catalog" in str(caught.value.hint)
    assert not isinstance(caught.value, ServerUnreachable)
    with pytest.raises(CallFailed, match="no entry found for shelf alpha nix"):
        catalog.get_bundle("shelf", "alpha", "nix")
    with pytest.raises(CallFailed, match=r"no channel entries found that replace nix$"):
        next(catalog.get_channel_entries_that_replace("nix"))
    with pytest.raises(CallFailed, match="no entry found that provides a b c"):
        catalog.get_default_bundle_that_provides("a", "b", "c")


def test_cancelled_stream_ends(catalog: CatalogClient) -> None:
    with catalog.list_bundles() as stream:
        assert next(stream).name
        stream.cancel()
        assert list(stream) == []


def test_queries(catalog: CatalogClient) -> None:
    assert catalog.fetch_bundle("shelf", "alpha").image == "quay.io/example/shelf:1.2.0"
    with pytest.raises(CatalogError, match='channel "nix" not found') as caught:
        catalog.fetch_bundle("shelf", "nix")
    assert "alpha, beta" in str(caught.value.hint)
    assert [(each.channel, each.name) for each in catalog.fetch_bundles(package="shelf", channel="beta")] == [
        ("beta", "shelf.v1.0.0"),
        ("beta", "shelf.v1.1.0"),
    ]
    with pytest.raises(CatalogError, match='no bundle found with package "shelf", name "nix"'):
        catalog.fetch_bundles(package="shelf", name="nix")
    apis = [(each.api, each.package, each.channels) for each in catalog.fetch_apis()]
    assert apis == [
        ("books.example.com/v1/Book", "book", ("alpha",)),
        ("shelfs.example.com/v1/Shelf", "shelf", ("alpha", "beta")),
    ]
    found = catalog.fetch_providers(*SHELF)
    assert [(each.channel, each.bundle, each.replaces) for each in found] == [
        ("alpha", "shelf.v1.0.0", ()),
        ("alpha", "shelf.v1.1.0", ()),
        ("alpha", "shelf.v1.2.0", ("shelf.v1.0.0", "shelf.v1.1.0")),
        ("beta", "shelf.v1.0.0", ()),
        ("beta", "shelf.v1.1.0", ("shelf.v1.0.0",)),
    ]


def test_unreachable_server() -> None:
    address = f"127.0.0.1:{free_port()}"
    with CatalogClient.connect(address) as client:
        with pytest.raises(ServerUnreachable, match=rf"^{address}: GetPackage: .*refused") as caught:
            client.get_package("shelf")
        assert "port-forward" in str(caught.value.hint)
        with pytest.raises(ServerUnreachable, match="Health/Check"):
            client.is_healthy()
        with pytest.raises(ServerUnreachable, match="ListBundles"):
            next(client.list_bundles())


def test_timeout() -> None:
    gone = threading.Event()

    def hang(_: Any, context: grpc.ServicerContext) -> Any:
        context.add_callback(gone.set)
        gone.wait(30)
        return message_class("Package")()

    with (
        ScriptedCatalog({"GetPackage": hang}) as server,
        CatalogClient.connect(server.address, timeout=0.2) as client,
    ):
        with pytest.raises(CallTimedOut, match="GetPackage") as caught:
            client.get_package("shelf")
        assert "increase the timeout" in str(caught.value.hint)


def test_cancellation_reaches_the_server() -> None:
    ended = threading.Event()

    def endless(_: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        context.add_callback(ended.set)
        while context.is_active():
            yield message_class("Bundle")(csvName="shelf")

    with ScriptedCatalog({"ListBundles": endless}) as server, CatalogClient.connect(server.address) as client:
        with client.list_bundles() as stream:
            assert next(stream).name == "shelf"
        assert ended.wait(30)


def test_large_messages() -> None:
    large = message_class("Bundle")(csvJson="x" * (5 << 20))
    with (
        ScriptedCatalog({"GetBundle": lambda *_: large}) as server,
        CatalogClient.connect(server.address) as client,
    ):
        assert len(client.get_bundle("", "", "").csv) == 5 << 20


def test_deprecations() -> None:
    fields = {"deprecation": {"message": "use another"}}
    answer = message_class("Package")(name="old", channels=[{"name": "alpha", **fields}], **fields)
    with (
        ScriptedCatalog({"GetPackage": lambda *_: answer}) as server,
        CatalogClient.connect(server.address) as client,
    ):
        deprecation = RemoteDeprecation("use another")
        assert client.get_package("old") == RemotePackage(
            "old", "", (RemoteChannel("alpha", "", deprecation),), deprecation
        )


def test_error_messages_are_escaped() -> None:
    def refuse(_: Any, context: grpc.ServicerContext) -> Any:
        context.abort(grpc.StatusCode.UNKNOWN, "\x1b[2J all\nis gone" + "!" * 5000)

    with ScriptedCatalog({"GetPackage": refuse}) as server, CatalogClient.connect(server.address) as client:
        with pytest.raises(CallFailed) as caught:
            client.get_package("shelf")
        assert caught.value.message.isprintable()
        assert len(caught.value.message) < 600


def test_invalid_message() -> None:
    with (
        ScriptedCatalog({"GetPackage": lambda *_: b"\xff\xff\xff"}) as server,
        CatalogClient.connect(server.address) as client,
        pytest.raises(CallFailed, match=r"GetPackage: .*deserializ"),
    ):
        client.get_package("shelf")


def test_server_of_another_service() -> None:
    with (
        ScriptedCatalog({}, service="some.Other") as server,
        CatalogClient.connect(server.address) as client,
        pytest.raises(CallFailed, match="GetPackage") as caught,
    ):
        client.get_package("shelf")
    assert caught.value.code == "UNIMPLEMENTED"
    assert "does not implement" in str(caught.value.hint)


def test_unhealthy_server() -> None:
    answer = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.NOT_SERVING)
    answers = {"Check": lambda *_: answer}
    with (
        ScriptedCatalog(answers, service="grpc.health.v1.Health") as server,
        CatalogClient.connect(server.address) as client,
    ):
        assert not client.is_healthy()


def test_invalid_unicode_is_not_sent() -> None:
    with CatalogClient.connect("localhost:50051") as client, pytest.raises(CallFailed, match=r"'\\udc80'"):
        client.get_package("\udc80")


def test_package_without_channels() -> None:
    def refuse(_: Any, context: grpc.ServicerContext) -> Any:
        context.abort(grpc.StatusCode.UNKNOWN, "package bare not found")

    answers = {"ListPackages": lambda *_: iter([message_class("PackageName")(name="bare")]), "GetPackage": refuse}
    with ScriptedCatalog(answers) as server, CatalogClient.connect(server.address) as client:
        assert client.fetch_packages() == [RemotePackage("bare", "", ())]


@pytest.mark.slow
def test_tls_with_a_private_authority(tmp_path: Path) -> None:
    authority = certificate_authority(tmp_path)
    shown = server_certificate(tmp_path, authority)
    answers = {"GetPackage": lambda request, _: message_class("Package")(name=request.name)}
    with ScriptedCatalog(answers, tls=shown) as server:
        with CatalogClient.connect(server.address, tls=True, ca_file=authority.certificate) as client:
            assert client.get_package("shelf").name == "shelf"
        for tls in (True, False):  # with the system's authorities, and without TLS
            with (
                CatalogClient.connect(server.address, tls=tls) as client,
                pytest.raises(ServerUnreachable) as caught,
            ):
                client.get_package("shelf")
            assert "TLS" in str(caught.value.hint)


@pytest.mark.parametrize("content", [b"", b"none", b"\xff\xfe\x00"])
def test_file_without_a_certificate(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(content)
    with pytest.raises(CatalogError, match=r"ca\.pem: no PEM certificate found"):
        CatalogClient.connect("localhost:50051", tls=True, ca_file=path)


@pytest.mark.parametrize(
    ("text", "canonical", "loopback"),
    [
        ("localhost:50051", "localhost:50051", True),
        ("127.0.0.2:1", "127.0.0.2:1", True),
        ("[::1]:65535", "[::1]:65535", True),
        ("catalog.olm.svc:50051", "catalog.olm.svc:50051", False),
        ("10.1.2.3:0080", "10.1.2.3:80", False),
    ],
)
def test_addresses(text: str, canonical: str, loopback: bool) -> None:
    address = parse_address(text)
    assert (str(address), address.is_loopback) == (canonical, loopback)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "port is missing"),
        ("localhost", "port is missing"),
        ("[::1]", "port is missing"),
        ("http://localhost:50051", "URL"),
        ("localhost:0", "'0' is not a port"),
        ("localhost:65536", "not a port"),
        ("localhost:grpc", "not a port"),
        ("::1:50051", "brackets"),
        (":50051", "'' is not a host"),
        ("a b:1", "not a host"),
        ("[nix]:1", "not a host"),
        ("dns:///x:1", "URL"),
        ("unix:/tmp/x", "not a port"),
        ("\x1b[2J:1", "not a host"),
    ],
)
def test_invalid_addresses(text: str, message: str) -> None:
    with pytest.raises(InvalidAddress, match=message) as caught:
        parse_address(text)
    assert str(caught.value.hint)
    assert caught.value.message.isprintable()
