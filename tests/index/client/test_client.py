"""The typed client, against opmkit's server, the reference's where OPMKIT_REFERENCE_OPM names it, and faults."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from opmkit.index.api.messages import message_class
from opmkit.index.client import (
    Api,
    CallFailed,
    CallTimedOut,
    CatalogClient,
    Channel,
    ChannelEntry,
    Deprecation,
    InvalidAddress,
    Package,
    ServerUnreachable,
    parse_address,
)
from opmkit.index.client.queries import fetch_bundles, fetch_head, fetch_packages, group_updates, provided_apis
from opmkit.index.errors import CatalogError
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
        pytest.skip("OPMKIT_REFERENCE_OPM does not name the reference tool")
    database = tmp_path_factory.mktemp("catalog") / "index.db"
    write_library(database)
    program, port = (SERVE, 0) if request.param == "opmkit" else ((REFERENCE, *SERVE[1:]), free_port())
    with (
        Server("--database", str(database), program=program, port=port) as server,
        CatalogClient.connect(server.address) as client,
    ):
        yield client


def test_names_the_packages(catalog: CatalogClient) -> None:
    assert sorted(catalog.list_packages()) == ["book", "shelf"]


def test_shows_a_package(catalog: CatalogClient) -> None:
    package = catalog.get_package("shelf")
    assert (package.name, package.default_channel, package.deprecation) == ("shelf", "beta", None)
    assert set(package.channels) == {Channel("alpha", "shelf.v1.2.0"), Channel("beta", "shelf.v1.1.0")}


def test_shows_all_of_a_bundle(catalog: CatalogClient) -> None:
    bundle = catalog.get_bundle("shelf", "alpha", "shelf.v1.2.0")
    assert (bundle.package, bundle.channel, bundle.name, bundle.version) == ("shelf", "alpha", "shelf.v1.2.0", "1.2.0")
    assert bundle.image == "quay.io/example/shelf:1.2.0"
    assert bundle.skip_range == "<1.2.0"
    assert bundle.provided_apis == (Api(*SHELF, plural="shelfs"),)
    assert [str(api) for api in bundle.required_apis] == ["books.example.com/v1/Book"]
    assert "olm.package" in {one.type for one in bundle.dependencies}
    assert {one.type for one in bundle.properties} == {"olm.package", "olm.gvk"}
    assert '"displayName":"shelf.v1.2.0, revision 0"' in bundle.csv.replace(": ", ":")
    assert len(bundle.objects) == 2
    assert bundle.deprecation is None


def test_gives_the_head_of_a_channel(catalog: CatalogClient) -> None:
    bundle = catalog.get_bundle_for_channel("shelf", "beta")
    assert bundle.name == "shelf.v1.1.0"
    assert bundle.csv


def test_follows_updates(catalog: CatalogClient) -> None:
    assert set(catalog.get_channel_entries_that_replace("shelf.v1.0.0")) == {
        ChannelEntry("shelf", "alpha", "shelf.v1.2.0", "shelf.v1.0.0"),
        ChannelEntry("shelf", "beta", "shelf.v1.1.0", "shelf.v1.0.0"),
    }
    assert catalog.get_bundle_that_replaces("shelf.v1.0.0", "shelf", "beta").name == "shelf.v1.1.0"


def test_finds_who_provides_an_api(catalog: CatalogClient) -> None:
    entries = set(catalog.get_channel_entries_that_provide(*SHELF))
    assert ChannelEntry("shelf", "alpha", "shelf.v1.2.0", "shelf.v1.1.0") in entries
    assert ChannelEntry("shelf", "beta", "shelf.v1.0.0", "") in entries
    latest = {(one.channel, one.bundle) for one in catalog.get_latest_channel_entries_that_provide(*SHELF)}
    assert latest == {("alpha", "shelf.v1.2.0"), ("beta", "shelf.v1.1.0")}
    assert catalog.get_default_bundle_that_provides(*SHELF).name == "shelf.v1.1.0"


def test_lists_bundles_with_what_they_replace_and_without_manifests(catalog: CatalogClient) -> None:
    listed = {(one.channel, one.name): one for one in catalog.list_bundles()}
    assert len(listed) == 6
    newest = listed["alpha", "shelf.v1.2.0"]
    assert (newest.replaces, newest.skips) == ("shelf.v1.0.0", ("shelf.v1.1.0",))
    assert (newest.csv, newest.objects) == ("", ())


def test_is_healthy(catalog: CatalogClient) -> None:
    assert catalog.is_healthy()


def test_threads_share_a_client(catalog: CatalogClient) -> None:
    assert [one.name for one in fetch_packages(catalog)] == ["book", "shelf"]


def test_what_the_catalog_does_not_have_is_an_error_in_its_words(catalog: CatalogClient) -> None:
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


def test_a_stream_ends_where_its_reader_cancels_it(catalog: CatalogClient) -> None:
    with catalog.list_bundles() as stream:
        assert next(stream).name
        stream.cancel()
        assert list(stream) == []


def test_questions_of_several_calls(catalog: CatalogClient) -> None:
    assert fetch_head(catalog, "shelf", "alpha").image == "quay.io/example/shelf:1.2.0"
    with pytest.raises(CatalogError, match='channel "nix" not found') as caught:
        fetch_head(catalog, "shelf", "nix")
    assert "alpha, beta" in str(caught.value.hint)
    assert [(one.channel, one.name) for one in fetch_bundles(catalog, package="shelf", channel="beta")] == [
        ("beta", "shelf.v1.0.0"),
        ("beta", "shelf.v1.1.0"),
    ]
    with pytest.raises(CatalogError, match='no bundle found with package "shelf", name "nix"'):
        fetch_bundles(catalog, package="shelf", name="nix")
    apis = [(one.api, one.package, one.channels) for one in provided_apis(fetch_bundles(catalog))]
    assert apis == [
        ("books.example.com/v1/Book", "book", ("alpha",)),
        ("shelfs.example.com/v1/Shelf", "shelf", ("alpha", "beta")),
    ]
    found = group_updates(catalog.get_channel_entries_that_provide(*SHELF))
    assert [(one.channel, one.bundle, one.replaces) for one in found] == [
        ("alpha", "shelf.v1.0.0", ()),
        ("alpha", "shelf.v1.1.0", ()),
        ("alpha", "shelf.v1.2.0", ("shelf.v1.0.0", "shelf.v1.1.0")),
        ("beta", "shelf.v1.0.0", ()),
        ("beta", "shelf.v1.1.0", ("shelf.v1.0.0",)),
    ]


def test_nobody_answers() -> None:
    address = f"127.0.0.1:{free_port()}"
    with CatalogClient.connect(address) as client:
        with pytest.raises(ServerUnreachable, match=rf"^{address}: GetPackage: .*refused") as caught:
            client.get_package("shelf")
        assert "port-forward" in str(caught.value.hint)
        with pytest.raises(ServerUnreachable, match="Health/Check"):
            client.is_healthy()
        with pytest.raises(ServerUnreachable, match="ListBundles"):
            next(client.list_bundles())


def test_a_server_that_takes_too_long() -> None:
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


def test_a_cancelled_stream_is_told_to_the_server() -> None:
    ended = threading.Event()

    def endless(_: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        context.add_callback(ended.set)
        while context.is_active():
            yield message_class("Bundle")(csvName="shelf")

    with ScriptedCatalog({"ListBundles": endless}) as server, CatalogClient.connect(server.address) as client:
        with client.list_bundles() as stream:
            assert next(stream).name == "shelf"
        assert ended.wait(30)


def test_answers_may_be_larger_than_grpc_expects() -> None:
    large = message_class("Bundle")(csvJson="x" * (5 << 20))
    with (
        ScriptedCatalog({"GetBundle": lambda *_: large}) as server,
        CatalogClient.connect(server.address) as client,
    ):
        assert len(client.get_bundle("", "", "").csv) == 5 << 20


def test_deprecations_are_read() -> None:
    said = {"deprecation": {"message": "use another"}}
    answer = message_class("Package")(name="old", channels=[{"name": "alpha", **said}], **said)
    with (
        ScriptedCatalog({"GetPackage": lambda *_: answer}) as server,
        CatalogClient.connect(server.address) as client,
    ):
        deprecation = Deprecation("use another")
        assert client.get_package("old") == Package("old", "", (Channel("alpha", "", deprecation),), deprecation)


def test_text_of_a_server_can_not_command_a_terminal() -> None:
    def refuse(_: Any, context: grpc.ServicerContext) -> Any:
        context.abort(grpc.StatusCode.UNKNOWN, "\x1b[2J all\nis gone" + "!" * 5000)

    with ScriptedCatalog({"GetPackage": refuse}) as server, CatalogClient.connect(server.address) as client:
        with pytest.raises(CallFailed) as caught:
            client.get_package("shelf")
        assert caught.value.message.isprintable()
        assert len(caught.value.message) < 600


def test_an_answer_that_is_none() -> None:
    with (
        ScriptedCatalog({"GetPackage": lambda *_: b"\xff\xff\xff"}) as server,
        CatalogClient.connect(server.address) as client,
        pytest.raises(CallFailed, match=r"GetPackage: .*deserializ"),
    ):
        client.get_package("shelf")


def test_a_server_of_something_else() -> None:
    with (
        ScriptedCatalog({}, service="some.Other") as server,
        CatalogClient.connect(server.address) as client,
        pytest.raises(CallFailed, match="GetPackage") as caught,
    ):
        client.get_package("shelf")
    assert caught.value.code == "UNIMPLEMENTED"
    assert "does not implement" in str(caught.value.hint)


def test_a_server_that_does_not_serve_just_now() -> None:
    answer = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.NOT_SERVING)
    answers = {"Check": lambda *_: answer}
    with (
        ScriptedCatalog(answers, service="grpc.health.v1.Health") as server,
        CatalogClient.connect(server.address) as client,
    ):
        assert not client.is_healthy()


def test_a_name_that_is_no_text_is_not_sent() -> None:
    with CatalogClient.connect("localhost:50051") as client, pytest.raises(CallFailed, match=r"'\\udc80'"):
        client.get_package("\udc80")


def test_a_package_without_channels_is_listed() -> None:
    def refuse(_: Any, context: grpc.ServicerContext) -> Any:
        context.abort(grpc.StatusCode.UNKNOWN, "package bare not found")

    answers = {"ListPackages": lambda *_: iter([message_class("PackageName")(name="bare")]), "GetPackage": refuse}
    with ScriptedCatalog(answers) as server, CatalogClient.connect(server.address) as client:
        assert fetch_packages(client) == [Package("bare", "", ())]


def test_tls_with_an_authority_of_ones_own(tmp_path: Path) -> None:
    authority = certificate_authority(tmp_path)
    shown = server_certificate(tmp_path, authority)
    answers = {"GetPackage": lambda request, _: message_class("Package")(name=request.name)}
    with ScriptedCatalog(answers, tls=shown) as server:
        with CatalogClient.connect(server.address, tls=True, ca_file=authority.certificate) as client:
            assert client.get_package("shelf").name == "shelf"
        for tls in (True, False):  # trusting the system's authorities, and in plain text
            with (
                CatalogClient.connect(server.address, tls=tls) as client,
                pytest.raises(ServerUnreachable) as caught,
            ):
                client.get_package("shelf")
            assert "TLS" in str(caught.value.hint)


@pytest.mark.parametrize("content", [b"", b"none", b"\xff\xfe\x00"])
def test_a_file_that_is_no_authority(content: bytes, tmp_path: Path) -> None:
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
    ("text", "says"),
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
def test_what_is_no_address(text: str, says: str) -> None:
    with pytest.raises(InvalidAddress, match=says) as caught:
        parse_address(text)
    assert str(caught.value.hint)
    assert caught.value.message.isprintable()
