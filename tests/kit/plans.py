"""Small catalogs for tests of plans."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from opmkit.index.fbc.load import parse_blobs
from opmkit.index.fbc.model import Catalog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Entry = dict[str, Any]


def package(
    name: str, channels: Mapping[str, Sequence[Entry]], requires: Mapping[str, Sequence[dict[str, Any]]] | None = None
) -> list[dict[str, Any]]:
    """Return the documents of a package; the first channel is the default, and versions follow the ``.v`` in names.

    Args:
        name: Name of the package.
        channels: Entries by channel.
        requires: Further properties by bundle.
    """
    bundles = sorted({entry["name"] for entries in channels.values() for entry in entries})
    return [
        {"schema": "olm.package", "name": name, "defaultChannel": next(iter(channels))},
        *(
            {"schema": "olm.channel", "name": channel, "package": name, "entries": list(entries)}
            for channel, entries in channels.items()
        ),
        *(
            {
                "schema": "olm.bundle",
                "name": bundle,
                "package": name,
                "image": f"quay.io/me/{bundle}",
                "properties": [
                    {"type": "olm.package", "value": {"packageName": name, "version": bundle.partition(".v")[2]}},
                    *((requires or {}).get(bundle, ())),
                ],
            }
            for bundle in bundles
        ),
    ]


def chain(*names: str) -> list[Entry]:
    """Return entries that each replace the one before."""
    before = ("", *names)
    return [{"name": name} | ({"replaces": old} if old else {}) for name, old in zip(names, before, strict=False)]


def requires_package(name: str, versions: str = ">=0.0.0") -> dict[str, Any]:
    """Return the property of a bundle that requires a package."""
    return {"type": "olm.package.required", "value": {"packageName": name, "versionRange": versions}}


def provides(kind: str) -> dict[str, Any]:
    """Return the property of a bundle that provides an API."""
    return {"type": "olm.gvk", "value": {"group": "demo.com", "version": "v1", "kind": kind}}


def embeds(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the property of a bundle that contains an object."""
    return {"type": "olm.bundle.object", "value": {"data": base64.b64encode(json.dumps(definition).encode()).decode()}}


def definition(*versions: str, scope: str = "Namespaced") -> dict[str, Any]:
    """Return a CustomResourceDefinition, whose last version is stored."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "reefs.demo.com"},
        "spec": {
            "scope": scope,
            "versions": [{"name": name, "served": True, "storage": name == versions[-1]} for name in versions],
        },
    }


def encode(documents: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the documents as JSON lines."""
    return "\n".join(map(json.dumps, documents)).encode()


def catalog(*packages: Sequence[Mapping[str, Any]]) -> Catalog:
    """Return a catalog of packages."""
    return Catalog.from_blobs(parse_blobs(encode([item for each in packages for item in each]), "catalog.json"))


def write(path: Path, *packages: Sequence[Mapping[str, Any]]) -> Path:
    """Write a catalog of packages to a new directory."""
    path.mkdir()
    (path / "catalog.json").write_bytes(encode([item for each in packages for item in each]))
    return path


def _object(kind: str, namespace: str, name: str, **metadata: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace, **metadata}}


def catalog_source(name: str, namespace: str, image: str = "", priority: int = 0) -> dict[str, Any]:
    """Return a CatalogSource."""
    return _object("CatalogSource", namespace, name) | {"spec": {"image": image, "priority": priority}}


def operator_group(namespace: str, name: str = "group", *, exclude: bool = False) -> dict[str, Any]:
    """Return an OperatorGroup, which may exclude the global catalogs."""
    key = "olm.operatorframework.io/exclude-global-namespace-resolution"
    return _object("OperatorGroup", namespace, name, annotations={key: "true"} if exclude else {}) | {"spec": {}}


def subscription(
    namespace: str,
    package: str,
    channel: str,
    *,
    installed: str = "",
    approval: str = "Automatic",
    source: str = "prod",
) -> dict[str, Any]:
    """Return a Subscription to a package of a CatalogSource in the namespace ``olm``."""
    spec = {"name": package, "channel": channel, "source": source, "sourceNamespace": "olm"}
    return _object("Subscription", namespace, package) | {
        "spec": spec | {"installPlanApproval": approval},
        "status": {"installedCSV": installed},
    }


def version(
    namespace: str,
    name: str,
    *,
    properties: Sequence[Mapping[str, Any]] | None = None,
    owned: Sequence[Mapping[str, Any]] = (),
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a ClusterServiceVersion, whose version follows the ``.v`` in its name."""
    annotation = {"operatorframework.io/properties": json.dumps({"properties": properties})} if properties else {}
    spec = {"version": name.partition(".v")[2], "customresourcedefinitions": {"owned": list(owned)}}
    metadata = _object("ClusterServiceVersion", namespace, name, annotations=annotation, labels=dict(labels or {}))
    return metadata | {"spec": spec}


def long_channel(package: str, count: int) -> bytes:
    """Return a catalog with a channel whose entries replace each other."""
    names = [f"{package}.v1.{number}.0" for number in range(count)]
    entries = [{"name": name, "replaces": before} for before, name in zip(["", *names], names, strict=False)]
    documents: list[dict[str, Any]] = [
        {"schema": "olm.package", "name": package, "defaultChannel": "stable"},
        {"schema": "olm.channel", "package": package, "name": "stable", "entries": entries},
    ]
    for number, name in enumerate(names):
        version = {"type": "olm.package", "value": {"packageName": package, "version": f"1.{number}.0"}}
        image = f"quay.io/me/{package}@sha256:{number:064x}"
        documents.append(
            {"schema": "olm.bundle", "package": package, "name": name, "image": image, "properties": [version]}
        )
    return "".join(f"{json.dumps(document)}\n" for document in documents).encode()
