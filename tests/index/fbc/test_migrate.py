"""Levels of migration: metadata of the ClusterServiceVersion in the place of a bundle's objects."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, CSV_METADATA, BlobProperty, Blobs, BundleBlob, SourceLocation
from opmkit.index.fbc.migrate import MigrationLevel, migrate

PACKAGE = BlobProperty("olm.package", {"packageName": "op", "version": "1.0.0"})
EMPTY = {"apiServiceDefinitions": {}, "crdDescriptions": {}, "provider": {}}


def csv(metadata: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": metadata or {},
    } | {"spec": spec}


def held(*objects: Any) -> list[BlobProperty]:
    """Properties that hold objects: as JSON, or as they are where they are bytes."""
    raw = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in objects]
    return [BlobProperty(BUNDLE_OBJECT, {"data": base64.b64encode(one).decode()}) for one in raw]


def bundle(*properties: BlobProperty, image: str = "example.com/op:1") -> Blobs:
    return Blobs(bundles=(BundleBlob("op.v1", "op", image, properties, location=SourceLocation("a.yaml", 3)),))


def metadata(value: dict[str, Any]) -> Any:
    """The metadata that a ClusterServiceVersion comes to."""
    (blob,) = migrate(bundle(*held(value)), MigrationLevel.ALL).bundles
    (one,) = blob.properties
    assert one.type == CSV_METADATA
    return one.value


def test_metadata_takes_the_place_of_all_objects_at_the_end() -> None:
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    before = bundle(*held(crd), PACKAGE, *held(csv(displayName="Op")))
    for level in (MigrationLevel.CSV_METADATA, MigrationLevel.ALL):
        (blob,) = migrate(before, level).bundles
        assert blob.properties == (PACKAGE, BlobProperty(CSV_METADATA, {**EMPTY, "displayName": "Op"}))
    assert migrate(before, MigrationLevel.NONE) is before


@pytest.mark.parametrize(
    "blobs",
    [
        bundle(*held(csv()), image=""),
        bundle(*held(csv()), BlobProperty(CSV_METADATA, {})),
        bundle(*held({"apiVersion": "v1", "kind": "Service"})),
        bundle(PACKAGE),
    ],
    ids=["no-image", "metadata", "no-csv", "no-objects"],
)
def test_other_bundles_are_left_as_they_are(blobs: Blobs) -> None:
    assert migrate(blobs, MigrationLevel.ALL) == blobs


def test_fields_are_in_their_order_and_empty_ones_are_left_out() -> None:
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
    found = metadata(
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
    assert json.dumps(found) == json.dumps(
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
        bundle(*held(b"kind: ClusterServiceVersion\nspec: {maturity: alpha}\n")), MigrationLevel.ALL
    ).bundles
    assert list(blob.property_values(CSV_METADATA)) == [{**EMPTY, "maturity": "alpha"}]


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        (held(csv(keywords="x")), "spec.keywords is a string, not a list"),
        (
            held(csv(installModes=[{"supported": "yes"}])),
            r"installModes\[0\].supported is a string, not a boolean",
        ),
        (held(csv(apiservicedefinitions={"owned": [{"containerPort": "x"}]})), "containerPort is a string"),
        (held(b"{"), "data"),
        ([BlobProperty(BUNDLE_OBJECT, {"data": "no base64"})], "its data is no base64"),
    ],
)
def test_what_can_not_be_read_is_told_with_its_place(properties: list[BlobProperty], told: str) -> None:
    with pytest.raises(InvalidCatalog, match=told if told != "data" else "can't be read") as error:
        migrate(bundle(*properties), MigrationLevel.ALL)
    assert error.value.message.startswith('a.yaml:3: bundle "op.v1"')
