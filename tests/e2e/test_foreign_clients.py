"""Third-party clients of the catalog server, and manifests parsed by OLM's types."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from opmkit.client import Api, CatalogClient, RemoteBundle, RemoteEntry, RemotePackage
from opmkit.index.grpc_api import METHODS, message_class, response_class
from tests.kit import golang
from tests.kit.catalogs import write_library
from tests.kit.command_lines import ROOT, executable_lines
from tests.kit.opm import PROGRAM
from tests.kit.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.kit.opm import Opm

pytestmark = pytest.mark.timeout(900)  # building takes minutes, the first time

SHELF = ("shelfs.example.com", "v1", "Shelf")
SHELF_FIELDS = dict(zip(("group", "version", "kind"), SHELF, strict=True))
NEWEST = {"pkgName": "shelf", "channelName": "alpha", "csvName": "shelf.v1.2.0"}
OLDEST = {"pkgName": "shelf", "channelName": "alpha", "csvName": "shelf.v1.0.0"}


@pytest.fixture(scope="session")
def goclient(pytestconfig: pytest.Config) -> Path:
    return golang.goclient(pytestconfig.cache.mkdir("opmkit-go"))


@pytest.fixture(scope="session")
def grpcurl(pytestconfig: pytest.Config) -> Path:
    return golang.grpcurl(pytestconfig.cache.mkdir("opmkit-go"))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    database = tmp_path_factory.mktemp("catalog") / "index.db"
    write_library(database)
    with Server("--database", str(database)) as server:
        yield server.address


def answers(program: Path, address: str, *calls: tuple[str, ...]) -> list[dict[str, Any]]:
    """Call methods with the client library of operator-registry and return its responses."""
    asked = json.dumps([{"method": method, "arguments": arguments} for method, *arguments in calls])
    done = subprocess.run([program, "calls", address], input=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcomes: list[dict[str, Any]] = json.loads(done.stdout)
    return outcomes


def test_client_library_of_operator_registry_gets_the_same_responses(goclient: Path, address: str) -> None:
    newest, oldest = ("shelf", "alpha", "shelf.v1.2.0"), ("shelf.v1.0.0", "shelf", "alpha")
    responses = answers(
        *(goclient, address, ("HealthCheck",), ("GetPackage", "shelf"), ("GetBundle", *newest)),
        *(("GetBundleInPackageChannel", "shelf", "beta"), ("GetReplacementBundleInPackageChannel", *oldest)),
        *(("GetBundleThatProvides", *SHELF), ("ListBundles",)),
    )
    assert [response for response in responses if "code" in response] == []
    healthy, package, *bundles, listed = (response["answer"] for response in responses)
    assert healthy is True
    with CatalogClient.connect(address) as registry:
        assert RemotePackage.from_message(ParseDict(package, message_class("Package")())) == registry.get_package(
            "shelf"
        )
        assert [RemoteBundle.from_message(ParseDict(one, message_class("Bundle")())) for one in bundles] == [
            registry.get_bundle(*newest),
            registry.get_bundle_for_channel("shelf", "beta"),
            registry.get_bundle_that_replaces(*oldest),
            registry.get_default_bundle_that_provides(*SHELF),
        ]
        ours = list(registry.list_bundles())
    assert [RemoteBundle.from_message(ParseDict(one, message_class("Bundle")())) for one in listed] == ours
    assert len(ours) == 6


def test_errors_have_the_codes_and_texts_of_go_opm(goclient: Path, address: str) -> None:
    responses = answers(
        *(goclient, address, ("GetPackage", "nix"), ("GetBundle", "shelf", "alpha", "nix")),
        *(("GetReplacementBundleInPackageChannel", "nix", "shelf", "alpha"), ("GetBundleThatProvides", "g", "v", "k")),
    )
    assert responses == [
        {"code": "Unknown", "text": "package nix not found"},
        {"code": "Unknown", "text": "no entry found for shelf alpha nix"},
        {"code": "Unknown", "text": "no entry found for shelf alpha"},
        {"code": "Unknown", "text": "no entry found that provides g v k"},
    ]


def test_client_library_parses_properties_and_dependencies(goclient: Path, address: str) -> None:
    (models,) = answers(goclient, address, ("Models",))
    (properties,) = (one["properties"] for one in models["answer"] if one["name"] == "shelf.v1.2.0")
    with CatalogClient.connect(address) as registry:
        bundle = registry.get_bundle("shelf", "alpha", "shelf.v1.2.0")
    assert Api(*SHELF, plural="shelfs") in bundle.provided_apis
    assert {"type": "olm.gvk", "value": SHELF_FIELDS} in properties
    required = {"group": "books.example.com", "version": "v1", "kind": "Book"}
    assert {"type": "olm.gvk.required", "value": required} in properties
    needed = {"packageName": "book", "versionRange": ">=0.1.0"}
    assert {"type": "olm.package.required", "value": needed} in properties


def test_unfinished_iterator_does_not_affect_the_server(goclient: Path, address: str) -> None:
    *abandoned, healthy = answers(goclient, address, *[("AbandonedListBundles",)] * 20, ("HealthCheck",))
    assert all(one["answer"]["packageName"] in ("book", "shelf") for one in abandoned)
    assert healthy == {"answer": True}


def test_types_of_olm_parse_the_manifests(goclient: Path, opm: Opm) -> None:
    write_library(opm.directory / "index.db")
    flags = ("--channel", "alpha", "--starting-csv", "shelf.v1.2.0", "--target-namespaces", "a,b")
    pod = ("--poll-interval", "1h30m", "--pull-secret", "pull", "--display-name", "Mine", "--publisher", "me")
    printed = [
        opm.here("index", "manifests", *arguments, "--output", "json")
        for arguments in (
            (str(opm.directory / "index.db"), "--address", "catalog.olm.svc:50051", "--package", "shelf", *flags),
            ("quay.io/me/catalog:1", *pod),
        )
    ]
    understood = []
    for text in printed:
        done = subprocess.run([goclient, "manifests"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        understood += json.loads(done.stdout)
    ours = [one for text in printed for one in json.loads(text)["items"]]
    assert len(ours) == 5
    for given, read in zip(ours, understood, strict=True):
        assert read["kind"] == given["kind"]
        assert read["spec"].items() >= given.get("spec", {}).items()


def ask(grpcurl: Path, *arguments: str) -> str:
    done = subprocess.run([grpcurl, "-plaintext", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_grpcurl_finds_and_describes_the_service(grpcurl: Path, address: str) -> None:
    services = ask(grpcurl, address, "list").split()
    assert {"api.Registry", "grpc.health.v1.Health"} <= set(services)
    assert ask(grpcurl, address, "list", "api.Registry").split() == sorted(f"api.Registry.{name}" for name in METHODS)
    described = ask(grpcurl, address, "describe", "api.Registry")
    assert "rpc ListBundles ( .api.ListBundlesRequest ) returns ( stream .api.Bundle );" in described
    assert "repeated .api.GroupVersionKind providedApis = 7" in ask(grpcurl, address, "describe", "api.Bundle")
    assert "SERVING" in ask(grpcurl, address, "grpc.health.v1.Health/Check")


@pytest.mark.parametrize(
    ("method", "request_fields"),
    [
        ("ListPackages", {}),
        ("GetPackage", {"name": "shelf"}),
        ("GetBundle", NEWEST),
        ("GetBundleForChannel", {"pkgName": "shelf", "channelName": "alpha"}),
        ("GetChannelEntriesThatReplace", {"csvName": "shelf.v1.0.0"}),
        ("GetBundleThatReplaces", OLDEST),
        ("GetChannelEntriesThatProvide", SHELF_FIELDS),
        ("GetLatestChannelEntriesThatProvide", SHELF_FIELDS),
        ("GetDefaultBundleThatProvides", SHELF_FIELDS),
        ("ListBundles", {}),
    ],
)
def test_grpcurl_gets_the_responses_of_opm_catalog(
    method: str, request_fields: dict[str, str], grpcurl: Path, address: str
) -> None:
    """grpcurl reads the message types by reflection."""
    text = ask(grpcurl, "-d", json.dumps(request_fields), address, f"api.Registry/{method}")
    responses = list(documents(text))
    assert responses
    values: dict[str, Callable[[Any], object]] = {
        "Package": RemotePackage.from_message,
        "Bundle": RemoteBundle.from_message,
        "ChannelEntry": RemoteEntry.from_message,
        "PackageName": lambda one: one.name,
    }
    answer = response_class(method)
    value_of = values[answer.DESCRIPTOR.name]
    with CatalogClient.connect(address) as registry:
        assert [value_of(ParseDict(one, answer())) for one in responses] == ours(registry, method)
    assert [MessageToDict(ParseDict(one, answer())) for one in responses] == responses


def test_documented_calls_of_grpcurl(grpcurl: Path, tmp_path: Path) -> None:
    """The catalog has the package and the documents that the page names."""
    package, bundle = "lagoon-operator", "lagoon-operator.v0.1.0"
    version = {"type": "olm.package", "value": {"packageName": package, "version": "0.1.0"}}
    catalog = [
        {"schema": "olm.package", "name": package, "defaultChannel": "stable"},
        {"schema": "olm.channel", "package": package, "name": "stable", "entries": [{"name": bundle}]},
        {"schema": "olm.bundle", "package": package, "name": bundle, "image": "a/b:1", "properties": [version]},
        {"schema": "example.com.note", "package": package, "text": "Deep."},
    ]
    (tmp_path / "catalog.json").write_text("\n".join(map(json.dumps, catalog)))
    lines = [line.text for line in executable_lines(ROOT / "docs" / "serving.md") if line.text.startswith("grpcurl ")]
    with Server(str(tmp_path), program=[str(PROGRAM), "serve"]) as server:
        printed = [ask(grpcurl, *shlex.split(line.replace("localhost:50051", server.address))[2:]) for line in lines]
    assert len(printed) == 3
    assert all(line.split()[1] == "-plaintext" for line in lines)
    assert "api.Registry" in printed[0].split()
    assert '"defaultChannelName": "stable"' in printed[1]
    assert '"Deep."' in printed[2]


def ours(registry: CatalogClient, method: str) -> list[Any]:
    """Return the responses that opmkit's client receives."""
    calls: dict[str, Any] = {
        "ListPackages": registry.list_packages,
        "GetPackage": lambda: [registry.get_package("shelf")],
        "GetBundle": lambda: [registry.get_bundle("shelf", "alpha", "shelf.v1.2.0")],
        "GetBundleForChannel": lambda: [registry.get_bundle_for_channel("shelf", "alpha")],
        "GetChannelEntriesThatReplace": lambda: registry.get_channel_entries_that_replace("shelf.v1.0.0"),
        "GetBundleThatReplaces": lambda: [registry.get_bundle_that_replaces("shelf.v1.0.0", "shelf", "alpha")],
        "GetChannelEntriesThatProvide": lambda: registry.get_channel_entries_that_provide(*SHELF),
        "GetLatestChannelEntriesThatProvide": lambda: registry.get_latest_channel_entries_that_provide(*SHELF),
        "GetDefaultBundleThatProvides": lambda: [registry.get_default_bundle_that_provides(*SHELF)],
        "ListBundles": registry.list_bundles,
    }
    return list(calls[method]())


def documents(text: str) -> Iterator[Any]:
    """Yield the JSON documents of a stream."""
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        value, end = decoder.raw_decode(text)
        yield value
        text = text[end:]
