"""Collection of objects: types, names and duplicates."""

from __future__ import annotations

import pytest

from opmkit.bundle import InvalidBundle

from .inputs import CRD, DEPLOYMENT, collect


def test_identical_objects_are_collected_once() -> None:
    objects = collect(DEPLOYMENT, CRD, DEPLOYMENT.replace("{app: boat}", "{'app': boat}"))
    assert [item.kind for item in objects.objects] == ["Deployment", "CustomResourceDefinition"]


def test_different_objects_of_the_same_name_are_an_error() -> None:
    with pytest.raises(
        InvalidBundle,
        match=r"input:17:1: Deployment boat-operator is already defined differently in standard input:1:1",
    ):
        collect(DEPLOYMENT, DEPLOYMENT.replace("captain", "sailor"))


def test_samples_may_have_the_same_name() -> None:
    sample = "apiVersion: example.com/v1\nkind: Boat\nmetadata: {name: sample}\nspec: {sails: N}"
    objects = collect(sample.replace("N", "1"), CRD, sample.replace("N", "2"), sample.replace("v1", "v0"))
    assert [item.value["spec"]["sails"] for item in objects.custom_resources] == [1, 2]


def test_versions_of_crds() -> None:
    beta = """
    apiVersion: apiextensions.k8s.io/v1beta1
    kind: CustomResourceDefinition
    metadata: {name: ships.example.com}
    spec: {group: example.com, version: v7, scope: Namespaced, names: {kind: Ship, plural: ships}}
    """
    sample = "apiVersion: example.com/v7\nkind: Ship"
    objects = collect(beta, CRD, sample)
    assert [crd.name for crd in objects.crds] == ["boats.example.com", "ships.example.com"]
    assert [item.kind for item in objects.custom_resources] == ["Ship"]
    with pytest.raises(InvalidBundle, match="unsupported apiVersion"):
        collect(CRD.replace("k8s.io/v1", "k8s.io/v2"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("selector: {matchLabels: {app: boat}}", "replicas: two", "input:8:3: Deployment boat-operator: spec.replicas"),
        ("name: boat-operator", "name: ../../boat", "metadata.name is not a valid name"),
        ("name: boat-operator", "name: .. ", "metadata.name is not a valid name"),
        ("name: boat-operator", "name: 'a\\nb'", "metadata.name is not a valid name"),
        ("name: boat-operator", "name: [a]", "metadata.name is not a string"),
    ],
)  # fmt: skip
def test_invalid_values_are_located(old: str, new: str, message: str) -> None:
    with pytest.raises(InvalidBundle) as raised:
        collect(DEPLOYMENT.replace(old, new))
    assert message in raised.value.message


def test_metadata_must_be_a_mapping() -> None:
    with pytest.raises(InvalidBundle, match="metadata is not a mapping"):
        collect("kind: A\napiVersion: v1\nmetadata: 1")
