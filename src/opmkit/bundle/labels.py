"""Labels of bundle and index images; those of bundles are also the keys of ``annotations.yaml``."""

from __future__ import annotations

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
