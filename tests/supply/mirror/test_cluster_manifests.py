"""Manifests for a mirror, checked against OpenShift's definitions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry_config.mirror_rules import MirrorRule, MirrorScope
from opmkit.index.errors import CatalogError
from opmkit.supply.mirror.cluster_manifests import MAX_MIRRORS, cluster_manifests
from opmkit.supply.mirror.result import MirrorPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

CATALOG = Reference("mirror.example.com", "redhat/redhat-operator-index", "v4.20")
REPOSITORIES = [
    MirrorRule("registry.redhat.io/ubi9/app", "mirror.example.com/ubi9/app"),
    MirrorRule("registry.redhat.io/ubi9/tool", "mirror.example.com/ubi9/tool"),
    MirrorRule("quay.io/me/app", "mirror.example.com/me/app", digests=False, tags=True),
]


def test_objects_equal_those_of_oc_mirror() -> None:
    files = cluster_manifests(REPOSITORIES, [CATALOG]).files
    assert files == {
        "idms-operator.yaml": [
            {
                "apiVersion": "config.openshift.io/v1",
                "kind": "ImageDigestMirrorSet",
                "metadata": {"name": "idms-operator-0"},
                "spec": {
                    "imageDigestMirrors": [
                        {"mirrors": ["mirror.example.com/ubi9"], "source": "registry.redhat.io/ubi9"}
                    ]
                },
            }
        ],
        "itms-operator.yaml": [
            {
                "apiVersion": "config.openshift.io/v1",
                "kind": "ImageTagMirrorSet",
                "metadata": {"name": "itms-operator-0"},
                "spec": {"imageTagMirrors": [{"mirrors": ["mirror.example.com/me"], "source": "quay.io/me"}]},
            }
        ],
        "cs-redhat-operator-index-v4-20.yaml": [
            {
                "apiVersion": "operators.coreos.com/v1alpha1",
                "kind": "CatalogSource",
                "metadata": {"name": "cs-redhat-operator-index-v4-20", "namespace": "openshift-marketplace"},
                "spec": {"sourceType": "grpc", "image": str(CATALOG)},
            }
        ],
        "cc-redhat-operator-index-v4-20.yaml": [
            {
                "apiVersion": "olm.operatorframework.io/v1",
                "kind": "ClusterCatalog",
                "metadata": {"name": "cc-redhat-operator-index-v4-20"},
                "spec": {"source": {"type": "Image", "image": {"ref": str(CATALOG)}}},
            }
        ],
    }


def test_policy() -> None:
    policy = MirrorPolicy(MirrorScope.REPOSITORY, never_contact_source=True, namespace="olm")
    files = cluster_manifests(REPOSITORIES[:1], [CATALOG], policy).files
    (mirrors,) = _mirrors(files)
    assert mirrors == {
        "mirrors": ["mirror.example.com/ubi9/app"],
        "source": "registry.redhat.io/ubi9/app",
        "mirrorSourcePolicy": "NeverContactSource",
    }
    assert files["cs-redhat-operator-index-v4-20.yaml"][0]["metadata"]["namespace"] == "olm"


def test_names_by_digest_and_without_images() -> None:
    catalog = CATALOG.with_digest(f"sha256:{'ab' * 32}")
    assert list(cluster_manifests([], [catalog]).files) == [
        "cs-redhat-operator-index-abababababab.yaml",
        "cc-redhat-operator-index-abababababab.yaml",
    ]


def test_large_sets_are_split() -> None:
    many = [MirrorRule(f"quay.io/n{number:05}/app", f"m.io/n{number:05}/app") for number in range(2 * MAX_MIRRORS + 1)]
    files = cluster_manifests(many, []).files
    names = [item["metadata"]["name"] for item in files["idms-operator.yaml"]]
    assert names == ["idms-operator-0", "idms-operator-1", "idms-operator-2"]
    assert len(_mirrors(files)) == len(many)


def test_several_mirrors_of_a_repository() -> None:
    rules = [MirrorRule("quay.io/a/x", mirror) for mirror in ("m.io/a/x", "n.io/a/x")]
    assert [item["mirrors"] for item in _mirrors(cluster_manifests(rules, []).files)] == [["m.io/a/x", "n.io/a/x"]]


def test_unsupported_registry() -> None:
    with pytest.raises(CatalogError, match=r"\[::1\]:5000: unsupported in an ImageDigestMirrorSet"):
        cluster_manifests([MirrorRule("quay.io/me/app", "[::1]:5000/app")], [])


HOST = r"(?:[a-zA-Z0-9][a-zA-Z0-9-]*)(?:\.[a-zA-Z0-9][a-zA-Z0-9-]*)*(?::[0-9]+)?"
LOCATION = re.compile(rf"{HOST}(?:/[a-z0-9]+(?:(?:[._]|__|-*)[a-z0-9]+)*)*")


def test_locations_match_the_pattern_of_the_definitions() -> None:
    for item in _mirrors(cluster_manifests(REPOSITORIES, []).files):
        for location in (item["source"], *item["mirrors"]):
            assert LOCATION.fullmatch(location)


def _mirrors(files: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [item for manifest in files["idms-operator.yaml"] for item in manifest["spec"]["imageDigestMirrors"]]
