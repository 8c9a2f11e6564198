"""Operator bundles: parse, generate, build, unpack and validate."""

from __future__ import annotations

from opmkit.bundle.errors import BundleError, InvalidBundle, NotABundle
from opmkit.bundle.manifest import ManifestCache
from opmkit.bundle.model import ApiKey, Bundle, BundleAnnotations, ClusterServiceVersion, TypedValue
from opmkit.bundle.parse import parse_bundle

__all__ = [
    "ApiKey",
    "Bundle",
    "BundleAnnotations",
    "BundleError",
    "ClusterServiceVersion",
    "InvalidBundle",
    "ManifestCache",
    "NotABundle",
    "TypedValue",
    "parse_bundle",
]
