"""Sample bundles, as the files of their images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FIXTURE = Path(__file__).parents[2] / "fixtures" / "lagoon-operator"
LABEL = "operators.operatorframework.io.bundle."
CSV = "manifests/op.clusterserviceversion.yaml"
CRD = "manifests/things.example.com.crd.yaml"


def annotations_file(package: str = "op", channels: str = "alpha", default: str = "") -> bytes:
    entries = {"package.v1": package, "channels.v1": channels, "channel.default.v1": default}
    return json.dumps({"annotations": {LABEL + key: value for key, value in entries.items() if value}}).encode()


def csv(spec: Any = None, *, name: str = "op.v1.0.0", annotations: Any = None) -> bytes:
    """Return a minimal CSV with additional fields of the spec."""
    metadata = {"name": name, "annotations": annotations or {}}
    full = {"version": "1.0.0", **(spec or {})}
    value = {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": metadata}
    return json.dumps({**value, "spec": full}).encode()


def crd(*versions: str, kind: str = "Thing", plural: str = "things", group: str = "example.com") -> bytes:
    spec = {
        "group": group,
        "names": {"kind": kind, "plural": plural},
        "versions": [{"name": name} for name in versions],
    }
    return json.dumps(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    ).encode()


def files(**parts: Any) -> dict[str, bytes]:
    """Return a bundle with one CSV; the arguments are those of `csv`."""
    return {CSV: csv(**parts), "metadata/annotations.yaml": annotations_file()}
