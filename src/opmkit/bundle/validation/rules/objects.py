"""Rules of the validators ``object``, on objects that can harm a cluster, and ``operatorgroup``.

The references' command never reaches their object validator; here it looks at the manifests.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from opmkit.bundle.api_types.decode import Decoded, decode_struct
from opmkit.bundle.api_types.scalars import DecodeMode
from opmkit.bundle.api_types.tables import OTHER_KINDS
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.lenient import items, mapping
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.loading import type_finding
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.rules.csv import misspelt_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.validation.bundle_view import BundleView, Manifest

VALIDATOR = "object"
_PDB, _PRIORITY_CLASS, _ROLES = "PodDisruptionBudget", "PriorityClass", ("Role", "ClusterRole")
_DEFAULT_SCCS = frozenset(
    ("privileged", "restricted", "anyuid", "hostaccess", "hostmount-anyuid", "hostnetwork", "node-exporter", "nonroot")
)
_OPERATOR_GROUPS = ("operators.coreos.com/v1", "operators.coreos.com/v1alpha2")
_PERCENTAGE = re.compile(r"([0-9]{1,9})%?")


def _typed(manifest: Manifest) -> Decoded:
    """The object with the types that it should have."""
    memo = manifest.content.memo
    if _typed not in memo:
        memo[_typed] = decode_struct(dict(manifest.object), manifest.kind, DecodeMode.JSON)
    return cast("Decoded", memo[_typed])


def _objects(bundle: BundleView, *kinds: str) -> Iterator[tuple[Manifest, Mapping[str, Any]]]:
    """The objects of these kinds; in the references' dialects only those whose types are all right."""
    for manifest in bundle.manifests:
        if manifest.kind in kinds:
            typed = _typed(manifest)
            if not typed.mismatches or bundle.compat is Compat.OPMKIT:
                yield manifest, typed.value


@rule(
    "OBJECT-DECODE",
    VALIDATOR,
    Severity.ERROR,
    "an object has a field of a wrong type",
    hint="Write the field in the type that the API has for it.",
    bad="kind: PriorityClass\nglobalDefault: 'false'",
    good="kind: PriorityClass\nglobalDefault: false",
)
def decode(bundle: BundleView) -> Iterator[Finding]:
    """A cluster would not take the object. The references tell the first such field of an object only."""
    for manifest in bundle.manifests:
        if manifest.kind in OTHER_KINDS:
            mismatches = _typed(manifest).mismatches
            for mismatch in mismatches if bundle.compat is Compat.OPMKIT else mismatches[:1]:
                yield replace(type_finding(manifest, mismatch), subject=manifest.object_name)


def _amount(value: object) -> int | None:
    """The number in 5, "5" or "5%"."""
    match = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    return int(match.group(1)) if match else value if isinstance(value, int) else None


@rule(
    "OBJECT-PDB-MAX",
    VALIDATOR,
    Severity.ERROR,
    "a PodDisruptionBudget never lets a pod be evicted",
    hint="Set spec.maxUnavailable to 1 or more, or to a percentage above 0%.",
    bad="kind: PodDisruptionBudget\nspec: {maxUnavailable: 0}",
    good="kind: PodDisruptionBudget\nspec: {maxUnavailable: 1}",
)
def pdb_max(bundle: BundleView) -> Iterator[Finding]:
    """Such a budget keeps nodes from being drained, and so a cluster from being upgraded.

    The references take every percentage for 0.
    """
    for manifest, value in _objects(bundle, _PDB):
        limit = mapping(value.get("spec")).get("maxUnavailable")
        none = isinstance(limit, str) or limit == 0
        if _amount(limit) == 0 if bundle.compat is Compat.OPMKIT else none:
            told = f"spec.maxUnavailable is {limit!r}, so that no pod may be evicted"
            yield Finding(told, manifest.path, ("spec", "maxUnavailable"), manifest.object_name)


@rule(
    "OBJECT-PDB-MIN",
    VALIDATOR,
    Severity.ERROR,
    "a PodDisruptionBudget wants all pods to run at any time",
    hint="Set spec.minAvailable to less than 100%.",
    bad="kind: PodDisruptionBudget\nspec: {minAvailable: 100%}",
    good="kind: PodDisruptionBudget\nspec: {minAvailable: 50%}",
)
def pdb_min(bundle: BundleView) -> Iterator[Finding]:
    """Such a budget keeps nodes from being drained, and so a cluster from being upgraded.

    The references pass percentages above 100%.
    """
    for manifest, value in _objects(bundle, _PDB):
        limit = mapping(value.get("spec")).get("minAvailable")
        is_share = isinstance(limit, str) and limit.endswith("%")
        if limit == "100%" or (is_share and bundle.compat is Compat.OPMKIT and (_amount(limit) or 0) >= 100):
            told = f"spec.minAvailable is {limit!r}, so that no pod may be evicted"
            yield Finding(told, manifest.path, ("spec", "minAvailable"), manifest.object_name)


@rule(
    "OBJECT-PC-GLOBAL",
    VALIDATOR,
    Severity.ERROR,
    "a PriorityClass sets the priority of all pods of the cluster",
    hint="Set globalDefault to false, and name the class in the pods that are to have it.",
    bad="kind: PriorityClass\nglobalDefault: true",
    good="kind: PriorityClass\nglobalDefault: false",
)
def priority_class(bundle: BundleView) -> Iterator[Finding]:
    """The priority of pods that ask for none is for whoever runs the cluster to say."""
    for manifest, value in _objects(bundle, _PRIORITY_CLASS):
        if value.get("globalDefault") is True:
            yield Finding("globalDefault is true", manifest.path, ("globalDefault",), manifest.object_name)


def _granting(
    bundle: BundleView, group: str, resource: str, verbs: set[str]
) -> Iterator[tuple[Manifest, int, Mapping[str, Any]]]:
    """The rules of roles that allow one of the verbs on a resource which they name, with their numbers."""
    for manifest, value in _objects(bundle, *_ROLES):
        for number, granted in enumerate(items(value.get("rules"))):
            groups, resources, allowed = (items(granted.get(name)) for name in ("apiGroups", "resources", "verbs"))
            if group in groups and resource in resources and verbs.intersection(allowed):
                yield manifest, number, granted


@rule(
    "OBJECT-RBAC-PDB",
    VALIDATOR,
    Severity.WARNING,
    "a role may make or change PodDisruptionBudgets",
    hint="Drop the permission, or ship the budgets in the bundle.",
    bad="rules: [{apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [create]}]",
    good="rules: [{apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [get, list]}]",
)
def rbac_pdb(bundle: BundleView) -> Iterator[Finding]:
    """A budget that is too strict keeps a cluster from being upgraded."""
    for manifest, number, _ in _granting(bundle, "policy", "poddisruptionbudgets", {"*", "create", "update", "patch"}):
        told = f"the {manifest.kind} may make or change PodDisruptionBudgets"
        yield Finding(told, manifest.path, ("rules", number), manifest.object_name)


@rule(
    "OBJECT-RBAC-SCC",
    VALIDATOR,
    Severity.ERROR,
    "a role may change the SecurityContextConstraints that OpenShift comes with",
    hint="Ship constraints of your own, and name those.",
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
    """They are what keeps all pods of the cluster in bounds."""
    verbs = {"*", "delete", "update", "patch"}
    for manifest, number, granted in _granting(bundle, "security.openshift.io", "securitycontextconstraints", verbs):
        names = sorted(_DEFAULT_SCCS.intersection(items(granted.get("resourceNames"))))
        if names:
            told = f"the {manifest.kind} may change the SecurityContextConstraints {', '.join(names)}"
            yield Finding(told, manifest.path, ("rules", number), manifest.object_name)


@rule(
    "ANNOTATION-KEY-CASE",
    "operatorgroup",
    Severity.ERROR,
    "the key of an annotation has capitals in other places than it should",
    hint="Write the key exactly as it is known.",
    bad="annotations: {olm.providedapis: Demo.v1.example.com}",
    good="annotations: {olm.providedAPIs: Demo.v1.example.com}",
)
def operator_group_key_case(bundle: BundleView) -> Iterator[Finding]:
    """Case counts in keys: one that differs in case alone is another key, which nobody looks at."""
    for manifest in bundle.manifests:
        if manifest.kind == "OperatorGroup" and manifest.api_version in _OPERATOR_GROUPS:
            for key, known in misspelt_keys(mapping(manifest.metadata.get("annotations"))):
                told = f"the annotation {key} must be written {known}"
                yield Finding(told, manifest.path, ("metadata", "annotations", key), manifest.object_name)
