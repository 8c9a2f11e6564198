"""Settings and operations of images and registries that hints refer to."""

from __future__ import annotations

from opmkit.core.hints import Operation, Setting


class ImageSetting(Setting):
    """Settings of images and registries that hints refer to."""

    AUTHFILE = "authfile"
    CA_FILE = "ca_file"
    CERT_DIR = "cert_dir"
    CONTAINER_TOOL = "container_tool"
    CONTINUE = "continue"
    EXECUTOR = "executor"
    IDENTITY_TOKEN = "identity_token"  # noqa: S105 - the name of a setting
    IMAGE_FORMAT = "image_format"
    KEEP = "keep"
    OVERWRITE_TAGS = "overwrite_tags"
    PLAIN_HTTP = "plain_http"
    PLATFORM = "platform"
    SEARCH = "search"
    SIGNATURES = "signatures"
    SKIP_TLS_VERIFY = "skip_tls_verify"
    TRUSTED_ROOT = "trusted_root"


class ImageOperation(Operation):
    """Operations of images and registries that hints refer to."""

    ATTEST_IMAGE = "attest_image"
    COPY_IMAGE = "copy_image"
    LIST_STORED_IMAGES = "list_stored_images"
    REMOVE_STORED_IMAGE = "remove_stored_image"
    SIGN_IMAGE = "sign_image"
