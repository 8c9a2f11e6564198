"""Rules of the validator ``alpha-deprecated-apis``: APIs that were removed from Kubernetes.

The list follows the Deprecated API Migration Guide of the Kubernetes documentation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from opmkit.bundle.api_types.decode import DecodeMode
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import ALL, OPMKIT_ONLY, Compat
from opmkit.bundle.validation.crd_view import V1BETA1
from opmkit.bundle.validation.csv_view import Csv, csv_check
from opmkit.bundle.validation.loading import decode_csv
from opmkit.bundle.validation.rule import Rule, rule
from opmkit.bundle.versions import tolerant_version
from opmkit.documents.fields import format_path
from opmkit.documents.lenient import items, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.documents.fields import FieldPath

VALIDATOR = "alpha-deprecated-apis"
CSV_API = "operators.coreos.com/v1alpha1"
_MIN_KUBE_VERSION: FieldPath = ("spec", "minKubeVersion")
_DESCRIPTIONS: FieldPath = ("spec", "customresourcedefinitions")
_INSTALL: FieldPath = ("spec", "install", "spec")

Uses: TypeAlias = "dict[str, list[tuple[str, str, FieldPath]]]"
"""Name, file and path of each use, by kind or resource."""

REMOVED: Mapping[str, Mapping[str, str]] = {
    "1.22": {
        "admissionregistration.k8s.io/v1beta1": "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
        V1BETA1: "CustomResourceDefinition",
        "apiregistration.k8s.io/v1beta1": "APIService",
        "authentication.k8s.io/v1beta1": "TokenReview",
        "authorization.k8s.io/v1beta1": "LocalSubjectAccessReview SelfSubjectAccessReview SubjectAccessReview",
        "certificates.k8s.io/v1beta1": "CertificateSigningRequest",
        "coordination.k8s.io/v1beta1": "Lease",
        "extensions/v1beta1": "Ingress",
        "networking.k8s.io/v1beta1": "Ingress IngressClass",
        "rbac.authorization.k8s.io/v1beta1": "ClusterRole ClusterRoleBinding Role RoleBinding",
        "scheduling.k8s.io/v1beta1": "PriorityClass",
        "storage.k8s.io/v1beta1": "CSIDriver CSINode StorageClass VolumeAttachment",
    },
    "1.25": {
        "autoscaling/v2beta1": "HorizontalPodAutoscaler",
        "batch/v1beta1": "CronJob",
        "discovery.k8s.io/v1beta1": "EndpointSlice",
        "events.k8s.io/v1beta1": "Event",
        "node.k8s.io/v1beta1": "RuntimeClass",
        "policy/v1beta1": "PodDisruptionBudget PodSecurityPolicy",
    },
    "1.26": {"autoscaling/v2beta2": "HorizontalPodAutoscaler"},
    "1.27": {"storage.k8s.io/v1beta1": "CSIStorageCapacity"},
    "1.29": {"flowcontrol.apiserver.k8s.io/v1beta2": "FlowSchema PriorityLevelConfiguration"},
    "1.32": {"flowcontrol.apiserver.k8s.io/v1beta3": "FlowSchema PriorityLevelConfiguration"},
}
"""The kinds by the Kubernetes version that removed them and by their apiVersion."""

_GONE = {("policy", "podsecuritypolicies")}
_MOVED = {
    ("autoscaling", "horizontalpodautoscalers"),
    ("batch", "cronjobs"),
    ("discovery.k8s.io", "endpointslices"),
    ("events.k8s.io", "events"),
    ("node.k8s.io", "runtimeclasses"),
    ("policy", "poddisruptionbudgets"),
}
"""Resources that exist in another version of their group; permissions do not name the version."""


@rule(
    "DEPAPI-OPTION-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "invalid option k8s-version",
    hint="Set a version of Kubernetes, such as k8s-version=1.27.",
    bad="k8s-version=latest",
    good="k8s-version=1.27",
)
def option_invalid(bundle: BundleView) -> Iterator[Finding]:
    """The option is the version of Kubernetes on which the bundle will be installed."""
    csv, text = Csv.from_bundle(bundle), bundle.options.k8s_version
    if csv is not None and text:
        try:
            tolerant_version(text)
        except ValueError as error:
            yield Finding(f"invalid option k8s-version: {error}", subject=csv.name)


@rule(
    "DEPAPI-MINKUBE-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "invalid version in spec.minKubeVersion",
    hint="Write major, minor and patch, without a v: 1.27.0.",
    bad="spec: {minKubeVersion: latest}",
    good="spec: {minKubeVersion: 1.27.0}",
)
@csv_check
def min_kube_invalid(csv: Csv) -> Iterator[Finding]:
    """The minimum version determines whether removed APIs are errors."""
    if text := csv.spec.get("minKubeVersion"):
        try:
            tolerant_version(text)
        except ValueError as error:
            yield Finding(f"invalid spec.minKubeVersion: {error}", path=_MIN_KUBE_VERSION, subject=csv.name)


def _removal(version: str, newer: str, *, compat: frozenset[Compat] = ALL) -> Rule:
    """Return the rule for the APIs that a version removed; ``newer`` is an apiVersion that replaces one."""
    api_version, kinds = next(iter(REMOVED[version].items()))
    kind = kinds.split()[0]

    @rule(
        f"DEPAPI-{version}",
        VALIDATOR,
        Severity.WARNING,
        f"the bundle uses APIs that Kubernetes {version} removed",
        hint="Migrate the objects to a supported version of their API.",
        bad=f"apiVersion: {api_version}\nkind: {kind}",
        good=f"apiVersion: {newer}\nkind: {kind}",
        compat=compat,
        variable_severity=True,
    )
    def removal(bundle: BundleView) -> Iterator[Finding]:
        """Clusters of this version or later reject the bundle.

        This is an error if spec.minKubeVersion or the option k8s-version is this version or later.
        """
        csv = Csv.from_bundle(bundle)
        if csv is None:
            return
        uses = _objects(bundle, version)
        if version == "1.25":
            _add_described(bundle, version, uses)
        if uses:
            severity = Severity.ERROR if _is_target(bundle, csv, version) else Severity.WARNING
            yield _finding(csv, version, uses, severity)
        if version == "1.25" and (permissions := _permissions(bundle)):
            yield _finding(csv, version, permissions, Severity.WARNING)

    return removal


removed_1_22 = _removal("1.22", "admissionregistration.k8s.io/v1")
removed_1_25 = _removal("1.25", "autoscaling/v2")
removed_1_26 = _removal("1.26", "autoscaling/v2")
removed_1_27 = _removal("1.27", "storage.k8s.io/v1", compat=OPMKIT_ONLY)
removed_1_29 = _removal("1.29", "flowcontrol.apiserver.k8s.io/v1", compat=OPMKIT_ONLY)
removed_1_32 = _removal("1.32", "flowcontrol.apiserver.k8s.io/v1", compat=OPMKIT_ONLY)


def has_removed_in_1_22(bundle: BundleView) -> bool:
    """Return True if the bundle uses APIs that Kubernetes 1.22 removed."""
    return bool(_objects(bundle, "1.22"))


def describe_removed(bundle: BundleView, version: str) -> str:
    """Return kinds and names of the objects that use APIs which a version of Kubernetes removed."""
    return _join(_objects(bundle, version))


def _is_target(bundle: BundleView, csv: Csv, version: str) -> bool:
    for text in (bundle.options.k8s_version, csv.spec.get("minKubeVersion", "")):
        try:
            if text and tolerant_version(text) >= tolerant_version(version):
                return True
        except ValueError:  # reported by another rule
            continue
    return False


def _finding(csv: Csv, version: str, uses: Uses, severity: Severity) -> Finding:
    """Return one finding for all uses, with the location of the first."""
    _, file, path = next(iter(uses.values()))[0]
    message = f"Kubernetes {version} removed APIs that the bundle uses: {_join(uses)}"
    return Finding(message, file, path, subject=csv.name, severity=severity)


def _join(uses: Uses) -> str:
    return ", ".join(f"{kind} ({', '.join(name for name, _, _ in uses[kind])})" for kind in sorted(uses))


def _objects(bundle: BundleView, version: str) -> Uses:
    """Return the manifests that use removed APIs."""
    uses: Uses = {}
    for manifest in bundle.manifests:
        if manifest.kind in REMOVED[version].get(manifest.api_version, "").split():
            uses.setdefault(manifest.kind, []).append((manifest.object_name, manifest.path, ("apiVersion",)))
    return uses


def _unstructured_csv(bundle: BundleView) -> Mapping[str, Any]:
    """Return the ClusterServiceVersion, decoded from an unstructured object as in Go, {} if that fails."""
    if bundle.csv is None or bundle.csv.api_version != CSV_API:
        return {}
    decoded = decode_csv(bundle.csv.content, bundle.compat, DecodeMode.OBJECT)
    return {} if decoded.mismatches and bundle.compat is not Compat.OPMKIT else decoded.value


def _entries(value: Mapping[str, Any], path: FieldPath) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    entries: Any = value
    for step in path:
        entries = mapping(entries).get(cast("str", step))
    for number, entry in enumerate(items(entries)):
        yield (*path, number), mapping(entry)


def _resources(bundle: BundleView) -> Iterator[tuple[FieldPath, str, str]]:
    """Yield path, apiVersion and kind of the resources that the owned and required CRDs list."""
    value = _unstructured_csv(bundle)
    for side in ("owned", "required"):
        for path, description in _entries(value, (*_DESCRIPTIONS, side)):
            for number, resource in enumerate(items(description.get("resources"))):
                item_path = (*path, "resources", number)
                yield item_path, mapping(resource).get("version", ""), mapping(resource).get("kind", "")


def _add_described(bundle: BundleView, version: str, uses: Uses) -> None:
    for path, api_version, kind in _resources(bundle):
        if bundle.csv is not None and kind in REMOVED[version].get(api_version, "").split():
            uses.setdefault(kind, []).append((format_path(path), bundle.csv.path, path))


def _permissions(bundle: BundleView) -> Uses:
    """Return the permissions for resources of removed APIs, except for kinds that the CRDs list as resources."""
    removed = _GONE | _MOVED if bundle.compat is Compat.OPM_1_26 else _GONE
    listed = {f"{kind.lower()}s" for _, _, kind in _resources(bundle)}
    uses: Uses = {}
    value = _unstructured_csv(bundle)
    for side in ("clusterPermissions", "permissions"):
        for path, permission in _entries(value, (*_INSTALL, side)):
            for number, policy_rule in enumerate(items(permission.get("rules"))):
                item_path = (*path, "rules", number)
                for resource in _removed_resources(mapping(policy_rule), removed):
                    if bundle.csv is not None and resource not in listed:
                        uses.setdefault(resource, []).append((format_path(item_path), bundle.csv.path, item_path))
    return uses


def _removed_resources(policy_rule: Mapping[str, Any], removed: set[tuple[str, str]]) -> Iterator[str]:
    groups, resources = items(policy_rule.get("apiGroups")), items(policy_rule.get("resources"))
    return (resource for group, resource in sorted(removed) if group in groups and resource in resources)
