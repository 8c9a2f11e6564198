"""Field tables of API types, as ``scripts/generate_field_tables.py`` writes them from the Go structs."""

from __future__ import annotations

from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

CSV: Final = "ClusterServiceVersion"
CRDS: Final[Mapping[str, str]] = {
    "apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "apiextensions.k8s.io/v1beta1": "v1beta1.CustomResourceDefinition",
}
"""The structs of CustomResourceDefinitions by ``apiVersion``."""
OBJECT: Final = "PartialObjectMetadata"
"""The struct of any object: kind, apiVersion and metadata."""
PACKAGE_MANIFEST: Final = "PackageManifest"
OTHER_KINDS: Final = ("ClusterRole", "PodDisruptionBudget", "PriorityClass", "Role")
"""Further kinds of bundles with a struct of that name."""
SCORECARD: Final = "Configuration"
"""The struct of configurations of operator-sdk's scorecard."""


class Tables(Enum):
    """Releases of the Go structs."""

    NEWEST = "newest"
    OPM_1_26 = "opm-1.26"
    """Those of opm v1.26: fields that were added later are unknown."""


@cache
def load(tables: Tables) -> Mapping[str, Mapping[str, str]]:
    """Return the field types by struct and field name; ``scripts/field_tables/main.go`` describes the notation."""
    document = _read()
    structs: dict[str, dict[str, str]] = dict(document["structs"])
    for struct, changed in document["differences"].get(tables.value, {}).items():
        fields = structs.get(struct, {}) | changed
        structs[struct] = {name: kind for name, kind in fields.items() if kind is not None}
    return structs


@cache
def load_always_written() -> Mapping[str, frozenset[str]]:
    """Return the fields of the newest structs that Go programs write even if they have their zero value."""
    return {struct: frozenset(fields) for struct, fields in _read()["always"].items()}


@cache
def _read() -> Any:
    return orjson.loads(Path(__file__).with_name("field_tables.json").read_bytes())
