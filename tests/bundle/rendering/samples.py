"""Bundles to render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.bundle.rendering.registry_v1 import RegistryV1, read_registry_v1
from opmkit.documents.yaml_writer import dump_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ANNOTATIONS: dict[str, Any] = {"annotations": {"operators.operatorframework.io.bundle.package.v1": "reef"}}
ALL = ("AllNamespaces",)
DEPLOYMENT = {
    "name": "reef",
    "label": {"app": "reef"},
    "spec": {
        "selector": {"matchLabels": {"app": "reef"}},
        "template": {
            "metadata": {"annotations": {"own": "1"}},
            "spec": {"containers": [{"name": "manager", "image": "quay.io/me/reef:1", "env": [{"name": "A"}]}]},
        },
    },
}
RULE = {"apiGroups": ["demo.com"], "resources": ["reefs"], "verbs": ["*"]}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "reefs.demo.com"},
    "spec": {
        "group": "demo.com",
        "names": {"kind": "Reef", "plural": "reefs"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True}],
    },
}


def webhook(kind: str, name: str = "reef.demo.com", **fields: Any) -> dict[str, Any]:
    """Return the definition of a webhook of the sample's deployment."""
    return {
        "type": kind,
        "generateName": name,
        "deploymentName": "reef",
        "containerPort": 443,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        **fields,
    }


def files(
    *objects: Mapping[str, Any],
    modes: Sequence[str] = ALL,
    webhooks: Sequence[Mapping[str, Any]] = (),
    owned: Sequence[str] = (),
    spec: Mapping[str, Any] | None = None,
    **strategy: Any,
) -> dict[str, bytes]:
    """Return the files of a bundle with a ClusterServiceVersion and further objects.

    Args:
        objects: The other objects.
        modes: The supported install modes.
        webhooks: The webhook definitions.
        owned: Names of owned CustomResourceDefinitions.
        spec: Further fields of the ClusterServiceVersion.
        strategy: Fields of the install strategy.
    """
    csv: dict[str, Any] = {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "reef.v1.0.0", "annotations": {"of": "csv"}},
        "spec": {
            "installModes": [{"type": mode, "supported": True} for mode in modes],
            "install": {"strategy": "deployment", "spec": {"deployments": [DEPLOYMENT], **strategy}},
            "webhookdefinitions": list(webhooks),
            "customresourcedefinitions": {"owned": [{"name": name, "kind": "Reef", "version": "v1"} for name in owned]},
            **(spec or {}),
        },
    }
    manifests = {f"manifests/{number}.yaml": dump_yaml(dict(value)) for number, value in enumerate(objects)}
    return {"metadata/annotations.yaml": dump_yaml(ANNOTATIONS), "manifests/csv.yaml": dump_yaml(csv), **manifests}


def bundle(*objects: Mapping[str, Any], **fields: Any) -> RegistryV1:
    """Return the bundle of `files`."""
    return read_registry_v1(files(*objects, **fields))
