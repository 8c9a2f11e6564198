"""Manifests decoded into their API types, by the release of the types that a dialect stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.api_types.decode import Decoded, decode_cached
from opmkit.bundle.api_types.scalars import DecodeMode
from opmkit.bundle.api_types.tables import CRDS, CSV, OBJECT, Tables
from opmkit.bundle.validation.rule import Dialect

if TYPE_CHECKING:
    from opmkit.bundle.content import Content
    from opmkit.bundle.validation.bundle_view import Manifest


def decode_csv(content: Content, dialect: Dialect, mode: DecodeMode | None = None) -> Decoded:
    """Decode a ClusterServiceVersion; by default in the mode of the dialect's loader."""
    if mode is None:
        mode = DecodeMode.JSON if content.is_json and dialect is Dialect.OPM_1_26 else DecodeMode.YAML
    return decode_cached(content.memo, content.value, CSV, mode, _tables(dialect))


def decode_crd(file: Manifest, dialect: Dialect, mode: DecodeMode) -> Decoded:
    """Decode a CustomResourceDefinition; one with an unknown apiVersion has no fields and no mismatches."""
    struct = CRDS.get(file.api_version)
    content = file.content
    return decode_cached(content.memo, content.value, struct, mode, _tables(dialect)) if struct else Decoded({})


def decode_object(file: Manifest, mode: DecodeMode) -> Decoded:
    """Decode what all objects have: kind, apiVersion and metadata."""
    return decode_cached(file.content.memo, file.content.value, OBJECT, mode)


def _tables(dialect: Dialect) -> Tables:
    return Tables.OPM_1_26 if dialect is Dialect.OPM_1_26 else Tables.NEWEST
