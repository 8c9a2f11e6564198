"""Access to fields of Kubernetes objects, whose types are not trusted, and the names of objects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from opmkit.index.operations.manifests.names import as_label

if TYPE_CHECKING:
    from collections.abc import Mapping

    Object = dict[str, Any]

CONTROLLED_BY = "opmkit"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
INSTANCE_LABEL = "app.kubernetes.io/instance"


def field(value: object, *path: str) -> Any:
    """Return the value of a nested field, None if it does not exist."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text(value: object, *path: str) -> str:
    """Return a nested field as text, or "" if it is not a string."""
    found = field(value, *path)
    return found if isinstance(found, str) else ""


def items(value: object, *path: str) -> list[Object]:
    """Return the mappings in a nested list."""
    found = field(value, *path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def strings(value: object, *path: str) -> list[str]:
    """Return the strings in a nested list."""
    found = field(value, *path)
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def condition(value: object, type_: str) -> Object:
    """Return the status condition of a type, an empty mapping if it does not exist."""
    return next((item for item in items(value, "status", "conditions") if item.get("type") == type_), {})


def name_of(value: object) -> str:
    """Return the name of an object."""
    return text(value, "metadata", "name")


def namespace_of(value: object) -> str:
    """Return the namespace of an object, or "" for one of the cluster."""
    return text(value, "metadata", "namespace")


def subject(value: object) -> str:
    """Return the kind, namespace and name of an object, for messages."""
    namespace = namespace_of(value)
    return (
        f"{text(value, 'kind')} {namespace}/{name_of(value)}"
        if namespace
        else f"{text(value, 'kind')} {name_of(value)}"
    )


def is_owned_by(value: object, uid: str) -> bool:
    """Return whether an object has an owner reference to the object with this UID."""
    return bool(uid) and any(owner.get("uid") == uid for owner in items(value, "metadata", "ownerReferences"))


def labels(catalog: str) -> dict[str, str]:
    """Return the labels of the objects that serve a catalog."""
    return {MANAGED_BY_LABEL: CONTROLLED_BY, INSTANCE_LABEL: catalog}


def owner_reference(owner: Mapping[str, Any]) -> Object:
    """Return an owner reference, so that the cluster deletes the dependent object with its owner."""
    return {
        "apiVersion": text(owner, "apiVersion"),
        "kind": text(owner, "kind"),
        "name": name_of(owner),
        "uid": text(owner, "metadata", "uid"),
    }


def catalog_name(package: str) -> str:
    """Return the name of the CatalogSource of a package, as operator-sdk names it if that is a valid name."""
    return as_label(f"{as_label(package)[:55]}-catalog")


def subscription_name(csv: str) -> str:
    """Return the name of the Subscription to a ClusterServiceVersion, as operator-sdk names it."""
    return f"{re.sub('[^a-z0-9]+', '-', csv.lower()).strip('-')[:59].strip('-')}-sub"


def operator_name(package: str, namespace: str) -> str:
    """Return the name of the Operator object of OLM for a package in a namespace, which is a part of label keys."""
    return f"{package}.{namespace}"[:63].rstrip("._-")
