"""Rules of the validators ``object``, on objects that can harm a cluster, and ``operatorgroup``.

The references' command never reaches their object validator; here it looks at the manifests.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from opmkit.bundle.api_types.decode import Decoded, decode_struct, format_path
from opmkit.bundle.api_types.scalars import DecodeMode
from opmkit.bundle.api_types.tables import OTHER_KINDS
from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.bundle_view import items, mapping
from opmkit.bundle.validation.rule import Dialect, Fault, rule
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
            if not typed.mismatches or bundle.dialect is Dialect.OPMKIT:
                yield manifest, typed.value


@rule(
    "OBJECT-DECODE",
    VALIDATOR,
    Severity.ERROR,
    "an object has a field of a wrong type",
    remedy="Write the field in the type that the API has for it.",
    bad="kind: PriorityClass\nglobalDefault: 'false'",
    good="kind: PriorityClass\nglobalDefault: false",
)
def decode(bundle: BundleView) -> Iterator[Fault]:
    """A cluster would not take the object. The references tell the first such field of an object only."""
    for manifest in bundle.manifests:
        if manifest.kind in OTHER_KINDS:
            faults = _typed(manifest).mismatches
            for fault in faults if bundle.dialect is Dialect.OPMKIT else faults[:1]:
                told = f"{format_path(fault.path)} {fault.problem}"
                yield Fault(told, manifest.path, fault.path, manifest.object_name, fault.hint)


def _amount(value: object) -> int | None:
    """The number in 5, "5" or "5%"."""
    match = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    return int(match.group(1)) if match else value if isinstance(value, int) else None


@rule(
    "OBJECT-PDB-MAX",
    VALIDATOR,
    Severity.ERROR,
    "a PodDisruptionBudget never lets a pod be evicted",
    remedy="Set spec.maxUnavailable to 1 or more, or to a percentage above 0%.",
    bad="kind: PodDisruptionBudget\nspec: {maxUnavailable: 0}",
    good="kind: PodDisruptionBudget\nspec: {maxUnavailable: 1}",
)
def pdb_max(bundle: BundleView) -> Iterator[Fault]:
    """Such a budget keeps nodes from being drained, and so a cluster from being upgraded.

    The references take every percentage for 0.
    """
    for manifest, value in _objects(bundle, _PDB):
        limit = mapping(value.get("spec")).get("maxUnavailable")
        none = isinstance(limit, str) or limit == 0
        if _amount(limit) == 0 if bundle.dialect is Dialect.OPMKIT else none:
            told = f"spec.maxUnavailable is {limit!r}, so that no pod may be evicted"
            yield Fault(told, manifest.path, ("spec", "maxUnavailable"), manifest.object_name)


@rule(
    "OBJECT-PDB-MIN",
    VALIDATOR,
    Severity.ERROR,
    "a PodDisruptionBudget wants all pods to run at any time",
    remedy="Set spec.minAvailable to less than 100%.",
    bad="kind: PodDisruptionBudget\nspec: {minAvailable: 100%}",
    good="kind: PodDisruptionBudget\nspec: {minAvailable: 50%}",
)
def pdb_min(bundle: BundleView) -> Iterator[Fault]:
    """Such a budget keeps nodes from being drained, and so a cluster from being upgraded.

    The references pass percentages above 100%.
    """
    for manifest, value in _objects(bundle, _PDB):
        limit = mapping(value.get("spec")).get("minAvailable")
        is_share = isinstance(limit, str) and limit.endswith("%")
        if limit == "100%" or (is_share and bundle.dialect is Dialect.OPMKIT and (_amount(limit) or 0) >= 100):
            told = f"spec.minAvailable is {limit!r}, so that no pod may be evicted"
            yield Fault(told, manifest.path, ("spec", "minAvailable"), manifest.object_name)


@rule(
    "OBJECT-PC-GLOBAL",
    VALIDATOR,
    Severity.ERROR,
    "a PriorityClass sets the priority of all pods of the cluster",
    remedy="Set globalDefault to false, and name the class in the pods that are to have it.",
    bad="kind: PriorityClass\nglobalDefault: true",
    good="kind: PriorityClass\nglobalDefault: false",
)
def priority_class(bundle: BundleView) -> Iterator[Fault]:
    """The priority of pods that ask for none is for whoever runs the cluster to say."""
    for manifest, value in _objects(bundle, _PRIORITY_CLASS):
        if value.get("globalDefault") is True:
            yield Fault("globalDefault is true", manifest.path, ("globalDefault",), manifest.object_name)


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
    remedy="Drop the permission, or ship the budgets in the bundle.",
    bad="rules: [{apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [create]}]",
    good="rules: [{apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [get, list]}]",
)
def rbac_pdb(bundle: BundleView) -> Iterator[Fault]:
    """A budget that is too strict keeps a cluster from being upgraded."""
    for manifest, number, _ in _granting(bundle, "policy", "poddisruptionbudgets", {"*", "create", "update", "patch"}):
        told = f"the {manifest.kind} may make or change PodDisruptionBudgets"
        yield Fault(told, manifest.path, ("rules", number), manifest.object_name)


@rule(
    "OBJECT-RBAC-SCC",
    VALIDATOR,
    Severity.ERROR,
    "a role may change the SecurityContextConstraints that OpenShift comes with",
    remedy="Ship constraints of your own, and name those.",
    bad=(
        "rules: [{apiGroups: [security.openshift.io], resources: [securitycontextconstraints], "
        "resourceNames: [privileged], verbs: [update]}]"
    ),
    good=(
        "rules: [{apiGroups: [security.openshift.io], resources: [securitycontextconstraints], "
        "resourceNames: [privileged], verbs: [use]}]"
    ),
)
def rbac_scc(bundle: BundleView) -> Iterator[Fault]:
    """They are what keeps all pods of the cluster in bounds."""
    verbs = {"*", "delete", "update", "patch"}
    for manifest, number, granted in _granting(bundle, "security.openshift.io", "securitycontextconstraints", verbs):
        names = sorted(_DEFAULT_SCCS.intersection(items(granted.get("resourceNames"))))
        if names:
            told = f"the {manifest.kind} may change the SecurityContextConstraints {', '.join(names)}"
            yield Fault(told, manifest.path, ("rules", number), manifest.object_name)


@rule(
    "ANNOTATION-KEY-CASE",
    "operatorgroup",
    Severity.ERROR,
    "the key of an annotation has capitals in other places than it should",
    remedy="Write the key exactly as it is known.",
    bad="annotations: {olm.providedapis: Demo.v1.example.com}",
    good="annotations: {olm.providedAPIs: Demo.v1.example.com}",
)
def operator_group_key_case(bundle: BundleView) -> Iterator[Fault]:
    """Case counts in keys: one that differs in case alone is another key, which nobody looks at."""
    for manifest in bundle.manifests:
        if manifest.kind == "OperatorGroup" and manifest.api_version in _OPERATOR_GROUPS:
            for key, known in misspelt_keys(mapping(manifest.metadata.get("annotations"))):
                told = f"the annotation {key} must be written {known}"
                yield Fault(told, manifest.path, ("metadata", "annotations", key), manifest.object_name)
