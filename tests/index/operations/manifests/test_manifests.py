"""Tests of ``index manifests``."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from msgspec import structs

from opmkit.bundle import parse_bundle
from opmkit.client import parse_address
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.index.convert.database_blobs import database_to_blobs
from opmkit.index.errors import CatalogError, UnknownPackage
from opmkit.index.fbc.blobs import BlobProperty, Blobs, BundleBlob, ChannelBlob, EntryBlob, PackageBlob
from opmkit.index.fbc.write import to_json
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.operations.manifests.names import as_label
from opmkit.index.operations.manifests.resources import (
    CatalogSource,
    Installation,
    PodConfig,
    build_manifests,
    is_available,
    resolve_in_catalog,
    resolve_in_database,
)
from opmkit.index.sqlite import open_database, replace_database
from tests.kit.catalogs import write_library
from tests.kit.corpus import save_files
from tests.kit.opm import run
from tests.reference.samples import Sample

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.registry import Registry

SOURCE = CatalogSource("catalog", "olm", image=Reference.parse("quay.io/me/catalog:1"))
SHELF = Installation("shelf", "shelf")
MODES = ("AllNamespaces", "OwnNamespace", "SingleNamespace", "MultiNamespace")
OWN_ONLY: dict[str, Any] = {
    "apiVersion": "operators.coreos.com/v1alpha1",
    "kind": "ClusterServiceVersion",
    "metadata": {"name": "shelf.v1.0.0"},
    "spec": {
        "installModes": [{"type": "OwnNamespace", "supported": True}, {"type": "AllNamespaces", "supported": False}]
    },
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("library") / "index.db"
    write_library(path)
    return path


def kinds(objects: list[dict[str, Any]]) -> list[str]:
    return [manifest["kind"] for manifest in objects]


def test_catalog_source_of_an_image_with_all_fields() -> None:
    source = structs.replace(
        SOURCE,
        display_name="My Catalog",
        publisher="me",
        poll_interval="1h30m",
        secrets=("pull", "pull.too"),
        pod=PodConfig(security_context="restricted"),
        priority=-5,
    )
    assert build_manifests(source) == [
        {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "CatalogSource",
            "metadata": {"name": "catalog", "namespace": "olm"},
            "spec": {
                "sourceType": "grpc",
                "image": "quay.io/me/catalog:1",
                "displayName": "My Catalog",
                "publisher": "me",
                "secrets": ["pull", "pull.too"],
                "priority": -5,
                "grpcPodConfig": {"securityContextConfig": "restricted"},
                "updateStrategy": {"registryPoll": {"interval": "1h30m"}},
            },
        }
    ]


def test_catalog_source_of_an_address() -> None:
    source = CatalogSource("catalog", "olm", address=parse_address("catalog.olm.svc:50051"))
    assert build_manifests(source)[0]["spec"] == {"sourceType": "grpc", "address": "catalog.olm.svc:50051"}


def test_installation_in_a_new_namespace() -> None:
    installation = Installation("my_shelf", "shelves", "stable", "shelf.v1", "Manual", targets=("a", "b"))
    source, namespace, operators, subscription = build_manifests(SOURCE, installation)
    assert source == build_manifests(SOURCE)[0]
    assert namespace == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shelves"}}
    assert operators == {
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroup",
        "metadata": {"name": "my-shelf", "namespace": "shelves"},
        "spec": {"targetNamespaces": ["a", "b"]},
    }
    assert subscription == {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "Subscription",
        "metadata": {"name": "my-shelf", "namespace": "shelves"},
        "spec": {
            "name": "my_shelf",
            "source": "catalog",
            "sourceNamespace": "olm",
            "channel": "stable",
            "startingCSV": "shelf.v1",
            "installPlanApproval": "Manual",
        },
    }


def test_existing_namespace_gets_no_operator_group() -> None:
    assert kinds(build_manifests(SOURCE, SHELF)) == ["CatalogSource", "Namespace", "OperatorGroup", "Subscription"]
    for installation in (replace(SHELF, existing=True), replace(SHELF, namespace="operators")):
        assert kinds(build_manifests(SOURCE, installation)) == ["CatalogSource", "Subscription"]


def test_database_determines_the_channel(library: Path) -> None:
    with open_database(library) as database:
        assert resolve_in_database(SHELF, database).channel == "beta"
        assert resolve_in_database(replace(SHELF, channel="alpha"), database).channel == "alpha"


def test_catalog_determines_channel_and_install_modes() -> None:
    for name, spec in (
        (
            "objects",
            BlobProperty("olm.bundle.object", {"data": base64.b64encode(json.dumps(OWN_ONLY).encode()).decode()}),
        ),
        ("metadata", BlobProperty("olm.csv.metadata", OWN_ONLY["spec"])),
    ):
        version = BlobProperty("olm.package", {"packageName": "shelf", "version": "1.0.0"})
        blobs = Blobs(
            (PackageBlob("shelf", "beta"),),
            (ChannelBlob("beta", "shelf", (EntryBlob("shelf.v1.0.0"),)),),
            (BundleBlob("shelf.v1.0.0", "shelf", "quay.io/me/shelf:1", (version, spec)),),
        )
        resolved = resolve_in_catalog(SHELF, blobs)
        assert (resolved.channel, resolved.targets) == ("beta", (SHELF.namespace,)), name
        with pytest.raises(CatalogError, match="unsupported install mode MultiNamespace"):
            resolve_in_catalog(replace(SHELF, targets=("a", "b")), blobs)


def test_rejects_unknown_names(library: Path) -> None:
    with open_database(library) as database:
        with pytest.raises(UnknownPackage, match='"nix" not found') as caught:
            resolve_in_database(Installation("nix", "nix"), database)
        assert "book, shelf" in str(caught.value.hint)
        with pytest.raises(CatalogError, match='channel "nix" not found') as wrong_channel:
            resolve_in_database(replace(SHELF, channel="nix"), database)
        assert "alpha, beta" in str(wrong_channel.value.hint)
        with pytest.raises(CatalogError, match=r'channel "beta" .* bundle "shelf.v1.2.0" not found') as wrong_start:
            resolve_in_database(replace(SHELF, starting_csv="shelf.v1.2.0"), database)
        assert "did you mean shelf.v1.1.0 or shelf.v1.0.0?" in str(wrong_start.value.hint)


def _index_of_modes(path: Path, *supported: str) -> Path:
    """Write an index of the package ``shelf`` whose head supports only these install modes."""
    files = Sample("shelf", "1.0.0", default="alpha").files()
    csv = json.loads(files["manifests/csv.yaml"])
    csv["spec"]["installModes"] = [{"type": mode, "supported": mode in supported} for mode in MODES]
    files["manifests/csv.yaml"] = json.dumps(csv).encode()
    with replace_database(path) as database:
        add_bundles(database, [parse_bundle(files, image="quay.io/example/shelf:1")])
    return path


@pytest.mark.parametrize(
    ("supported", "given", "targets"),
    [
        (("AllNamespaces", "OwnNamespace"), None, None),
        (("OwnNamespace", "SingleNamespace"), None, ("shelf",)),
        (("OwnNamespace",), ("shelf",), ("shelf",)),
        (("SingleNamespace",), ("other",), ("other",)),
        (("MultiNamespace",), ("a", "b"), ("a", "b")),
        (("AllNamespaces",), (), ()),
    ],
)
def test_selects_supported_targets(
    supported: tuple[str, ...], given: tuple[str, ...] | None, targets: tuple[str, ...] | None, tmp_path: Path
) -> None:
    with open_database(_index_of_modes(tmp_path / "index.db", *supported)) as database:
        assert resolve_in_database(replace(SHELF, targets=given), database).targets == targets


@pytest.mark.parametrize(
    ("supported", "installation", "mode"),
    [
        (("OwnNamespace",), replace(SHELF, targets=()), "AllNamespaces"),
        (("OwnNamespace",), replace(SHELF, namespace="operators"), "AllNamespaces"),
        (("AllNamespaces",), replace(SHELF, targets=("shelf",)), "OwnNamespace"),
        (("AllNamespaces",), replace(SHELF, targets=("other",)), "SingleNamespace"),
        (("SingleNamespace",), replace(SHELF, targets=("a", "b")), "MultiNamespace"),
        (("SingleNamespace",), SHELF, "AllNamespaces"),
    ],
)
def test_rejects_unsupported_targets(
    supported: tuple[str, ...], installation: Installation, mode: str, tmp_path: Path
) -> None:
    with (
        open_database(_index_of_modes(tmp_path / "index.db", *supported)) as database,
        pytest.raises(CatalogError, match=f"install mode {mode}") as caught,
    ):
        resolve_in_database(installation, database)
    assert supported[0] in str(caught.value.hint)


def test_targets_of_existing_namespace_are_not_selected(tmp_path: Path) -> None:
    with open_database(_index_of_modes(tmp_path / "index.db", "OwnNamespace")) as database:
        assert resolve_in_database(replace(SHELF, existing=True), database).targets is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "1st"}, "catalog source name '1st'.*letter first"),
        ({"name": "my.catalog"}, "catalog source name"),
        ({"name": ""}, "catalog source name"),
        ({"namespace": "Olm"}, "namespace 'Olm'"),
        ({"secrets": ("a_b",)}, "pull secret 'a_b'"),
        ({"poll_interval": "30"}, "invalid polling interval '30'"),
        ({"poll_interval": "-5m"}, "invalid polling interval"),
        ({"poll_interval": "0h0.0m"}, "invalid polling interval '0h0.0m': zero"),
        ({"image": Reference.parse(f"quay.io/me/c@sha256:{'0' * 64}"), "poll_interval": "1h"}, "never changes"),
        ({"image": None}, "no image and no address"),
        ({"image": None, "address": parse_address("c:1"), "poll_interval": "1h"}, "c:1: polling interval unsupported"),
        ({"image": None, "address": parse_address("c:1"), "secrets": ("s",)}, "pull secrets unsupported"),
        (
            {"image": None, "address": parse_address("c:1"), "pod": PodConfig(security_context="legacy")},
            "pod configuration unsupported",
        ),
    ],
)
def test_rejects_invalid_catalog_sources(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(CatalogError, match=message) as caught:
        structs.replace(SOURCE, **wrong)
    assert str(caught.value.hint)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"package": "___"}, "cannot derive the name of an object"),
        ({"namespace": "a.b"}, "install namespace 'a.b'"),
        ({"targets": ("A",)}, "target namespace 'A'"),
        ({"starting_csv": "a b"}, "starting CSV 'a b'"),
        ({"targets": ("a",), "existing": True}, "its OperatorGroup already exists"),
        ({"targets": ("a",), "namespace": "openshift-operators"}, "its OperatorGroup already exists"),
    ],
)
def test_rejects_invalid_installations(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(CatalogError, match=message) as caught:
        replace(SHELF, **wrong)
    assert str(caught.value.hint)


def test_availability_in_namespaces() -> None:
    assert is_available(SOURCE, SHELF)
    assert is_available(structs.replace(SOURCE, namespace="openshift-marketplace"), SHELF)
    assert is_available(structs.replace(SOURCE, namespace="shelf"), SHELF)
    assert not is_available(structs.replace(SOURCE, namespace="elsewhere"), SHELF)


@pytest.mark.parametrize(
    ("text", "label"), [("My_Shelf.v2", "my-shelf-v2"), ("-a-", "a"), ("", ""), ("é", ""), ("a" * 62 + ".b", "a" * 62)]
)
def test_names_are_converted_to_labels(text: str, label: str) -> None:
    assert as_label(text) == label


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    assert run(["index", "manifests", *arguments]) == 0
    return capsys.readouterr()


def test_command_prints_yaml_or_json(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (str(library), "--address", "catalog.olm.svc:50051", "--package", "shelf", "--approval", "manual")
    documents, warnings = printed(capsys, *arguments)
    objects = list(yaml.safe_load_all(documents))
    assert kinds(objects) == ["CatalogSource", "Namespace", "OperatorGroup", "Subscription"]
    assert objects[0]["metadata"]["name"] == "catalog"
    assert objects[3]["spec"]["channel"] == "beta"
    assert objects[3]["spec"]["installPlanApproval"] == "Manual"
    assert warnings == ""
    listed = json.loads(printed(capsys, *arguments, "--output", "json")[0])
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    assert listed["items"] == objects


def test_command_normalizes_the_image_and_derives_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    text, _ = printed(capsys, "quay.io/me/my_catalog", "--poll-interval", "30m")
    (source,) = yaml.safe_load_all(text)
    assert source["metadata"] == {"name": "my-catalog", "namespace": "olm"}
    assert source["spec"]["image"] == "quay.io/me/my_catalog:latest"


def test_command_reads_the_index_image(registry: Registry, library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    client = RegistryClient(RegistryOptions(plain_http=True))
    with open_database(library) as database:
        catalog = to_json(database_to_blobs(database))
    images: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
        "library": (
            {"database/index.db": library},
            {"operators.operatorframework.io.index.database.v1": "database/index.db"},
        ),
        "files": ({"configs/all.json": catalog}, {"operators.operatorframework.io.index.configs.v1": "/configs"}),
        "other": ({}, {}),
    }
    for tag, (files, labels) in images.items():
        save_files(files, labels, client.repository(Reference.parse(f"{registry.host}/manifests/index")), tag)

    def ask(tag: str) -> tuple[int, str, str]:
        image = f"{registry.host}/manifests/index:{tag}"
        status = run(["index", "manifests", image, "--package", "shelf", "--use-http"])
        return status, *capsys.readouterr()

    for kind in ("library", "files"):
        status, text, warnings = ask(kind)
        assert (status, warnings) == (0, "")
        assert list(yaml.safe_load_all(text))[-1]["spec"]["channel"] == "beta"
    status, text, errors = ask("other")
    assert (status, text) == (1, "")
    assert "not an index image" in errors


@pytest.mark.slow
def test_unreadable_index_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    image = "127.0.0.1:1/me/catalog:1"
    text, warnings = printed(capsys, image, "--package", "shelf", "--use-http")
    subscription = list(yaml.safe_load_all(text))[-1]
    assert "channel" not in subscription["spec"]
    assert warnings.startswith("Warning: package, channel and install modes are not checked: ")


def test_warns_about_unavailable_catalog(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (str(library), "--address", "c:50051", "--package", "shelf", "--namespace", "elsewhere")
    assert "offers a catalog only in its namespace elsewhere, not in shelf" in printed(capsys, *arguments)[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no index: pass REF or --address"),
        (("oci:catalog:1",), "clusters cannot pull this index"),
        (("quay.io/me/Catalog",), "upper-case"),
        (("quay.io/me/catalog", "--channel", "a"), "--channel requires --package"),
        (("quay.io/me/catalog", "--name", "A"), "catalog source name 'A'"),
        (("--address", "localhost"), "port is missing"),
        (("quay.io/me/catalog", "--security-context", "none"), "security-context"),
        (("{library}",), "clusters cannot pull this index"),
        (("{library}", "--address", "c:1", "--package", "nix"), '"nix" not found'),
    ],
)
def test_invalid_command_lines(
    arguments: tuple[str, ...], message: str, library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["index", "manifests", *(argument.replace("{library}", str(library)) for argument in arguments)]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
