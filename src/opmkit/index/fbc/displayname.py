"""The name of an operator for people, as the bundle in a catalog has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.fields import member
from opmkit.bundle.serviceversion import KIND
from opmkit.index.fbc.blobs import CSV_METADATA
from opmkit.index.fbc.levels import objects_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.jsonvalue import JsonValue
    from opmkit.index.fbc.blobs import BundleBlob


def display_name(bundle: BundleBlob) -> str:
    """What its ClusterServiceVersion says, or else the metadata of it; "" if the catalog has neither.

    Raises InvalidDocument for an object that can't be read, of which a valid catalog has none.
    """
    for value in specs_of(bundle):
        name = member(value, "displayName") if isinstance(value, dict) else None
        if isinstance(name, str) and name:
            return name
    return ""


def specs_of(bundle: BundleBlob) -> Iterator[JsonValue]:
    """What the catalog has of the ``spec`` of its ClusterServiceVersion: all of it, and the metadata of it.

    Raises InvalidDocument for an object that can't be read, of which a valid catalog has none.
    """
    for value in objects_of(bundle):
        if isinstance(value, dict) and value.get("kind") == KIND:
            yield value.get("spec")
    yield from bundle.values(CSV_METADATA)
