"""CatalogSource, OperatorGroup and Subscription of an operator that is tried."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.author.run.objects import (
    CONTROLLED_BY,
    MANAGED_BY_LABEL,
    catalog_name,
    field,
    items,
    labels,
    strings,
    subscription_name,
    text,
)
from opmkit.author.run.registry_pod import DEFAULT_IMAGE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.author.run.package_manifests import OperatorVersion
    from opmkit.author.run.registry_pod import PodOptions

    Object = dict[str, Any]

OPERATOR_GROUP_NAME = "operator-sdk-og"
"""Name of created OperatorGroups; operator-sdk uses the same, so each tool removes those of the other."""
_GROUP = "operators.operatorframework.io"
INDEX_IMAGE_ANNOTATION = f"{_GROUP}/index-image"
BUNDLES_ANNOTATION = f"{_GROUP}/injected-bundles"
POD_ANNOTATION = f"{_GROUP}/registry-pod-name"
V1ALPHA1 = "operators.coreos.com/v1alpha1"
V1 = "operators.coreos.com/v1"


class InjectedBundles(Struct, frozen=True):
    """The content of a catalog, recorded at its CatalogSource.

    Attributes:
        index: Image of the index that the bundles were added to, or an image without a catalog.
        images: Bundle images in the order of their versions.
    """

    index: str
    images: tuple[str, ...]

    @classmethod
    def read(cls, catalog_source: Mapping[str, Any]) -> InjectedBundles | None:
        """Return the recorded content, None if the CatalogSource was created in another way."""
        annotations = field(catalog_source, "metadata", "annotations")
        try:
            listed = json.loads(text(annotations, BUNDLES_ANNOTATION) or "[]")
        except ValueError:
            return None
        images = tuple(filter(None, (text(entry, "imageTag") for entry in items({"bundles": listed}, "bundles"))))
        return cls(text(annotations, INDEX_IMAGE_ANNOTATION), images) if images else None

    def annotations(self, pod: str) -> dict[str, str]:
        """Return the annotations of the CatalogSource whose catalog the named pod serves."""
        mode = "semver" if is_empty_index(self.index) else "replaces"  # operator-sdk needs one for databases
        bundles = [{"imageTag": image, "mode": mode} for image in self.images]
        return {
            INDEX_IMAGE_ANNOTATION: self.index,
            BUNDLES_ANNOTATION: json.dumps(bundles, separators=(",", ":")),
            POD_ANNOTATION: pod,
        }


def is_empty_index(image: str) -> bool:
    """Return whether an index image is one of those that contain only ``opm``, without a catalog."""
    name = DEFAULT_IMAGE.partition(":")[0]
    return not image or image == name or image.startswith((f"{name}:", f"{name}@"))


def build_catalog_source(package: str, namespace: str, options: PodOptions) -> Object:
    """Return the CatalogSource of a package, still without the address of the server."""
    name = catalog_name(package)
    spec: Object = {
        "sourceType": "grpc",
        "displayName": package,
        "publisher": CONTROLLED_BY,
        "grpcPodConfig": {"securityContextConfig": str(options.security_context)},
    }
    if options.pull_secret:
        spec["secrets"] = [options.pull_secret]
    return {
        "apiVersion": V1ALPHA1,
        "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name)},
        "spec": spec,
    }


def serve_patch(
    catalog_source: Mapping[str, Any], address: str, annotations: Mapping[str, str], pull_secret: str = ""
) -> Object:
    """Return the merge patch that connects a CatalogSource to a server."""
    secrets = list(filter(None, strings(catalog_source, "spec", "secrets")))
    if pull_secret and pull_secret not in secrets:
        secrets.append(pull_secret)
    spec: Object = {"sourceType": "grpc", "address": address, "image": None}
    if secrets:
        spec["secrets"] = secrets
    if text(catalog_source, "spec", "image"):
        spec["updateStrategy"] = None  # OLM rejects polling of a catalog without an image
    return {"metadata": {"annotations": dict(annotations)}, "spec": spec}


def build_operator_group(namespace: str, targets: Sequence[str]) -> Object:
    """Return the OperatorGroup of a namespace for operators that watch ``targets``, all namespaces if empty."""
    return {
        "apiVersion": V1,
        "kind": "OperatorGroup",
        "metadata": {
            "name": OPERATOR_GROUP_NAME,
            "namespace": namespace,
            "labels": {MANAGED_BY_LABEL: CONTROLLED_BY},
        },
        "spec": {"targetNamespaces": list(targets)} if targets else {},
    }


def build_subscription(operator: OperatorVersion, channel: str, catalog: str, namespace: str) -> Object:
    """Return the Subscription that installs a version; its updates are approved one by one."""
    return {
        "apiVersion": V1ALPHA1,
        "kind": "Subscription",
        "metadata": {
            "name": subscription_name(operator.name),
            "namespace": namespace,
            "labels": {MANAGED_BY_LABEL: CONTROLLED_BY},
        },
        "spec": {
            "name": operator.package,
            "channel": channel,
            "source": catalog,
            "sourceNamespace": namespace,
            "startingCSV": operator.name,
            "installPlanApproval": "Manual",
        },
    }
