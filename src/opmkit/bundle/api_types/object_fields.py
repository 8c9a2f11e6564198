"""The fields of the objects beside ClusterServiceVersion and CustomResourceDefinition that rules look into.

They are written as those of :mod:`opmkit.bundle.api_types.csv_fields` are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

STRUCTS: Final[Mapping[str, str]] = {
    "PodDisruptionBudget": """
        kind apiVersion: string
        metadata: ObjectMeta
        spec: PodDisruptionBudgetSpec
        status: PodDisruptionBudgetStatus
    """,
    "PodDisruptionBudgetSpec": """
        minAvailable maxUnavailable: *intOrString
        selector: *LabelSelector
        unhealthyPodEvictionPolicy: *string
    """,
    "PodDisruptionBudgetStatus": """
        observedGeneration: int64
        disruptedPods: {}time
        disruptionsAllowed currentHealthy desiredHealthy expectedPods: int32
        conditions: []Condition
    """,
    "Condition": "type status reason message: string; observedGeneration: int64; lastTransitionTime: time",
    "PriorityClass": """
        kind apiVersion description: string
        metadata: ObjectMeta
        value: int32
        globalDefault: bool
        preemptionPolicy: *string
    """,
    "Role": "kind apiVersion: string; metadata: ObjectMeta; rules: []PolicyRule",
    "ClusterRole": """
        kind apiVersion: string
        metadata: ObjectMeta
        rules: []PolicyRule
        aggregationRule: *AggregationRule
    """,
    "AggregationRule": "clusterRoleSelectors: []LabelSelector",
}
ROOTS: Final = ("ClusterRole", "PodDisruptionBudget", "PriorityClass", "Role")
"""The kinds of these objects, which are entries too."""
