"""The places in Kubernetes objects that name images."""

from __future__ import annotations

from typing import Any

import pytest

from opmkit.author.pin.object_images import (
    ImageField,
    InvalidField,
    UnpinnableUse,
    find_in_annotations,
    find_object_images,
)

POD: dict[str, Any] = {
    "containers": [
        {
            "name": "manager",
            "image": "quay.io/a/manager:1",
            "env": [
                {"name": "RELATED_IMAGE_PROXY", "value": "quay.io/a/proxy:1"},
                {"name": "OTHER", "value": "quay.io/a/other:1"},
                {"name": "RELATED_IMAGE_EMPTY", "value": ""},
            ],
        }
    ],
    "initContainers": [{"name": "setup", "image": "quay.io/a/setup"}],
    "ephemeralContainers": [{"name": "debug", "image": "quay.io/a/debug:1"}],
}
POD_IMAGES = [
    ("quay.io/a/manager:1", "container manager"),
    ("quay.io/a/proxy:1", "environment variable RELATED_IMAGE_PROXY"),
    ("quay.io/a/setup", "init container setup"),
    ("quay.io/a/debug:1", "ephemeral container debug"),
]
DIGEST = f"registry.corp:5000/c@sha256:{'0' * 64}"
TEMPLATE: dict[str, Any] = {"template": {"spec": POD}}


def images(value: Any) -> list[tuple[str, str]]:
    return [(use.image, str(use)) for use in find_object_images(value) if isinstance(use, ImageField)]


@pytest.mark.parametrize(
    "value",
    [
        {"kind": "ClusterServiceVersion", "spec": {"install": {"spec": {"deployments": [{"spec": TEMPLATE}]}}}},
        {"kind": "Pod", "spec": POD},
        {"kind": "Deployment", "spec": TEMPLATE},
        {"kind": "StatefulSet", "spec": TEMPLATE},
        {"kind": "CronJob", "spec": {"jobTemplate": {"spec": TEMPLATE}}},
        {"kind": "PodTemplate", **TEMPLATE},
        {"kind": "List", "items": [{"kind": "Pod", "spec": POD}]},
    ],
    ids=lambda value: value["kind"],
)
def test_images_of_pods(value: dict[str, Any]) -> None:
    assert images(value) == POD_IMAGES


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"kind": "ConfigMap", "data": {"image": "quay.io/a/b:1"}},
        {"kind": "ClusterServiceVersion", "spec": None},
        {"kind": "Deployment", "spec": {"template": None}},
        {"kind": ["Pod"], "spec": POD},
    ],
)
def test_values_without_images(value: Any) -> None:
    assert images(value) == []


def test_related_images_and_annotations_of_a_csv() -> None:
    csv = {
        "kind": "ClusterServiceVersion",
        "metadata": {"annotations": {"containerImage": "lagoon", "alm-examples": '[{"image": "quay.io/a/b:1"}]'}},
        "spec": {
            "relatedImages": [{"name": "manager", "image": "quay.io/a/manager:1"}, {"name": "none"}],
            "install": {
                "spec": {
                    "deployments": [
                        {"spec": {"template": {"metadata": {"annotations": {"image": "see quay.io/a/b:2."}}}}}
                    ]
                }
            },
        },
    }
    assert images(csv) == [
        ("quay.io/a/manager:1", "related image manager"),
        ("lagoon", "annotation containerImage"),
        ("quay.io/a/b:2", "annotation image"),
    ]


def test_strings_that_equal_an_image_are_found() -> None:
    container = {"name": "nginx", "image": "nginx", "env": [{"name": "OTHER", "value": "quay.io/a/b:1"}]}
    pods = {"containers": [container, {"image": "quay.io/a/b:1", "args": ["quay.io/a/b:1", "--x=quay.io/a/b:1"]}]}
    annotations = {"alm-examples": "quay.io/a/b:1", "other": "[quay.io/a/b:1"}
    assert images({"kind": "Pod", "metadata": {"annotations": annotations}, "spec": pods}) == [
        ("nginx", "container nginx"),
        ("quay.io/a/b:1", "container"),
        ("quay.io/a/b:1", "value spec.containers[0].env[0].value"),
        ("quay.io/a/b:1", "value spec.containers[1].args[0]"),
        ("quay.io/a/b:1", "value spec.containers[1].args[1]"),
        ("quay.io/a/b:1", "annotation alm-examples"),
    ]


def test_schemas_are_not_searched() -> None:
    schema: dict[str, Any] = {"properties": {"metadata": {"annotations": {"x": "quay.io/a/b:1"}}}}
    crd: dict[str, Any] = {
        "kind": "CustomResourceDefinition",
        "metadata": {"annotations": {"y": "quay.io/a/c:1"}},
        "spec": schema,
    }
    assert images(crd) == [("quay.io/a/c:1", "annotation y")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("quay.io/a/b:1", ["quay.io/a/b:1"]),
        (f"uses quay.io/a/b:1, and ({DIGEST})", ["quay.io/a/b:1", DIGEST]),
        ("quay.io/a/b", []),
        ("a/b:1", []),
        ("https://example.com/a:1", []),
        ("1.2.3", []),
        ("2024-01-01T00:00:00Z", []),
        ("user@example.com/x", []),
        ("a." * 400 + "io/a:1", []),
        ('{"image": "quay.io/a/b:1"}', []),
    ],
)
def test_references_in_annotations(text: str, found: list[str]) -> None:
    uses = list(find_in_annotations({"description": text}, ()))
    assert [use.image for use in uses] == found
    assert all(text.startswith(use.image, use.start) for use in uses)


def test_many_dots_in_an_annotation_take_no_time() -> None:
    assert not list(find_in_annotations({"a": "a." * 500_000}, ()))


def test_a_variable_with_a_source_is_reported() -> None:
    variable = {"name": "RELATED_IMAGE_X", "valueFrom": {"configMapKeyRef": {"name": "images"}}}
    pod: dict[str, Any] = {"kind": "Pod", "spec": {"containers": [{"name": "c", "env": [variable]}]}}
    (found,) = find_object_images(pod)
    assert isinstance(found, UnpinnableUse)
    assert found.path == ("spec", "containers", 0, "env", 0)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"containers": {}}, "spec.containers is a mapping, not a list"),
        ({"containers": [3]}, r"spec.containers\[0\] is a number, not a mapping"),
        ({"containers": [{"image": 3}]}, r"spec.containers\[0\].image is a number, not a string"),
        ({"containers": [{"env": "X"}]}, r"spec.containers\[0\].env is a string, not a list"),
        ({"containers": [{"env": [{"name": "RELATED_IMAGE_X", "value": True}]}]}, r"env\[0\].value is a boolean"),
        ("text", "spec is a string, not a mapping"),
    ],
)
def test_wrong_types(spec: Any, message: str) -> None:
    with pytest.raises(InvalidField, match=message):
        list(find_object_images({"kind": "Pod", "spec": spec}))
