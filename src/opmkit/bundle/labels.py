"""Labels of bundle and index images, and annotations of ClusterServiceVersions.

The labels of bundles are also the keys of ``annotations.yaml``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "operators.operatorframework.io."
"""Start of all labels of bundle and index images."""
_BUNDLE = "operators.operatorframework.io.bundle"

MEDIA_TYPE = f"{_BUNDLE}.mediatype.v1"
MANIFESTS = f"{_BUNDLE}.manifests.v1"
METADATA = f"{_BUNDLE}.metadata.v1"
PACKAGE = f"{_BUNDLE}.package.v1"
CHANNELS = f"{_BUNDLE}.channels.v1"
DEFAULT_CHANNEL = f"{_BUNDLE}.channel.default.v1"
TEST_MEDIA_TYPE = "operators.operatorframework.io.test.mediatype.v1"
TEST_CONFIG = "operators.operatorframework.io.test.config.v1"

INDEX_DATABASE = "operators.operatorframework.io.index.database.v1"
INDEX_CONFIGS = "operators.operatorframework.io.index.configs.v1"

SUBSTITUTES_FOR = "olm.substitutesFor"
"""Annotation with the name of the bundle that a bundle substitutes."""


def labelled_directories(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the directories of manifests and metadata that the labels of a bundle image name."""
    named = (labels.get(label, "").strip("/") for label in (MANIFESTS, METADATA))
    return tuple(filter(None, named))
