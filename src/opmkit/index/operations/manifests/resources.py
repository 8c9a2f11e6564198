"""CatalogSource, Namespace, OperatorGroup and Subscription objects.

The fields are those of the CustomResourceDefinitions of the group operators.coreos.com.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.index.operations.manifests.names import as_label

if TYPE_CHECKING:
    from opmkit.index.operations.manifests.catalog_source import CatalogSource
    from opmkit.index.operations.manifests.installation import Installation

Manifest = dict[str, Any]

GLOBAL_NAMESPACES = frozenset({"olm", "openshift-marketplace"})
"""Namespaces whose catalogs OLM offers in all namespaces by default."""


def is_available(source: CatalogSource, installation: Installation) -> bool:
    """Return whether OLM, in its default configuration, offers the catalog in the namespace of the installation."""
    return source.namespace in GLOBAL_NAMESPACES or source.namespace == installation.namespace


def build_manifests(source: CatalogSource, installation: Installation | None = None) -> list[Manifest]:
    """Return the objects in the order of applying them: the CatalogSource, then those of the installation."""
    objects = [_catalog_source(source)]
    if installation is None:
        return objects
    if installation.creates_namespace:
        objects += [_namespace(installation), _operator_group(installation)]
    return [*objects, _subscription(source, installation)]


def _catalog_source(source: CatalogSource) -> Manifest:
    spec: Manifest = {"sourceType": "grpc"}
    if source.address is not None:
        spec["address"] = str(source.address)
    else:
        spec["image"] = str(source.image)
    texts = {"displayName": source.display_name, "publisher": source.publisher, "secrets": list(source.secrets)}
    spec |= {key: value for key, value in texts.items() if value}
    if source.priority:
        spec["priority"] = source.priority
    if pod_config := source.pod.manifest():
        spec["grpcPodConfig"] = pod_config
    if source.poll_interval:
        spec["updateStrategy"] = {"registryPoll": {"interval": source.poll_interval}}
    return _object("operators.coreos.com/v1alpha1", "CatalogSource", source.name, source.namespace, spec)


def _namespace(installation: Installation) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": installation.namespace}}


def _operator_group(installation: Installation) -> Manifest:
    spec = {"targetNamespaces": list(installation.targets)} if installation.targets else {}
    name, namespace = as_label(installation.package), installation.namespace
    return _object("operators.coreos.com/v1", "OperatorGroup", name, namespace, spec)


def _subscription(source: CatalogSource, installation: Installation) -> Manifest:
    spec = {
        "name": installation.package,
        "source": source.name,
        "sourceNamespace": source.namespace,
        "channel": installation.channel,
        "startingCSV": installation.starting_csv,
        "installPlanApproval": installation.approval,
    }
    spec = {key: value for key, value in spec.items() if value}
    name, namespace = as_label(installation.package), installation.namespace
    return _object("operators.coreos.com/v1alpha1", "Subscription", name, namespace, spec)


def _object(version: str, kind: str, name: str, namespace: str, spec: Manifest) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}
