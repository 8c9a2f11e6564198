"""The kinds of objects that a bundle of the format ``registry+v1`` may hold."""

from __future__ import annotations

from opmkit.bundle.validation.bundle_view import CRD_KIND, CSV_KIND
from opmkit.bundle.validation.compat import Compat

_FIRST = frozenset(
    {
        CSV_KIND,
        CRD_KIND,
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "ConsoleCLIDownload",
        "ConsoleLink",
        "ConsoleQuickStart",
        "ConsoleYAMLSample",
        "PodDisruptionBudget",
        "PriorityClass",
        "PrometheusRule",
        "Role",
        "RoleBinding",
        "Secret",
        "Service",
        "ServiceAccount",
        "ServiceMonitor",
        "VerticalPodAutoscaler",
    }
)
_SINCE = frozenset({"ConsolePlugin", "NetworkPolicy", "PodMonitor"})


def supported_kinds(compat: Compat) -> frozenset[str]:
    """The kinds by their texts alone; group and version are not looked at."""
    return _FIRST if compat is Compat.OPM_1_26 else _FIRST | _SINCE
