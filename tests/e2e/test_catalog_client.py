"""``opm catalog`` with servers of opmkit and, if OPMKIT_REFERENCE_OPM is set, of Go opm."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import yaml

from opmkit.index.grpc_api import message_class
from tests.kit.catalogs import ScriptedCatalog, free_port, write_library
from tests.kit.customschemas import write_catalog as write_custom_catalog
from tests.kit.opm import PROGRAM
from tests.kit.server import SERVE, Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.opm import Opm

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPM", "")
SHELF = "shelfs.example.com/v1/Shelf"


@pytest.fixture(scope="module", params=["opmkit", "reference"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "reference" and not REFERENCE:
        pytest.skip("OPMKIT_REFERENCE_OPM is not set")
    database = tmp_path_factory.mktemp("catalog") / "index.db"
    write_library(database)
    program, port = (SERVE, 0) if request.param == "opmkit" else ((REFERENCE, *SERVE[1:]), free_port())
    with Server("--database", str(database), program=program, port=port) as server:
        yield server.address


def rows(text: str) -> list[list[str]]:
    """Return the cells of a table without its header."""
    return [line.split() for line in text.splitlines()[1:]]


def test_list(opm: Opm, address: str) -> None:
    assert rows(opm.here("catalog", "list", "packages", "--address", address)) == [
        ["book", "alpha", "book.v0.1.0"],
        ["shelf", "beta", "shelf.v1.1.0"],
    ]
    assert rows(opm.here("catalog", "list", "channels", "shelf", "--address", address)) == [
        ["shelf", "alpha", "shelf.v1.2.0"],
        ["shelf", "beta", "shelf.v1.1.0", "yes"],
    ]
    bundles = rows(opm.here("catalog", "list", "bundles", "shelf", "--channel", "alpha", "--address", address))
    assert bundles[-1] == [
        *("shelf", "alpha", "shelf.v1.2.0", "shelf.v1.0.0", "shelf.v1.1.0", "<1.2.0", "quay.io/example/shelf:1.2.0")
    ]
    assert len(bundles) == 3
    assert rows(opm.here("catalog", "list", "apis", "--address", address)) == [
        ["books.example.com/v1/Book", "book", "alpha"],
        [SHELF, "shelf", "alpha,beta"],
    ]


def test_get(opm: Opm, address: str) -> None:
    package = opm.here("catalog", "get", "package", "shelf", "--address", address)
    assert package.splitlines()[:2] == ["Name:             shelf", "Default channel:  beta"]
    assert ["alpha", "shelf.v1.2.0"] in [line.split() for line in package.splitlines()]
    bundle = opm.here("catalog", "get", "bundle", "shelf", "alpha", "--address", address)
    shown = [line.split(maxsplit=1) for line in bundle.splitlines()]
    assert ["Name:", "shelf.v1.2.0"] in shown
    assert ["Provides:", SHELF] in shown
    assert ["Requires:", "books.example.com/v1/Book"] in shown
    assert "ClusterServiceVersion shelf.v1.2.0" in bundle
    older = opm.here("catalog", "get", "bundle", "shelf", "alpha", "shelf.v1.0.0", "--address", address)
    assert "1.0.0" in older


def test_find(opm: Opm, address: str) -> None:
    assert ["shelf", "alpha", "shelf.v1.2.0", "shelf.v1.0.0,shelf.v1.1.0"] in rows(
        opm.here("catalog", "find", "providers", SHELF, "--address", address)
    )
    latest = rows(opm.here("catalog", "find", "providers", SHELF, "--latest", "--address", address))
    assert [row[:3] for row in latest] == [["shelf", "alpha", "shelf.v1.2.0"], ["shelf", "beta", "shelf.v1.1.0"]]
    default = opm.here("catalog", "find", "providers", SHELF, "--default", "--address", address)
    assert "shelf.v1.1.0" in default.splitlines()[0]
    assert rows(opm.here("catalog", "find", "successors", "shelf.v1.1.0", "--address", address)) == [
        ["shelf", "alpha", "shelf.v1.2.0", "shelf.v1.1.0"]
    ]
    older = rows(opm.here("catalog", "find", "predecessors", "shelf.v1.1.0", "--address", address))
    assert [row[:4] for row in older][1] == ["shelf", "beta", "shelf.v1.1.0", "shelf.v1.0.0"]
    replacement = opm.here("catalog", "find", "replacement", "shelf", "beta", "shelf.v1.0.0", "--address", address)
    assert "shelf.v1.1.0" in replacement.splitlines()[0]


@pytest.mark.parametrize(
    "question",
    [
        *(
            ("list", "packages"),
            ("list", "channels"),
            ("list", "bundles"),
            ("list", "apis"),
            ("get", "package", "shelf"),
        ),
        *(("get", "bundle", "shelf", "beta"), ("find", "providers", SHELF), ("find", "providers", SHELF, "--default")),
        *(("find", "successors", "shelf.v1.0.0"), ("find", "predecessors", "shelf.v1.1.0")),
        ("find", "replacement", "shelf", "alpha", "shelf.v1.1.0"),
    ],
    ids=" ".join,
)
def test_json_and_yaml_have_the_same_content(question: tuple[str, ...], opm: Opm, address: str) -> None:
    data = json.loads(opm.here("catalog", *question, "--address", address, "--output", "json"))
    assert "shelf" in json.dumps(data)
    assert yaml.safe_load(opm.here("catalog", *question, "--address", address, "-o", "yaml")) == data


def test_json_contains_manifests_and_properties_as_values(opm: Opm, address: str) -> None:
    bundle = json.loads(opm.here("catalog", "get", "bundle", "shelf", "alpha", "-o", "json", "--address", address))
    assert bundle["csv"]["metadata"]["name"] == "shelf.v1.2.0"
    assert {manifest["kind"] for manifest in bundle["objects"]} == {"ClusterServiceVersion", "CustomResourceDefinition"}
    assert {"type": "olm.package", "value": {"packageName": "shelf", "version": "1.2.0"}} in bundle["properties"]
    assert bundle["provided_apis"][0]["kind"] == "Shelf"


def test_health(opm: Opm, address: str) -> None:
    assert opm.here("catalog", "health", "--address", address) == "serving\n"


def test_errors_name_the_server_and_have_a_hint(opm: Opm, address: str) -> None:
    done = opm.attempt("catalog", "get", "package", "nix", "--address", address)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"Error: {address}: GetPackage: package nix not found",
        "  hint: list packages, channels and bundles with 'opm catalog list'",
    ]
    tls = opm.attempt("catalog", "list", "packages", "--tls", "--address", address)
    assert tls.stderr.startswith(f"Error: {address}: ListPackages: ")
    assert len(tls.stderr.splitlines()) == 2


def test_unreachable_server(opm: Opm) -> None:
    address = f"127.0.0.1:{free_port()}"
    for question in (("list", "packages"), ("list", "bundles"), ("health",)):
        done = opm.attempt("catalog", *question, "--address", address)
        assert done.returncode == 1
        assert done.stderr.startswith(f"Error: {address}: ")
        assert "hint: check that a catalog is served at this address" in done.stderr


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (("list", "packages", "--address", "localhost"), "invalid address 'localhost': the port is missing"),
        (("list", "packages", "--timeout", "0"), "timeout"),
        (("list", "packages", "--ca-file", "nix.pem"), "nix.pem: No such file"),
        (("find", "providers", "Shelf"), "must be GROUP/VERSION/KIND"),
        (("find", "providers", SHELF, "--latest", "--default"), "mutually exclusive"),
        (("get", "bundle", "shelf"), "CHANNEL"),
        (("bogus",), 'unknown command "bogus"'),
    ],
)
def test_usage_errors(question: tuple[str, ...], message: str, opm: Opm) -> None:
    done = opm.attempt("catalog", *question)
    assert message in done.stderr
    assert done.stderr.startswith("Error: ")
    assert done.returncode == 1


def test_responses_of_a_hostile_server_are_escaped(opm: Opm) -> None:
    bundle = message_class("Bundle")(
        csvName="x\x1b[2J\ny",
        csvJson="[" * 500,
        object=["{", "[]", '{"metadata": 1}', "[" * 300 + "]" * 300],
        properties=[{"type": "t", "value": "9" * 1000}, {"type": "u", "value": "\u202e" + "x" * 1000}],
    )
    answers: dict[str, Any] = {
        "GetBundle": lambda *_: bundle,
        "ListBundles": lambda *_: iter([bundle]),
        "GetPackage": lambda *_: b"\xff",
    }
    with ScriptedCatalog(answers) as server:
        flags = ("--address", server.address)
        for question in (("get", "bundle", "a", "b", "c"), ("list", "bundles"), ("list", "apis")):
            text = opm.here("catalog", *question, *flags)
            assert all(line.isprintable() and len(line) < 300 for line in text.splitlines())
            assert json.loads(opm.here("catalog", *question, *flags, "-o", "json")) == yaml.safe_load(
                opm.here("catalog", *question, *flags, "-o", "yaml")
            )
        broken = opm.attempt("catalog", "get", "package", "x", *flags)
        assert len(broken.stderr.splitlines()) == 1


def test_server_that_is_not_serving(opm: Opm) -> None:
    def refuse(_: Any, context: grpc.ServicerContext) -> Any:
        context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")

    for answer, message in ((lambda *_: b"\x08\x02", "not serving"), (refuse, "unknown service")):
        with ScriptedCatalog({"Check": answer}, service="grpc.health.v1.Health") as server:
            done = opm.attempt("catalog", "health", "--address", server.address)
        assert done.returncode == 1
        assert message in done.stderr


def test_documents_of_custom_schemas(opm: Opm, address: str, tmp_path: Path) -> None:
    failed = opm.attempt("catalog", "list", "documents", "acme.note", "--address", address)
    assert (failed.returncode, "unknown service api.ExperimentalRegistry" in failed.stderr) == (1, True)
    catalog = write_custom_catalog(tmp_path / "catalog")
    with Server(str(catalog), program=(str(PROGRAM), "serve")) as server:
        listed = ("catalog", "list", "documents", "--address", server.address)
        assert sorted(cells[2] for cells in rows(opm.here(*listed, "acme.note", "reef"))) == ["second", "types"]
        assert json.loads(opm.here(*listed, "acme.note", "-o", "json")) == [
            {"name": "without a package", "schema": "acme.note"}
        ]
        documents = json.loads(opm.here(*listed, "acme.note", "reef", "-o", "json"))
        (types,) = (document for document in documents if document["name"] == "types")
        assert (types["integer"], types["fraction"], types["empty"], types["nothing"]) == (1, 1.5, {}, None)
        assert yaml.safe_load(opm.here(*listed, "acme.none", "-o", "yaml")) == []
        failed = opm.attempt(*listed, "../x")
        assert (failed.returncode, 'invalid schema "../x"' in failed.stderr) == (1, True)
