"""Settings and operations of OLM that hints refer to."""

from __future__ import annotations

from opmkit.core.hints import Operation, Setting


class OlmSetting(Setting):
    """Settings of OLM that hints refer to."""

    FROM = "from"
    INDEX_IMAGE = "index_image"
    INSTALL_MODE = "install_mode"
    NAMESPACE = "namespace"
    PULL_SECRET = "pull_secret"  # noqa: S105 - the name of a setting
    SECURITY_CONTEXT = "security_context"
    TIMEOUT = "timeout"


class OlmOperation(Operation):
    """Operations of OLM that hints refer to."""

    CLEAN_UP = "clean_up"
    INSTALL_OLM = "install_olm"
    OLM_STATUS = "olm_status"
    RUN_BUNDLE = "run_bundle"
    UNINSTALL_OLM = "uninstall_olm"
    UPGRADE_OPERATOR = "upgrade_operator"
