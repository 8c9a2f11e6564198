"""Manifests decoded into their API types, with the types of the compatibility mode's release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.api_types.decode import Decoded, decode_cached
from opmkit.bundle.api_types.scalars import DecodeMode
from opmkit.bundle.api_types.tables import CRDS, CSV, OBJECT, Tables
from opmkit.bundle.validation.compat import Compat

if TYPE_CHECKING:
    from opmkit.bundle.validation.bundle_view import Manifest
    from opmkit.documents.content import Content


def decode_csv(content: Content, compat: Compat, mode: DecodeMode | None = None) -> Decoded:
    """Decode a ClusterServiceVersion; by default as the loader of the Go release does."""
    if mode is None:
        mode = DecodeMode.JSON if content.is_json and compat is Compat.OPM_1_26 else DecodeMode.YAML
    return decode_cached(content.memo, content.value, CSV, mode, _tables(compat))


def decode_crd(file: Manifest, compat: Compat, mode: DecodeMode) -> Decoded:
    """Decode a CustomResourceDefinition; one with an unknown apiVersion has no fields and no mismatches."""
    struct = CRDS.get(file.api_version)
    content = file.content
    return decode_cached(content.memo, content.value, struct, mode, _tables(compat)) if struct else Decoded({})


def decode_object(file: Manifest, mode: DecodeMode) -> Decoded:
    """Decode what all objects have: kind, apiVersion and metadata."""
    return decode_cached(file.content.memo, file.content.value, OBJECT, mode)


def _tables(compat: Compat) -> Tables:
    return Tables.OPM_1_26 if compat is Compat.OPM_1_26 else Tables.NEWEST
