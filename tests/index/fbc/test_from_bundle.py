"""Conversion of bundles to blobs."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from opmkit.bundle import parse_bundle
from opmkit.bundle.errors import InvalidBundle
from opmkit.documents.errors import FieldTypeError
from opmkit.index.fbc.blobs import BlobProperty, BundleBlob, RelatedImage
from opmkit.index.fbc.from_bundle import bundle_to_blob, with_image
from tests.bundle.samples import CRD, CSV, crd, csv, files

THING = {"owned": [{"name": "things.example.com", "version": "v1", "kind": "Thing"}]}


def blob(more: dict[str, Any] | None = None, *, image: str = "example.com/op:1", **parts: Any) -> BundleBlob:
    """Return the blob of the minimal bundle with ``more`` files."""
    content = {path: raw if isinstance(raw, bytes) else json.dumps(raw).encode() for path, raw in (more or {}).items()}
    return bundle_to_blob(parse_bundle({**files(**parts), **content}, image=image, strict=False))


def test_blob_has_name_package_image_and_version() -> None:
    result = blob()
    assert (result.name, result.package, result.image) == ("op.v1.0.0", "op", "example.com/op:1")
    assert result.properties[0] == BlobProperty("olm.package", {"packageName": "op", "version": "1.0.0"})
    assert result.related_images == (RelatedImage("", "example.com/op:1"),)


def test_properties_are_sorted_by_type_and_value_with_objects_last() -> None:
    typed = [
        {"type": "olm.package", "value": {"packageName": "dep", "version": ">=1"}},
        {"type": "olm.gvk", "value": {"group": "g", "kind": "K", "version": "v1", "other": 1}},
        {"type": "zone", "value": 1},
    ]
    result = blob(
        {
            CRD: crd("v1"),
            "metadata/dependencies.yaml": {"dependencies": [*typed, typed[1]]},
            "metadata/properties.yaml": {"properties": [{"type": "zone", "value": {"b": 1, "a": "<"}}]},
        },
        spec={"customresourcedefinitions": THING},
    )
    assert [(prop.type, prop.value) for prop in result.properties if prop.type != "olm.bundle.object"] == [
        ("olm.gvk", {"group": "example.com", "kind": "Thing", "version": "v1"}),
        ("olm.gvk.required", {"group": "g", "kind": "K", "version": "v1"}),
        ("olm.package", {"packageName": "op", "version": "1.0.0"}),
        ("olm.package.required", {"packageName": "dep", "versionRange": ">=1"}),
        ("zone", 1),
        ("zone", {"a": "<", "b": 1}),
    ]
    objects: list[Any] = [prop.value for prop in result.properties[-2:]]
    assert objects == sorted(objects, key=json.dumps)
    kinds = {json.loads(base64.b64decode(value["data"]))["kind"] for value in objects}
    assert kinds == {"ClusterServiceVersion", "CustomResourceDefinition"}


@pytest.mark.parametrize(("release", "expected"), [("2", "2"), (3, "3"), (1.5, "1.5")])
def test_release_is_added_to_the_version(release: object, expected: str) -> None:
    value = next(blob(spec={"release": release}).property_values("olm.package"))
    assert value == {"packageName": "op", "version": "1.0.0", "release": expected}


def test_last_package_property_wins() -> None:
    package = {"packageName": "x", "version": "2.0.0"}
    annotations = {"olm.properties": json.dumps([{"type": "olm.package", "value": package}])}
    assert list(blob(annotations=annotations).property_values("olm.package")) == [package]


def test_related_images_are_the_listed_ones_those_of_the_operator_and_of_the_bundle() -> None:
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
    assert [(related.name, related.image) for related in blob(spec=spec, image="m").related_images] == images
    assert [(related.name, related.image) for related in blob(spec=spec, image="").related_images] == images
    assert [related.image for related in blob(spec=spec, image="c").related_images] == ["a", "b", "c", "m", "m"]


def test_with_image_sets_or_removes_the_image() -> None:
    assert with_image(blob(image=""), "example.com/op:1") == blob()
    assert with_image(blob(), "") != blob()


@pytest.mark.parametrize(
    ("spec", "name"), [({"replaces": 1}, "op.v1"), ({"skips": "x"}, "op.v1"), ({}, ""), ({"version": "x"}, "op.v1")]
)
def test_fields_needed_only_for_update_graphs_may_be_invalid(spec: dict[str, Any], name: str) -> None:
    content = files(spec=spec, name=name)
    if "version" not in spec:
        with pytest.raises(InvalidBundle):
            parse_bundle(content)
    result = parse_bundle(content, strict=False)
    assert bundle_to_blob(result).name == name
    assert len(result.warnings) == ("version" not in spec)


def test_invalid_properties_annotation_is_ignored_with_a_warning() -> None:
    result = parse_bundle(files(annotations={"olm.properties": "no"}), strict=False)
    assert [prop.type for prop in bundle_to_blob(result).properties] == ["olm.package", "olm.bundle.object"]
    assert "olm.properties" in result.warnings[0]


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
def test_values_of_wrong_type_are_rejected(more: dict[str, Any]) -> None:
    with pytest.raises((FieldTypeError, InvalidBundle)):
        blob(more)
