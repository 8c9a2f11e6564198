"""Parts of a catalog, and the ConfigMaps and the pod that serve them."""

from __future__ import annotations

import base64
import gzip
import random
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.author.run.objects import catalog_name, operator_name, subscription_name
from opmkit.author.run.registry_pod import (
    CATALOG_DIRECTORY,
    Part,
    Partition,
    PodOptions,
    SecurityContext,
    build_config_maps,
    build_pod,
    format_address,
    partition,
)
from opmkit.author.run.resources import InjectedBundles, build_catalog_source, build_operator_group, serve_patch
from opmkit.core.errors import LimitExceeded
from opmkit.index.fbc.blobs import BlobProperty, Blobs, BundleBlob, ChannelBlob, EntryBlob, PackageBlob
from opmkit.index.fbc.load import parse_blobs

if TYPE_CHECKING:
    from pathlib import Path

SOURCE: dict[str, Any] = {
    "apiVersion": "operators.coreos.com/v1alpha1",
    "kind": "CatalogSource",
    "metadata": {"name": "demo-catalog", "namespace": "ns", "uid": "1"},
    "spec": {},
}
SMALL = Partition((Part("catalog.json", b"{}"),), False, "abc")
LARGE = Partition((Part("catalog-1.json.gz", b"1"), Part("catalog-2.json.gz", b"2")), True, "abc")


def catalog(bundles: int, size: int = 10) -> Blobs:
    """Return a catalog whose bundles contain random text."""
    source = random.Random(1)
    texts = [base64.b64encode(source.randbytes(size)).decode() for _ in range(bundles)]
    return Blobs(
        (PackageBlob("demo", "alpha"),),
        (ChannelBlob("alpha", "demo", tuple(EntryBlob(f"demo.v{number}") for number in range(bundles))),),
        tuple(
            BundleBlob(f"demo.v{number}", "demo", "image", (BlobProperty("text", text),))
            for number, text in enumerate(texts)
        ),
    )


def test_small_catalog_is_one_uncompressed_part() -> None:
    blobs = catalog(2)
    parts = partition(blobs)
    assert [part.name for part in parts.parts] == ["catalog.json"]
    assert not parts.compressed
    assert parse_blobs(parts.parts[0].content, "") == blobs
    assert partition(catalog(3)).digest != parts.digest == partition(blobs).digest


def test_large_catalog_is_split_into_compressed_parts() -> None:
    blobs = catalog(30, 1000)
    parts = partition(blobs, max_part=10_000)
    assert parts.compressed
    assert len(parts.parts) > 2
    assert all(len(part.content) <= 10_000 for part in parts.parts)
    content = b"".join(gzip.decompress(part.content) for part in parts.parts)
    restored = parse_blobs(content, "")
    assert (restored.packages, restored.channels) == (blobs.packages, blobs.channels)
    assert sorted(restored.bundles, key=str) == sorted(blobs.bundles, key=str)


def test_document_that_fits_no_config_map_is_an_error() -> None:
    with pytest.raises(LimitExceeded, match="does not fit into a ConfigMap"):
        partition(catalog(1, 20_000), max_part=10_000)


def test_config_maps_belong_to_the_catalog_source() -> None:
    first, second = build_config_maps(SOURCE, LARGE)
    assert [each["metadata"]["name"] for each in (first, second)] == ["demo-catalog-abc-1", "demo-catalog-abc-2"]
    assert base64.b64decode(first["binaryData"]["catalog-1.json.gz"]) == b"1"
    assert first["metadata"]["ownerReferences"] == [
        {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "demo-catalog", "uid": "1"}
    ]


def test_pod_serves_the_config_map_of_a_small_catalog() -> None:
    pod = build_pod(SOURCE, build_config_maps(SOURCE, SMALL), SMALL, PodOptions(image="opm:1"))
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["opm", "serve", CATALOG_DIRECTORY, "--port", "50051"]
    assert (container["image"], container["imagePullPolicy"]) == ("opm:1", "Always")
    (mount,) = container["volumeMounts"]
    assert mount["mountPath"] == CATALOG_DIRECTORY
    (volume,) = pod["spec"]["volumes"]
    assert volume["projected"]["sources"] == [
        {
            "configMap": {
                "name": "demo-catalog-abc-1",
                "items": [{"key": "catalog.json", "path": "catalog/catalog.json"}],
            }
        }
    ]
    assert not pod["spec"].keys() & {"initContainers", "securityContext", "serviceAccountName", "imagePullSecrets"}


def test_parts_of_a_large_catalog_are_decompressed_by_an_init_container(tmp_path: Path) -> None:
    options = PodOptions(decompression_image="gzip:1", service_account="sa", pull_secret="secret")
    spec = build_pod(SOURCE, build_config_maps(SOURCE, LARGE), LARGE, options)["spec"]
    (init,) = spec["initContainers"]
    assert init["image"] == "gzip:1"
    assert [mount["mountPath"] for mount in init["volumeMounts"]] == ["/compressed", CATALOG_DIRECTORY]
    assert (spec["serviceAccountName"], spec["imagePullSecrets"]) == ("sa", [{"name": "secret"}])
    for name in ("compressed", "configs"):
        (tmp_path / name).mkdir()
    (tmp_path / "compressed" / "catalog-1.json.gz").write_bytes(gzip.compress(b"{}"))
    command = [part.replace("/compressed", f"{tmp_path}/compressed") for part in init["command"]]
    command = [part.replace("/configs", f"{tmp_path}/configs") for part in command]
    subprocess.run(command, check=True)
    assert (tmp_path / "configs" / "catalog-1.json").read_bytes() == b"{}"


def test_restricted_security_context_applies_to_all_containers() -> None:
    options = PodOptions(security_context=SecurityContext.RESTRICTED)
    spec = build_pod(SOURCE, build_config_maps(SOURCE, LARGE), LARGE, options)["spec"]
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_address_of_an_ipv6_pod_has_brackets() -> None:
    assert format_address("10.0.0.1") == "10.0.0.1:50051"
    assert format_address("fd00::1") == "[fd00::1]:50051"


def test_catalog_source_records_its_bundles() -> None:
    injected = InjectedBundles("index:1", ("a", "b"))
    source = build_catalog_source("demo", "ns", PodOptions(pull_secret="secret"))
    assert source["spec"]["secrets"] == ["secret"]
    patch = serve_patch(source, "1.2.3.4:50051", injected.annotations("pod"), "secret")
    assert patch["spec"] == {"sourceType": "grpc", "address": "1.2.3.4:50051", "image": None, "secrets": ["secret"]}
    assert InjectedBundles.read(patch) == injected
    image_source = {**SOURCE, "spec": {"image": "index:1", "secrets": ["other"]}}
    patch = serve_patch(image_source, "a", {}, "secret")
    assert patch["spec"]["secrets"] == ["other", "secret"]
    assert patch["spec"]["updateStrategy"] is None


@pytest.mark.parametrize("recorded", ["", "{", "[]", "1", '[{"imageTag": 1}]', '{"a": "b"}'])
def test_catalog_source_of_another_origin_has_no_record(recorded: str) -> None:
    annotations = {"operators.operatorframework.io/injected-bundles": recorded}
    assert InjectedBundles.read({"metadata": {"annotations": annotations}}) is None
    assert InjectedBundles.read({}) is None


def test_operator_group_selects_all_namespaces_by_default() -> None:
    assert build_operator_group("ns", ())["spec"] == {}
    assert build_operator_group("ns", ("a", "b"))["spec"] == {"targetNamespaces": ["a", "b"]}


def test_name_of_the_operator_object_is_truncated_as_in_olm() -> None:
    assert operator_name("demo", "ns") == "demo.ns"
    assert operator_name("p" * 62, "ns") == "p" * 62


@pytest.mark.parametrize(
    ("package", "csv", "catalog", "subscription"),
    [
        ("demo", "demo.v1.0.0", "demo-catalog", "demo-v1-0-0-sub"),
        ("3scale_op", "Op.V1", "3scale-op-catalog", "op-v1-sub"),
        ("p" * 70, "c" * 80, f"{'p' * 55}-catalog", f"{'c' * 59}-sub"),
    ],
)
def test_names_of_objects(package: str, csv: str, catalog: str, subscription: str) -> None:
    assert (catalog_name(package), subscription_name(csv)) == (catalog, subscription)
