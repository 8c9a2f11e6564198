"""Display names of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.kinds import CSV_KIND
from opmkit.documents.fields import member
from opmkit.index.fbc.blobs import CSV_METADATA
from opmkit.index.fbc.migrate import bundle_objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import BundleBlob


def display_name(bundle: BundleBlob) -> str:
    """Return the display name in the ClusterServiceVersion of a bundle or in its metadata; "" if it has neither.

    Raises:
        InvalidDocument: An `olm.bundle.object` can't be decoded; a valid catalog has no such object.
    """
    for value in csv_specs(bundle):
        name = member(value, "displayName") if isinstance(value, dict) else None
        if isinstance(name, str) and name:
            return name
    return ""


def csv_specs(bundle: BundleBlob) -> Iterator[JsonValue]:
    """Yield the ``spec`` of the ClusterServiceVersion, if embedded, and the value of `olm.csv.metadata`, if any.

    Raises:
        InvalidDocument: An `olm.bundle.object` can't be decoded; a valid catalog has no such object.
    """
    for value in bundle_objects(bundle):
        if isinstance(value, dict) and value.get("kind") == CSV_KIND:
            yield value.get("spec")
    yield from bundle.property_values(CSV_METADATA)
