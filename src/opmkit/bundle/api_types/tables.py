"""Field tables of API types, as ``scripts/generate_field_tables.py`` writes them from the Go structs."""

from __future__ import annotations

from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
"""Further kinds with a struct of that name."""


class Tables(Enum):
    """Releases of the Go structs."""

    NEWEST = "newest"
    OPM_1_26 = "opm-1.26"
    """Those of opm v1.26: fields that were added later are unknown."""


@cache
def load(tables: Tables) -> Mapping[str, Mapping[str, str]]:
    """Return the field types by struct and field name; ``scripts/field_tables/main.go`` describes the notation."""
    document = orjson.loads(Path(__file__).with_name("field_tables.json").read_bytes())
    structs: dict[str, dict[str, str]] = document["structs"]
    for struct, changed in document["differences"].get(tables.value, {}).items():
        fields = structs.get(struct, {}) | changed
        structs[struct] = {name: kind for name, kind in fields.items() if kind is not None}
    return structs
