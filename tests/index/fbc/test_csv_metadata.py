"""Migration of embedded objects to metadata of the ClusterServiceVersion."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, CSV_METADATA, BlobProperty, Blobs, BundleBlob, SourceLocation
from opmkit.index.fbc.csv_metadata import MigrationLevel, migrate

PACKAGE = BlobProperty("olm.package", {"packageName": "op", "version": "1.0.0"})
EMPTY: dict[str, Any] = {"apiServiceDefinitions": {}, "crdDescriptions": {}, "provider": {}}


def csv(metadata: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": metadata or {},
    } | {"spec": spec}


def embedded(*objects: Any) -> list[BlobProperty]:
    """Return properties that embed objects; bytes are embedded unchanged, others as JSON."""
    manifests = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in objects]
    return [BlobProperty(BUNDLE_OBJECT, {"data": base64.b64encode(manifest).decode()}) for manifest in manifests]


def bundle(*properties: BlobProperty, image: str = "example.com/op:1") -> Blobs:
    return Blobs(bundles=(BundleBlob("op.v1", "op", image, properties, location=SourceLocation("a.yaml", 3)),))


def metadata(value: dict[str, Any]) -> Any:
    """Return the metadata for a ClusterServiceVersion."""
    (blob,) = migrate(bundle(*embedded(value)), MigrationLevel.ALL).bundles
    (prop,) = blob.properties
    assert prop.type == CSV_METADATA
    return prop.value


def test_metadata_replaces_all_objects_and_comes_last() -> None:
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    before = bundle(*embedded(crd), PACKAGE, *embedded(csv(displayName="Op")))
    for level in (MigrationLevel.CSV_METADATA, MigrationLevel.ALL):
        (blob,) = migrate(before, level).bundles
        assert blob.properties == (PACKAGE, BlobProperty(CSV_METADATA, {**EMPTY, "displayName": "Op"}))
    assert migrate(before, MigrationLevel.NONE) is before


@pytest.mark.parametrize(
    "blobs",
    [
        bundle(*embedded(csv()), image=""),
        bundle(*embedded(csv()), BlobProperty(CSV_METADATA, {})),
        bundle(*embedded({"apiVersion": "v1", "kind": "Service"})),
        bundle(PACKAGE),
    ],
    ids=["no-image", "metadata", "no-csv", "no-objects"],
)
def test_other_bundles_are_not_changed(blobs: Blobs) -> None:
    assert migrate(blobs, MigrationLevel.ALL) == blobs


def test_metadata_fields_are_ordered_and_omitted_if_empty() -> None:
    crds = [
        {
            "kind": "Thing",
            "name": "things.example.com",
            "version": "v1",
            "unknown": 1,
            "description": "",
            "resources": [{"kind": "Pod"}],
            "specDescriptors": [{"path": "a", "value": None, "x-descriptors": []}, {"path": "b", "value": 0}],
        }
    ]
    services = [{"name": "s", "containerPort": 443, "deploymentName": ""}]
    result = metadata(
        csv(
            {"annotations": {"b": "1", "a": "2"}, "labels": {}},
            nativeAPIs=[{"kind": "K"}],
            provider={"name": "me", "url": ""},
            customresourcedefinitions={"owned": crds, "required": []},
            apiservicedefinitions={"required": services},
            installModes=[{"type": "OwnNamespace", "supported": True}, {"type": "AllNamespaces"}],
            keywords=["k"],
            links=[{"url": "u", "name": "n"}],
            maintainers=[{"email": "e"}],
            maturity="alpha",
            minKubeVersion="1.20.0",
            description="d",
            version="1.0.0",
        )
    )
    thing = {
        "name": "things.example.com",
        "version": "v1",
        "kind": "Thing",
        "resources": [{"name": "", "kind": "Pod", "version": ""}],
        "specDescriptors": [{"path": "a", "value": None}, {"path": "b", "value": 0}],
    }
    service = {"name": "s", "group": "", "version": "", "kind": "", "containerPort": 443}
    assert json.dumps(result) == json.dumps(
        {
            "annotations": {"a": "2", "b": "1"},
            "apiServiceDefinitions": {"required": [service]},
            "crdDescriptions": {"owned": [thing]},
            "description": "d",
            "installModes": [
                {"type": "OwnNamespace", "supported": True},
                {"type": "AllNamespaces", "supported": False},
            ],
            "keywords": ["k"],
            "links": [{"name": "n", "url": "u"}],
            "maintainers": [{"email": "e"}],
            "maturity": "alpha",
            "minKubeVersion": "1.20.0",
            "nativeAPIs": [{"group": "", "version": "", "kind": "K"}],
            "provider": {"name": "me"},
        }
    )


def test_objects_may_be_yaml() -> None:
    (blob,) = migrate(
        bundle(*embedded(b"kind: ClusterServiceVersion\nspec: {maturity: alpha}\n")), MigrationLevel.ALL
    ).bundles
    assert list(blob.property_values(CSV_METADATA)) == [{**EMPTY, "maturity": "alpha"}]


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        (embedded(csv(keywords="x")), "spec.keywords is a string, not a list"),
        (
            embedded(csv(installModes=[{"supported": "yes"}])),
            r"installModes\[0\].supported is a string, not a boolean",
        ),
        (embedded(csv(apiservicedefinitions={"owned": [{"containerPort": "x"}]})), "containerPort is a string"),
        (embedded(b"{"), "invalid olm.bundle.object"),
        ([BlobProperty(BUNDLE_OBJECT, {"data": "no base64"})], "data is not valid base64"),
    ],
)
def test_invalid_objects_are_reported_with_their_location(properties: list[BlobProperty], problem: str) -> None:
    with pytest.raises(InvalidCatalog, match=problem) as error:
        migrate(bundle(*properties), MigrationLevel.ALL)
    assert error.value.message.startswith('a.yaml:3: bundle "op.v1"')
