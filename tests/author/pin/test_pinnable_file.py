"""The images in file-based catalogs and templates."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from tests.kit.pinning import pin, pinned_name

from opmkit.author.pin.object_images import ImageField
from opmkit.author.pin.pinnable_file import find_catalog_images
from opmkit.bundle.errors import InvalidBundle

IMAGE, PINNED = "quay.io/a/b:1", pinned_name("quay.io/a/b:1")

CHANNEL = {"schema": "olm.channel"}


def images(value: Any) -> list[tuple[str, str]]:
    return [(use.image, str(use)) for use in find_catalog_images(value) if isinstance(use, ImageField)]


def test_images_of_a_bundle() -> None:
    metadata = {"type": "olm.csv.metadata", "value": {"annotations": {"containerImage": "quay.io/a/operator:1"}}}
    blob = {
        "schema": "olm.bundle",
        "name": "b.v1",
        "image": IMAGE,
        "relatedImages": [{"name": "", "image": IMAGE}, {"name": "operator", "image": "quay.io/a/operator:1"}],
        "properties": [metadata, {"type": "olm.package", "value": {"version": "1.0.0"}}],
    }
    assert images(blob) == [
        (IMAGE, "bundle image b.v1"),
        (IMAGE, "related image"),
        ("quay.io/a/operator:1", "related image operator"),
        ("quay.io/a/operator:1", "annotation containerImage"),
    ]


@pytest.mark.parametrize(
    ("template", "count"),
    [
        ({"schema": "olm.semver", "Stable": {"Bundles": [{"Image": IMAGE}]}, "Fast": {"Bundles": []}}, 1),
        ({"schema": "olm.semver", "candidate": {"bundles": [{"image": IMAGE}, {"image": IMAGE}]}}, 2),
        ({"schema": "olm.template.basic", "entries": [CHANNEL, {"schema": "olm.bundle", "image": IMAGE}]}, 1),
        ({"schema": "olm.template.substitutes", "entries": [], "substitutions": [{"name": IMAGE, "base": "b.v0"}]}, 1),
        ({"schema": "olm.channel", "entries": [{"name": IMAGE}]}, 0),
        ({"schema": "custom", "kind": "Pod", "spec": {"containers": [{"image": IMAGE}]}}, 0),
        ({"kind": "Pod", "spec": {"containers": [{"image": IMAGE}]}}, 1),
        ([IMAGE], 0),
    ],
)  # fmt: skip
def test_images_of_templates_and_other_documents(template: Any, count: int) -> None:
    assert [image for image, _ in images(template)] == [IMAGE] * count


@pytest.mark.parametrize("pretty", [True, False])
def test_objects_in_a_bundle_are_pinned(pretty: bool) -> None:
    csv = {"kind": "ClusterServiceVersion", "metadata": {"annotations": {"containerImage": IMAGE}}}
    encoded = base64.b64encode(json.dumps(csv).encode()).decode()
    blob = {
        "schema": "olm.bundle",
        "image": "quay.io/a/bundle:1",
        "properties": [
            {"type": "olm.bundle.object", "value": {"data": encoded}},
            {"type": "olm.bundle.object", "value": {"ref": "x.yaml"}},
        ],
    }
    text = json.dumps(blob, indent=2 if pretty else None)
    result = pin(text, find=find_catalog_images)
    found = json.loads(result.files["csv.yaml"])
    content = base64.b64decode(found["properties"][0]["value"]["data"])
    assert content.decode() == json.dumps(csv).replace(IMAGE, PINNED)
    assert found["image"] == pinned_name("quay.io/a/bundle:1")
    assert result.files["csv.yaml"].decode() == text.replace(encoded, base64.b64encode(content).decode()).replace(
        "quay.io/a/bundle:1", found["image"]
    )
    (use,) = result.images[1].uses
    assert use.line == (8 if pretty else 1)


def test_objects_that_cannot_be_decoded_are_warnings() -> None:
    blob = {"schema": "olm.bundle", "properties": [{"type": "olm.bundle.object", "value": {"data": "?"}}]}
    result = pin(json.dumps(blob), find=find_catalog_images)
    assert result.warnings == (
        "csv.yaml:1: properties[0].value.data is not base64: images in it cannot be pinned",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("kind: Pod\nspec: 3\n", "spec is a number, not a mapping"),
        ("kind: [", "did not find expected node content"),
        ("kind: Pod\nspec: {containers: [{image: &x nginx, name: *x}]}", "pinning would change other values"),
    ],
)
def test_errors_in_objects_name_their_property(content: str, message: str) -> None:
    data = base64.b64encode(content.encode()).decode()
    text = (
        f'{{"schema": "olm.bundle", "properties": [{{"type": "olm.bundle.object",\n"value": {{"data": "{data}"}}}}]}}'
    )
    with pytest.raises(InvalidBundle, match=rf"^csv.yaml:2: properties\[0\].value.data:\d.*{message}"):
        pin(text, find=find_catalog_images)


def test_comments_in_catalogs_are_retained() -> None:
    text = f"""\
# the catalog
---
schema: olm.package
name: a
---
# first
schema: olm.bundle
image: '{IMAGE}' # bundle
relatedImages:
- image: {IMAGE}
  name: ""
"""
    result = pin(text, find=find_catalog_images)
    assert result.files["csv.yaml"].decode() == text.replace(IMAGE, PINNED)
    assert [use.line for use in result.images[0].uses] == [8, 10]
