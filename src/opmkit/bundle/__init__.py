"""Operator bundles: parse, generate, build, unpack and validate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.lazy import lazy_exports

if TYPE_CHECKING:
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

__getattr__ = lazy_exports(
    __name__,
    {
        "errors": ("BundleError", "InvalidBundle", "NotABundle"),
        "manifest": ("ManifestCache",),
        "model": ("ApiKey", "Bundle", "BundleAnnotations", "ClusterServiceVersion", "TypedValue"),
        "parse": ("parse_bundle",),
    },
)
