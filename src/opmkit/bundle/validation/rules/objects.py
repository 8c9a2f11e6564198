"""Rules of the validators ``object``, about objects that can harm a cluster, and ``operatorgroup``.

In operator-sdk, the object validator is never called.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from opmkit.bundle.api_types.decode import OTHER_KINDS, Decoded, DecodeMode, decode_struct
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.loading import type_finding
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.rules.csv import wrong_case_keys
from opmkit.documents.lenient import items, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.validation.bundle_view import BundleView, ManifestView

VALIDATOR = "object"
_PDB, _PRIORITY_CLASS, _ROLES = "PodDisruptionBudget", "PriorityClass", ("Role", "ClusterRole")
_DEFAULT_SCCS = frozenset(
    ("privileged", "restricted", "anyuid", "hostaccess", "hostmount-anyuid", "hostnetwork", "node-exporter", "nonroot")
)
_OPERATOR_GROUPS = ("operators.coreos.com/v1", "operators.coreos.com/v1alpha2")
_PERCENTAGE = re.compile(r"([0-9]{1,9})%?")


def _typed(manifest: ManifestView) -> Decoded:
    """Decode the object into the type of its kind."""
    memo = manifest.content.memo
    if _typed not in memo:
        memo[_typed] = decode_struct(dict(manifest.object), manifest.kind, DecodeMode.JSON)
    return cast("Decoded", memo[_typed])


def _objects(bundle: BundleView, *kinds: str) -> Iterator[tuple[ManifestView, Mapping[str, Any]]]:
    """Yield the objects of these kinds; as in Go, in other modes than opmkit's only those without mismatches."""
    for manifest in bundle.manifests:
        if manifest.kind in kinds:
            typed = _typed(manifest)
            if not typed.mismatches or bundle.compat is Compat.OPMKIT:
                yield manifest, typed.value


@rule(
    "OBJECT-DECODE",
    VALIDATOR,
    Severity.ERROR,
    "wrong type of a field in an object",
    hint="Write a value of the field's type.",
    bad="kind: PriorityClass\nglobalDefault: 'false'",
    good="kind: PriorityClass\nglobalDefault: false",
)
def decode(bundle: BundleView) -> Iterator[Finding]:
    """Clusters reject values of the wrong type. The Go validators report only the first one of an object."""
    for manifest in bundle.manifests:
        if manifest.kind in OTHER_KINDS:
            mismatches = _typed(manifest).mismatches
            for mismatch in mismatches if bundle.compat is Compat.OPMKIT else mismatches[:1]:
                yield replace(type_finding(manifest, mismatch), subject=manifest.object_name)


def _amount(value: object) -> int | None:
    """Return the number in 5, "5" or "5%", None for other values."""
    match = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    return int(match.group(1)) if match else value if isinstance(value, int) else None


@rule(
    "OBJECT-PDB-MAX",
    VALIDATOR,
    Severity.ERROR,
    "a PodDisruptionBudget allows no disruption",
    hint="Set spec.maxUnavailable to 1 or more, or to a percentage above 0%.",
    bad="kind: PodDisruptionBudget\nspec: {maxUnavailable: 0}",
    good="kind: PodDisruptionBudget\nspec: {maxUnavailable: 1}",
)
def pdb_max(bundle: BundleView) -> Iterator[Finding]:
    """The budget blocks node drains and therefore cluster upgrades.

    The Go validators read every percentage as 0.
    """
    for manifest, value in _objects(bundle, _PDB):
        limit = mapping(value.get("spec")).get("maxUnavailable")
        none = isinstance(limit, str) or limit == 0
        if _amount(limit) == 0 if bundle.compat is Compat.OPMKIT else none:
            message = f"spec.maxUnavailable is {limit!r}, so no pod can be evicted"
            yield Finding(message, manifest.path, ("spec", "maxUnavailable"), manifest.object_name)


@rule(
    "OBJECT-PDB-MIN",
    VALIDATOR,
    Severity.ERROR,
    "a PodDisruptionBudget requires all pods to be available",
    hint="Set spec.minAvailable to less than 100%.",
    bad="kind: PodDisruptionBudget\nspec: {minAvailable: 100%}",
    good="kind: PodDisruptionBudget\nspec: {minAvailable: 50%}",
)
def pdb_min(bundle: BundleView) -> Iterator[Finding]:
    """The budget blocks node drains and therefore cluster upgrades.

    The Go validators accept percentages above 100%.
    """
    for manifest, value in _objects(bundle, _PDB):
        limit = mapping(value.get("spec")).get("minAvailable")
        is_share = isinstance(limit, str) and limit.endswith("%")
        if limit == "100%" or (is_share and bundle.compat is Compat.OPMKIT and (_amount(limit) or 0) >= 100):
            message = f"spec.minAvailable is {limit!r}, so no pod can be evicted"
            yield Finding(message, manifest.path, ("spec", "minAvailable"), manifest.object_name)


@rule(
    "OBJECT-PC-GLOBAL",
    VALIDATOR,
    Severity.ERROR,
    "a PriorityClass is the global default",
    hint="Set globalDefault to false, and set priorityClassName in the pods that need the class.",
    bad="kind: PriorityClass\nglobalDefault: true",
    good="kind: PriorityClass\nglobalDefault: false",
)
def priority_class(bundle: BundleView) -> Iterator[Finding]:
    """The class applies to all pods without a class, which is a decision of the cluster administrator."""
    for manifest, value in _objects(bundle, _PRIORITY_CLASS):
        if value.get("globalDefault") is True:
            yield Finding("globalDefault is true", manifest.path, ("globalDefault",), manifest.object_name)


def _grants(
    bundle: BundleView, group: str, resource: str, verbs: set[str]
) -> Iterator[tuple[ManifestView, int, Mapping[str, Any]]]:
    """Yield role, index and value of each policy rule that grants one of the verbs on a resource by name."""
    for manifest, value in _objects(bundle, *_ROLES):
        for number, policy_rule in enumerate(items(value.get("rules"))):
            groups, resources, allowed = (items(policy_rule.get(name)) for name in ("apiGroups", "resources", "verbs"))
            if group in groups and resource in resources and verbs.intersection(allowed):
                yield manifest, number, policy_rule


@rule(
    "OBJECT-RBAC-PDB",
    VALIDATOR,
    Severity.WARNING,
    "a role grants permission to change PodDisruptionBudgets",
    hint="Remove the permission, or put the budgets into the bundle.",
    bad="rules: [{apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [create]}]",
    good="rules: [{apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [get, list]}]",
)
def rbac_pdb(bundle: BundleView) -> Iterator[Finding]:
    """A strict budget blocks node drains and therefore cluster upgrades."""
    for manifest, number, _ in _grants(bundle, "policy", "poddisruptionbudgets", {"*", "create", "update", "patch"}):
        message = f"the {manifest.kind} grants permission to create or change PodDisruptionBudgets"
        yield Finding(message, manifest.path, ("rules", number), manifest.object_name)


@rule(
    "OBJECT-RBAC-SCC",
    VALIDATOR,
    Severity.ERROR,
    "a role grants permission to change default SecurityContextConstraints of OpenShift",
    hint="Add your own constraints, and name those instead.",
    bad=(
        "rules: [{apiGroups: [security.openshift.io], resources: [securitycontextconstraints], "
        "resourceNames: [privileged], verbs: [update]}]"
    ),
    good=(
        "rules: [{apiGroups: [security.openshift.io], resources: [securitycontextconstraints], "
        "resourceNames: [privileged], verbs: [use]}]"
    ),
)
def rbac_scc(bundle: BundleView) -> Iterator[Finding]:
    """The default constraints limit the privileges of all pods of the cluster."""
    verbs = {"*", "delete", "update", "patch"}
    for manifest, number, policy_rule in _grants(bundle, "security.openshift.io", "securitycontextconstraints", verbs):
        names = sorted(_DEFAULT_SCCS.intersection(items(policy_rule.get("resourceNames"))))
        if names:
            message = f"the {manifest.kind} grants permission to change SecurityContextConstraints {', '.join(names)}"
            yield Finding(message, manifest.path, ("rules", number), manifest.object_name)


@rule(
    "ANNOTATION-KEY-CASE",
    "operatorgroup",
    Severity.ERROR,
    "wrong case in an annotation key",
    hint="Write the key exactly as in the message.",
    bad="annotations: {olm.providedapis: Demo.v1.example.com}",
    good="annotations: {olm.providedAPIs: Demo.v1.example.com}",
)
def operator_group_key_case(bundle: BundleView) -> Iterator[Finding]:
    """Annotation keys are case-sensitive, and a key in another case is ignored."""
    for manifest in bundle.manifests:
        if manifest.kind == "OperatorGroup" and manifest.api_version in _OPERATOR_GROUPS:
            for key, known in wrong_case_keys(mapping(manifest.metadata.get("annotations"))):
                message = f"annotation {key} must be written as {known}"
                yield Finding(message, manifest.path, ("metadata", "annotations", key), manifest.object_name)
