"""Settings of clusters that hints refer to."""

from __future__ import annotations

from opmkit.core.hints import Setting


class ClusterSetting(Setting):
    """Settings of clusters that hints refer to."""

    CONTEXT = "context"
    KUBECONFIG = "kubeconfig"
