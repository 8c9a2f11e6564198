"""Values of OCI image-spec 1.1 and Docker image manifest v2, schema 2.

Parsed values keep their original bytes, and so their digest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.lazy import lazy_exports
from opmkit.imagetools.spec import media_types

if TYPE_CHECKING:
    from opmkit.imagetools.spec.config import EPOCH, MAX_CONFIG_SIZE, ConfigChanges, HistoryEntry, ImageConfig
    from opmkit.imagetools.spec.descriptor import Descriptor, Platform, check_digest, is_digest, new_hash, sha256_digest
    from opmkit.imagetools.spec.manifest import MAX_MANIFEST_SIZE, IndexManifest, Manifest, parse_manifest

__all__ = [
    "EPOCH",
    "MAX_CONFIG_SIZE",
    "MAX_MANIFEST_SIZE",
    "ConfigChanges",
    "Descriptor",
    "HistoryEntry",
    "ImageConfig",
    "IndexManifest",
    "Manifest",
    "Platform",
    "check_digest",
    "is_digest",
    "media_types",
    "new_hash",
    "parse_manifest",
    "sha256_digest",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "config": ("EPOCH", "MAX_CONFIG_SIZE", "ConfigChanges", "HistoryEntry", "ImageConfig"),
        "descriptor": ("Descriptor", "Platform", "check_digest", "is_digest", "new_hash", "sha256_digest"),
        "manifest": ("MAX_MANIFEST_SIZE", "IndexManifest", "Manifest", "parse_manifest"),
    },
)
