"""Rules of the validator ``alpha-deprecated-apis``: APIs that later versions of Kubernetes no longer have.

After the Deprecated API Migration Guide of the Kubernetes documentation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from opmkit.bundle.api_types.scalars import DecodeMode
from opmkit.bundle.field_path import format_path
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.lenient import items, mapping
from opmkit.bundle.validation.compat import ALL, OPMKIT_ONLY, Compat
from opmkit.bundle.validation.crd_view import V1BETA1
from opmkit.bundle.validation.csv_view import Csv, csv_check
from opmkit.bundle.validation.rule import Rule, rule
from opmkit.bundle.validation.typed_manifests import decode_csv
from opmkit.bundle.versions import tolerant_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from opmkit.bundle.field_path import FieldPath
    from opmkit.bundle.validation.bundle_view import BundleView

VALIDATOR = "alpha-deprecated-apis"
CSV_API = "operators.coreos.com/v1alpha1"
_MIN_KUBE_VERSION: FieldPath = ("spec", "minKubeVersion")
_DESCRIPTIONS: FieldPath = ("spec", "customresourcedefinitions")
_INSTALL: FieldPath = ("spec", "install", "spec")

Uses: TypeAlias = "dict[str, list[tuple[str, str, FieldPath]]]"
"""Kinds, or resources, with the names of the objects that are of them, and the file and path of each."""

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
"""The APIs by the version that removed them: apiVersion and kinds."""

_GONE = {("policy", "podsecuritypolicies")}
_MOVED = {
    ("autoscaling", "horizontalpodautoscalers"),
    ("batch", "cronjobs"),
    ("discovery.k8s.io", "endpointslices"),
    ("events.k8s.io", "events"),
    ("node.k8s.io", "runtimeclasses"),
    ("policy", "poddisruptionbudgets"),
}
"""Resources that another version of their group still has, which a permission does not tell apart."""


@rule(
    "DEPAPI-OPTION-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "the option k8s-version is no version",
    hint="Give a version of Kubernetes, such as k8s-version=1.27.",
    bad="k8s-version=latest",
    good="k8s-version=1.27",
)
def option_invalid(bundle: BundleView) -> Iterator[Finding]:
    """The option says for which version of Kubernetes the bundle is meant."""
    csv, text = Csv.from_bundle(bundle), bundle.options.k8s_version
    if csv is not None and text:
        try:
            tolerant_version(text)
        except ValueError as error:
            yield Finding(f"the option k8s-version is no version: {error}", subject=csv.name)


@rule(
    "DEPAPI-MINKUBE-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "spec.minKubeVersion can't be compared with versions of Kubernetes",
    hint="Write major, minor and patch, without a v: 1.27.0.",
    bad="spec: {minKubeVersion: latest}",
    good="spec: {minKubeVersion: 1.27.0}",
)
@csv_check
def min_kube_invalid(csv: Csv) -> Iterator[Finding]:
    """From it follows which removed APIs the bundle will meet."""
    if text := csv.spec.get("minKubeVersion"):
        try:
            tolerant_version(text)
        except ValueError as error:
            yield Finding(f"spec.minKubeVersion is no version: {error}", path=_MIN_KUBE_VERSION, subject=csv.name)


def _removal(version: str, newer: str, *, compat: frozenset[Compat] = ALL) -> Rule:
    """The rule for what a version removed; ``newer`` is an example of what takes the place of an API."""
    api_version, kinds = next(iter(REMOVED[version].items()))
    kind = kinds.split()[0]

    @rule(
        f"DEPAPI-{version}",
        VALIDATOR,
        Severity.WARNING,
        f"the bundle uses APIs that Kubernetes {version} removed",
        hint="Write the objects in a version of their API that is still served.",
        bad=f"apiVersion: {api_version}\nkind: {kind}",
        good=f"apiVersion: {newer}\nkind: {kind}",
        compat=compat,
        variable_severity=True,
    )
    def removal(bundle: BundleView) -> Iterator[Finding]:
        """A cluster of that version, or a later one, does not take the bundle.

        It is an error if the bundle is meant for such a cluster: if spec.minKubeVersion, or the option k8s-version, is
        that version or a later one.
        """
        csv = Csv.from_bundle(bundle)
        if csv is None:
            return
        uses = _objects(bundle, version)
        if version == "1.25":
            _add_described(bundle, version, uses)
        if uses:
            severity = Severity.ERROR if _is_meant_for(bundle, csv, version) else Severity.WARNING
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
    """Whether the bundle uses APIs that Kubernetes 1.22 removed."""
    return bool(_objects(bundle, "1.22"))


def describe_removed_in_1_22(bundle: BundleView) -> str:
    """The kinds and names of what uses APIs that Kubernetes 1.22 removed."""
    return _listed(_objects(bundle, "1.22"))


def _is_meant_for(bundle: BundleView, csv: Csv, version: str) -> bool:
    for text in (bundle.options.k8s_version, csv.spec.get("minKubeVersion", "")):
        try:
            if text and tolerant_version(text) >= tolerant_version(version):
                return True
        except ValueError:  # which another rule tells
            continue
    return False


def _finding(csv: Csv, version: str, uses: Uses, severity: Severity) -> Finding:
    """One fault for all uses, at the first of them."""
    _, file, path = next(iter(uses.values()))[0]
    told = f"Kubernetes {version} removed APIs that are used: {_listed(uses)}"
    return Finding(told, file, path, subject=csv.name, severity=severity)


def _listed(uses: Uses) -> str:
    return ", ".join(f"{kind} ({', '.join(name for name, _, _ in uses[kind])})" for kind in sorted(uses))


def _objects(bundle: BundleView, version: str) -> Uses:
    """The objects of removed APIs among the manifests."""
    uses: Uses = {}
    for manifest in bundle.manifests:
        if manifest.kind in REMOVED[version].get(manifest.api_version, "").split():
            uses.setdefault(manifest.kind, []).append((manifest.object_name, manifest.path, ("apiVersion",)))
    return uses


def _convertible(bundle: BundleView) -> Mapping[str, Any]:
    """The ClusterServiceVersion as the references convert it; nothing of one that can't be converted."""
    if bundle.csv is None or bundle.csv.api_version != CSV_API:
        return {}
    typed = decode_csv(bundle.csv.content, bundle.compat, DecodeMode.OBJECT)
    return {} if typed.mismatches and bundle.compat is not Compat.OPMKIT else typed.value


def _each(value: Mapping[str, Any], path: FieldPath) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    found: Any = value
    for step in path:
        found = mapping(found).get(cast("str", step))
    for number, entry in enumerate(items(found)):
        yield (*path, number), mapping(entry)


def _resources(bundle: BundleView) -> Iterator[tuple[FieldPath, str, str]]:
    """The resources that the descriptions of CRDs list: path, apiVersion and kind."""
    value = _convertible(bundle)
    for side in ("owned", "required"):
        for path, description in _each(value, (*_DESCRIPTIONS, side)):
            for number, resource in enumerate(items(description.get("resources"))):
                place = (*path, "resources", number)
                yield place, mapping(resource).get("version", ""), mapping(resource).get("kind", "")


def _add_described(bundle: BundleView, version: str, uses: Uses) -> None:
    for path, api_version, kind in _resources(bundle):
        if bundle.csv is not None and kind in REMOVED[version].get(api_version, "").split():
            uses.setdefault(kind, []).append((format_path(path), bundle.csv.path, path))


def _permissions(bundle: BundleView) -> Uses:
    """The rules of permissions that name resources of removed APIs, unless the descriptions of CRDs list their kind."""
    removed = _GONE | _MOVED if bundle.compat is Compat.OPM_1_26 else _GONE
    listed = {f"{kind.lower()}s" for _, _, kind in _resources(bundle)}
    uses: Uses = {}
    value = _convertible(bundle)
    for side in ("clusterPermissions", "permissions"):
        for path, permission in _each(value, (*_INSTALL, side)):
            for number, granted in enumerate(items(permission.get("rules"))):
                place = (*path, "rules", number)
                for resource in _named(mapping(granted), removed):
                    if bundle.csv is not None and resource not in listed:
                        uses.setdefault(resource, []).append((format_path(place), bundle.csv.path, place))
    return uses


def _named(granted: Mapping[str, Any], removed: set[tuple[str, str]]) -> Iterator[str]:
    groups, resources = items(granted.get("apiGroups")), items(granted.get("resources"))
    return (resource for group, resource in sorted(removed) if group in groups and resource in resources)
