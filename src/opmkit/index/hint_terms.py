"""Settings and operations of indexes that hints refer to."""

from __future__ import annotations

from opmkit.core.hints import Operation, Setting


class IndexSetting(Setting):
    """Settings of indexes that hints refer to."""

    ADDRESS = "address"
    AFTER = "after"
    ALLOW_PACKAGE_REMOVAL = "allow_package_removal"
    ALLOW_PROGRAMS = "allow_programs"
    BASE = "base"
    BEFORE = "before"
    BINARY_IMAGE = "binary_image"
    BUILD_TOOL = "build_tool"
    BUNDLES = "bundles"
    BY_VERSION = "by_version"
    CACHE_DIR = "cache_dir"
    CACHE_ENFORCE_INTEGRITY = "cache_enforce_integrity"
    CACHE_ONLY = "cache_only"
    CHANNEL = "channel"
    CREATE_CHANNEL = "create_channel"
    DEFAULT_CHANNEL = "default_channel"
    ENABLE_ALPHA = "enable_alpha"
    FAIL_ON = "fail_on"
    FORCE = "force"
    FROM = "from"
    FROM_CHANNEL = "from_channel"
    FROZEN = "frozen"
    HTTP_PORT = "http_port"
    MIGRATE_LEVEL = "migrate_level"
    NO_VALIDATE = "no_validate"
    OFFLINE = "offline"
    ON_CONFLICT = "on_conflict"
    OVERWRITE_LATEST = "overwrite_latest"
    PORT = "port"
    PREFER = "prefer"
    REPLACES = "replaces"
    SKIPS = "skips"
    SKIP_PRESENT = "skip_present"
    SKIP_RANGE = "skip_range"
    TAG = "tag"
    TARGET_CATALOG = "target_catalog"
    TLS_CERT = "tls_cert"
    TLS_KEY = "tls_key"
    TO_CATALOG = "to_catalog"
    TO_CHANNEL = "to_channel"


class IndexOperation(Operation):
    """Operations of indexes that hints refer to."""

    BUILD_CACHE = "build_cache"
    DEPRECATE = "deprecate"
    LIST_SERVED_BUNDLES = "list_served_bundles"
    LIST_SERVED_CATALOG = "list_served_catalog"
    MIGRATE_INDEX = "migrate_index"
    PRUNE_STRANDED = "prune_stranded"
    RENDER_TEMPLATE = "render_template"
    VALIDATE_BUNDLE = "validate_bundle"
    VALIDATE_CATALOG = "validate_catalog"
