"""Kinds of objects in bundles, and those that ``registry+v1`` bundles support."""

from __future__ import annotations

from opmkit.bundle.validation.compat import Compat

CSV_KIND = "ClusterServiceVersion"
CRD_KIND = "CustomResourceDefinition"
_IN_OPM_1_26 = frozenset(
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
_ADDED_LATER = frozenset({"ConsolePlugin", "NetworkPolicy", "PodMonitor"})

CLUSTER_KINDS = frozenset(
    {
        CRD_KIND,
        "ClusterRole",
        "ClusterRoleBinding",
        "ConsoleCLIDownload",
        "ConsoleLink",
        "ConsolePlugin",
        "ConsoleQuickStart",
        "ConsoleYAMLSample",
        "PriorityClass",
    }
)
"""Supported kinds of objects without a namespace."""
NAMESPACED_KINDS = (_IN_OPM_1_26 | _ADDED_LATER) - CLUSTER_KINDS
"""Supported kinds of objects in a namespace."""


def supported_kinds(compat: Compat) -> frozenset[str]:
    """Return the supported kinds; groups and versions are not checked."""
    return _IN_OPM_1_26 if compat is Compat.OPM_1_26 else _IN_OPM_1_26 | _ADDED_LATER
