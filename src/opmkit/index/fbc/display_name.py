"""The name of an operator for people, as the bundle in a catalog has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.cluster_service_version import CSV_KIND
from opmkit.bundle.fields import member
from opmkit.index.fbc.blobs import CSV_METADATA
from opmkit.index.fbc.migrate import bundle_objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.json_value import JsonValue
    from opmkit.index.fbc.blobs import BundleBlob


def display_name(bundle: BundleBlob) -> str:
    """What its ClusterServiceVersion says, or else the metadata of it; "" if the catalog has neither.

    Raises InvalidDocument for an object that can't be read, of which a valid catalog has none.
    """
    for value in csv_specs(bundle):
        name = member(value, "displayName") if isinstance(value, dict) else None
        if isinstance(name, str) and name:
            return name
    return ""


def csv_specs(bundle: BundleBlob) -> Iterator[JsonValue]:
    """What the catalog has of the ``spec`` of its ClusterServiceVersion: all of it, and the metadata of it.

    Raises InvalidDocument for an object that can't be read, of which a valid catalog has none.
    """
    for value in bundle_objects(bundle):
        if isinstance(value, dict) and value.get("kind") == CSV_KIND:
            yield value.get("spec")
    yield from bundle.property_values(CSV_METADATA)
