"""Settings and operations of bundles that hints refer to."""

from __future__ import annotations

from opmkit.core.hints import Operation, Setting


class BundleSetting(Setting):
    """Settings of bundles that hints refer to."""

    BUILD_ARG = "build_arg"
    CHANNELS = "channels"
    DATA_LIMIT = "data_limit"
    EXCLUDE = "exclude"
    EXCLUDE_TAGS = "exclude_tags"
    GZIP = "gzip"
    OVERWRITE = "overwrite"
    OUTPUT = "output"
    PACKAGE = "package"
    TAGS = "tags"
    VERSION = "version"


class BundleOperation(Operation):
    """Operations of bundles that hints refer to."""

    BUILD_BUNDLE = "build_bundle"
    GENERATE_BUNDLE = "generate_bundle"
    LIST_INDEX_BUNDLES = "list_index_bundles"
    LIST_PACKAGES = "list_packages"
    LIST_RULES = "list_rules"
    VALIDATE_INDEX = "validate_index"
    VALIDATE_SHARD = "validate_shard"
    WRITE_BASELINE = "write_baseline"
