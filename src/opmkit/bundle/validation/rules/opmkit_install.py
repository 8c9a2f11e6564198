"""Rules of the validator ``opmkit``: deployments, permissions and images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.kubernetes_names import dns1123_label, dns1123_subdomain
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.csv_view import DEPLOYMENTS, RELATED_IMAGES, Csv, csv_check
from opmkit.bundle.validation.rule import rule
from opmkit.documents.lenient import items, mapping, members, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.csv_view import Entry
    from opmkit.documents.fields import FieldPath

VALIDATOR = "opmkit"
STRATEGY: FieldPath = ("spec", "install", "strategy")
INSTALL: FieldPath = ("spec", "install", "spec")


def _containers(path: FieldPath, pod: Mapping[str, Any]) -> Iterator[Entry]:
    for kind in ("initContainers", "containers"):
        yield from members(pod.get(kind), (*path, kind))


@rule(
    "CSV-STRATEGY-UNKNOWN",
    VALIDATOR,
    Severity.ERROR,
    "unsupported install strategy",
    hint="Set spec.install.strategy to deployment.",
    bad="install: {strategy: Deployment}",
    good="install: {strategy: deployment}",
    compat=OPMKIT_ONLY,
)
@csv_check
def strategy_unknown(csv: Csv) -> Iterator[Finding]:
    """Only the strategy deployment exists; operators with any other are not installed."""
    strategy = csv.at(STRATEGY)
    if strategy not in (None, "deployment"):
        yield Finding(f"unsupported install strategy {strategy!r}", path=STRATEGY, subject=strategy)


@rule(
    "CSV-DEPLOYMENT-NAME",
    VALIDATOR,
    Severity.ERROR,
    "invalid or duplicate deployment name",
    hint="Give each deployment a unique name of lower case letters, digits and '-'.",
    bad="deployments: [{name: manager}, {name: manager}]",
    good="deployments: [{name: manager}, {name: webhook}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def deployment_name(csv: Csv) -> Iterator[Finding]:
    """Clusters reject objects without a name, and a second deployment of the same name overwrites the first."""
    seen: set[str] = set()
    for path, deployment in csv.entries(DEPLOYMENTS):
        name = deployment.get("name", "")
        if csv.decoded.has_mismatch(*path) or csv.decoded.has_mismatch(*path, "name"):
            continue
        if problems := dns1123_subdomain(name):
            yield Finding(f"invalid deployment name {name!r}: {problems[0]}", path=(*path, "name"), subject=name)
        elif name in seen:
            yield Finding(f"duplicate deployment name {name!r}", path=(*path, "name"), subject=name)
        seen.add(name)


@rule(
    "CSV-DEPLOYMENT-SELECTOR",
    VALIDATOR,
    Severity.ERROR,
    "the selector of a deployment does not match its pods",
    hint="Repeat the labels of spec.selector.matchLabels in spec.template.metadata.labels.",
    bad="spec: {selector: {matchLabels: {app: demo}}, template: {metadata: {labels: {app: other}}}}",
    good="spec: {selector: {matchLabels: {app: demo}}, template: {metadata: {labels: {app: demo}}}}",
    compat=OPMKIT_ONLY,
)
@csv_check
def deployment_selector(csv: Csv) -> Iterator[Finding]:
    """Clusters reject a deployment without a selector, or whose selector does not match the pod template."""
    for path, deployment in csv.entries(DEPLOYMENTS):
        spec, name = mapping(deployment.get("spec")), deployment.get("name", "")
        selector = mapping(spec.get("selector"))
        labels = mapping(mapping(mapping(spec.get("template")).get("metadata")).get("labels"))
        selector_path = (*path, "spec", "selector")
        if not csv.is_well_typed(path):
            continue
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            yield Finding(f"deployment {name!r} has no selector", path=selector_path, subject=name)
        elif not _selects(selector, labels):
            yield Finding(
                f"the selector of deployment {name!r} does not match its pods", path=selector_path, subject=name
            )


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    plain = all(labels.get(key) == value for key, value in mapping(selector.get("matchLabels")).items())
    return plain and all(
        _matches(mapping(expression), labels) for expression in items(selector.get("matchExpressions"))
    )


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values", [])
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False


@rule(
    "CSV-DEPLOYMENT-CONTAINERS",
    VALIDATOR,
    Severity.ERROR,
    "missing or invalid container of a deployment",
    hint="Give each container a unique name and an image.",
    bad="containers: [{name: manager, image: ''}]",
    good="containers: [{name: manager, image: 'quay.io/example/demo:1.2.3'}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def deployment_containers(csv: Csv) -> Iterator[Finding]:
    """Clusters reject the deployment, so the installation fails."""
    for deployment, path, pod in csv.pods:
        if not csv.is_well_typed(path):
            continue
        if not pod.get("containers"):
            containers_path = (*path, "containers")
            yield Finding(f"deployment {deployment!r} has no containers", path=containers_path, subject=deployment)
        seen: set[str] = set()
        for container_path, container in _containers(path, pod):
            name = container.get("name", "")
            problems = [f"has an invalid name: {problem}" for problem in dns1123_label(name)]
            problems += ["has the same name as another"] if name in seen else []
            problems += [] if container.get("image") else ["has no image"]
            for problem in problems[:1]:
                yield Finding(
                    f"container {name!r} of deployment {deployment!r} {problem}", path=container_path, subject=name
                )
            seen.add(name)


@rule(
    "CSV-DEPLOYMENT-ACCOUNT",
    VALIDATOR,
    Severity.WARNING,
    "the service account of a deployment is never created",
    hint="Add permissions or clusterPermissions for the service account, or correct its name.",
    bad="""permissions: [{serviceAccountName: demo}]
deployments: [{spec: {template: {spec: {serviceAccountName: dmo}}}}]""",
    good="""permissions: [{serviceAccountName: demo}]
deployments: [{spec: {template: {spec: {serviceAccountName: demo}}}}]""",
    compat=OPMKIT_ONLY,
)
def deployment_account(bundle: BundleView) -> Iterator[Finding]:
    """OLM creates the service accounts that have permissions and those in manifests. Pods with others never start."""
    csv = Csv.from_bundle(bundle)
    if csv is None or bundle.csv is None:
        return
    created = {text(entry.get("serviceAccountName")) for _, entry in _permissions(csv)}
    created |= {manifest.object_name for manifest in bundle.manifests if manifest.kind == "ServiceAccount"}
    for deployment, path, pod in csv.pods:
        name = pod.get("serviceAccountName") or pod.get("serviceAccount") or "default"
        if name not in created | {"default"}:
            message = f"service account {name!r} of deployment {deployment!r} has no permissions"
            yield Finding(message, bundle.csv.path, (*path, "serviceAccountName"), subject=name)


def _permissions(csv: Csv) -> Iterator[Entry]:
    for kind in ("permissions", "clusterPermissions"):
        yield from csv.entries((*INSTALL, kind))


@rule(
    "CSV-PERMISSION-ACCOUNT",
    VALIDATOR,
    Severity.ERROR,
    "missing or invalid service account of permissions",
    hint="Set serviceAccountName to the account of the deployment.",
    bad="permissions: [{serviceAccountName: '', rules: []}]",
    good="permissions: [{serviceAccountName: demo, rules: []}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def permission_account(csv: Csv) -> Iterator[Finding]:
    """OLM creates a service account of this name and binds it to the rules."""
    for path, entry in _permissions(csv):
        name = entry.get("serviceAccountName", "")
        if (problems := dns1123_subdomain(name)) and not csv.decoded.has_mismatch(*path, "serviceAccountName"):
            message = f"invalid service account name {name!r}: {problems[0]}"
            yield Finding(message, path=(*path, "serviceAccountName"), subject=name)


@rule(
    "CSV-PERMISSION-RULE",
    VALIDATOR,
    Severity.ERROR,
    "invalid rule in permissions",
    hint="Set verbs, and apiGroups and resources (or, in clusterPermissions, nonResourceURLs).",
    bad="rules: [{apiGroups: [''], resources: [pods]}]",
    good="rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def permission_rule(csv: Csv) -> Iterator[Finding]:
    """Clusters reject a role with such a rule, so the installation fails."""
    for path, entry in _permissions(csv):
        for rule_path, policy_rule in members(entry.get("rules"), (*path, "rules")):
            if any(mismatch.path[: len(rule_path)] == rule_path for mismatch in csv.decoded.mismatches):
                continue
            for problem in _rule_problems(policy_rule, is_namespaced="permissions" in path):
                yield Finding(f"the rule {problem}", path=rule_path)


def _rule_problems(policy_rule: Mapping[str, Any], *, is_namespaced: bool) -> Iterator[str]:
    if not policy_rule.get("verbs"):
        yield "has no verbs"
    if policy_rule.get("nonResourceURLs"):
        if is_namespaced:
            yield "has nonResourceURLs, which only clusterPermissions may have"
        elif policy_rule.get("resources") or policy_rule.get("apiGroups"):
            yield "has both resources and nonResourceURLs"
    elif not policy_rule.get("apiGroups"):
        yield "has no apiGroups ('' is the core group)"
    elif not policy_rule.get("resources"):
        yield "has no resources"


@rule(
    "CSV-IMAGE-NOT-RELATED",
    VALIDATOR,
    Severity.WARNING,
    "the image of a container is not among the related images",
    hint="Add the image to spec.relatedImages, with the same reference as in the container.",
    bad="""relatedImages: [{name: db, image: 'quay.io/example/db:1'}]
containers: [{image: 'quay.io/example/demo:1'}]""",
    good="""relatedImages: [{name: demo, image: 'quay.io/example/demo:1'}]
containers: [{image: 'quay.io/example/demo:1'}]""",
    compat=OPMKIT_ONLY,
)
@csv_check
def image_not_related(csv: Csv) -> Iterator[Finding]:
    """Only related images are mirrored for disconnected clusters, so this one is missing there.

    A ClusterServiceVersion without related images is not checked.
    """
    related = {entry.get("image") for _, entry in csv.entries(RELATED_IMAGES)}
    for _, path, pod in csv.pods if related else ():
        for container_path, container in _containers(path, pod):
            image = container.get("image")
            if image and image not in related:
                yield Finding(
                    f"image {image} not found in spec.relatedImages", path=(*container_path, "image"), subject=image
                )


@rule(
    "CSV-IMAGE-UNPINNED",
    VALIDATOR,
    Severity.WARNING,
    "only some related images have digests",
    hint="Name all related images by digest.",
    bad="relatedImages: [{image: 'quay.io/example/demo@sha256:…'}, {image: 'quay.io/example/db:latest'}]",
    good="relatedImages: [{image: 'quay.io/example/demo@sha256:…'}, {image: 'quay.io/example/db@sha256:…'}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def image_unpinned(csv: Csv) -> Iterator[Finding]:
    """Mirrors of disconnected clusters serve images by digest, so images with tags are not available there."""
    related = [(path, entry["image"]) for path, entry in csv.entries(RELATED_IMAGES) if entry.get("image")]
    if any("@" in image for _, image in related):
        for path, image in related:
            if "@" not in image:
                yield Finding(
                    f"related image {image} has no digest, unlike others", path=(*path, "image"), subject=image
                )
