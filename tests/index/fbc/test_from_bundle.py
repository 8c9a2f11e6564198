"""Bundles as blobs: what is said of them, in which order, and what of it can't be."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from opmkit.bundle import parse_bundle
from opmkit.bundle.errors import InvalidBundle
from opmkit.index.fbc.blobs import BlobProperty, BundleBlob, RelatedImage
from opmkit.index.fbc.from_bundle import bundle_to_blob, with_image
from tests.bundle.samples import CRD, CSV, crd, csv, files

THING = {"owned": [{"name": "things.example.com", "version": "v1", "kind": "Thing"}]}


def blob(more: dict[str, Any] | None = None, *, image: str = "example.com/op:1", **parts: Any) -> BundleBlob:
    """The blob of a bundle whose files are those of the simplest one and ``more``."""
    content = {path: raw if isinstance(raw, bytes) else json.dumps(raw).encode() for path, raw in (more or {}).items()}
    return bundle_to_blob(parse_bundle({**files(**parts), **content}, image=image, strict=False))


def test_a_bundle_is_its_name_package_image_and_version() -> None:
    found = blob()
    assert (found.name, found.package, found.image) == ("op.v1.0.0", "op", "example.com/op:1")
    assert found.properties[0] == BlobProperty("olm.package", {"packageName": "op", "version": "1.0.0"})
    assert found.related_images == (RelatedImage("", "example.com/op:1"),)


def test_properties_are_in_order_of_type_and_value_and_objects_are_last() -> None:
    typed = [
        {"type": "olm.package", "value": {"packageName": "dep", "version": ">=1"}},
        {"type": "olm.gvk", "value": {"group": "g", "kind": "K", "version": "v1", "other": 1}},
        {"type": "zone", "value": 1},
    ]
    found = blob(
        {
            CRD: crd("v1"),
            "metadata/dependencies.yaml": {"dependencies": [*typed, typed[1]]},
            "metadata/properties.yaml": {"properties": [{"type": "zone", "value": {"b": 1, "a": "<"}}]},
        },
        spec={"customresourcedefinitions": THING},
    )
    assert [(one.type, one.value) for one in found.properties if one.type != "olm.bundle.object"] == [
        ("olm.gvk", {"group": "example.com", "kind": "Thing", "version": "v1"}),
        ("olm.gvk.required", {"group": "g", "kind": "K", "version": "v1"}),
        ("olm.package", {"packageName": "op", "version": "1.0.0"}),
        ("olm.package.required", {"packageName": "dep", "versionRange": ">=1"}),
        ("zone", 1),
        ("zone", {"a": "<", "b": 1}),
    ]
    objects = [one.value for one in found.properties[-2:]]
    assert objects == sorted(objects, key=json.dumps)
    kinds = {json.loads(base64.b64decode(one["data"]))["kind"] for one in objects}  # type: ignore[call-overload, index]
    assert kinds == {"ClusterServiceVersion", "CustomResourceDefinition"}


@pytest.mark.parametrize(("release", "told"), [("2", "2"), (3, "3"), (1.5, "1.5")])
def test_a_release_is_told_beside_the_version(release: object, told: str) -> None:
    expected = {"packageName": "op", "version": "1.0.0", "release": told}
    assert next(blob(spec={"release": release}).property_values("olm.package")) == expected


def test_the_last_package_that_properties_name_counts() -> None:
    told = {"olm.properties": json.dumps([{"type": "olm.package", "value": {"packageName": "x", "version": "2.0.0"}}])}
    assert list(blob(annotations=told).property_values("olm.package")) == [{"packageName": "x", "version": "2.0.0"}]


def test_related_images_are_those_named_the_operators_and_the_bundles() -> None:
    containers = {"containers": [{"name": "c", "image": "m"}], "initContainers": [{"name": "i", "image": "b"}]}
    deployment = {"name": "d", "spec": {"template": {"spec": containers}}}
    spec = {
        "relatedImages": [
            {"name": "two", "image": "m"},
            {"name": "one", "image": "a"},
            {"name": "again", "image": "m"},
        ],
        "install": {"strategy": "deployment", "spec": {"deployments": [deployment]}},
    }
    images = [("one", "a"), ("", "b"), ("two", "m"), ("again", "m")]
    assert [(one.name, one.image) for one in blob(spec=spec, image="m").related_images] == images
    assert [(one.name, one.image) for one in blob(spec=spec, image="").related_images] == images
    assert [one.image for one in blob(spec=spec, image="c").related_images] == ["a", "b", "c", "m", "m"]


def test_a_blob_gets_the_image_that_it_is_rendered_by() -> None:
    assert with_image(blob(image=""), "example.com/op:1") == blob()
    assert with_image(blob(), "") != blob()


@pytest.mark.parametrize(
    ("spec", "name"), [({"replaces": 1}, "op.v1"), ({"skips": "x"}, "op.v1"), ({}, ""), ({"version": "x"}, "op.v1")]
)
def test_what_only_update_graphs_need_may_be_wrong(spec: dict[str, Any], name: str) -> None:
    content = files(spec=spec, name=name)
    if "version" not in spec:
        with pytest.raises(InvalidBundle):
            parse_bundle(content)
    found = parse_bundle(content, strict=False)
    assert bundle_to_blob(found).name == name
    assert len(found.warnings) == ("version" not in spec)


def test_an_annotation_of_properties_that_is_no_json_is_told_and_left_out() -> None:
    found = parse_bundle(files(annotations={"olm.properties": "no"}), strict=False)
    assert [one.type for one in bundle_to_blob(found).properties] == ["olm.package", "olm.bundle.object"]
    assert "olm.properties" in found.warnings[0]


@pytest.mark.parametrize(
    "more",
    [
        {"metadata/dependencies.yaml": {"dependencies": [{"type": "olm.gvk", "value": "text"}]}},
        {"metadata/dependencies.yaml": {"dependencies": [{"type": "olm.package", "value": {"packageName": 1}}]}},
        {"metadata/properties.yaml": {"properties": [{"type": "olm.gvk", "value": {"kind": []}}]}},
        {CSV: csv({"release": []})},
        {CSV: csv({"version": 1})},
        {CSV: csv({"relatedImages": "x"})},
    ],
)
def test_a_value_of_the_wrong_type_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidBundle):
        blob(more)
