"""Our own rules for what a ClusterServiceVersion installs: deployments, their permissions and images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.kubernetes_names import dns1123_label, dns1123_subdomain
from opmkit.bundle.lenient import items, mapping, members, text
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.csv_view import DEPLOYMENTS, POD, Csv, csv_check
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.field_path import FieldPath
    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.csv_view import Entry

VALIDATOR = "opmkit"
STRATEGY: FieldPath = ("spec", "install", "strategy")
INSTALL: FieldPath = ("spec", "install", "spec")


def _pods(csv: Csv) -> Iterator[tuple[str, FieldPath, Mapping[str, Any]]]:
    """The pods of the deployments: name of the deployment, path of the pod's spec, and that spec."""
    for path, deployment in csv.entries(DEPLOYMENTS):
        pod: object = deployment
        for step in POD:
            pod = mapping(pod).get(str(step))
        yield deployment.get("name", ""), (*path, *POD), mapping(pod)


def _containers(path: FieldPath, pod: Mapping[str, Any]) -> Iterator[Entry]:
    for kind in ("initContainers", "containers"):
        yield from members(pod.get(kind), (*path, kind))


@rule(
    "CSV-STRATEGY-UNKNOWN",
    VALIDATOR,
    Severity.ERROR,
    "the install strategy is none that there is",
    hint="Set spec.install.strategy to deployment.",
    bad="install: {strategy: Deployment}",
    good="install: {strategy: deployment}",
    compat=OPMKIT_ONLY,
)
@csv_check
def strategy_unknown(csv: Csv) -> Iterator[Finding]:
    """There is one strategy; an operator with any other is not installed."""
    strategy = csv.at(STRATEGY)
    if strategy not in (None, "deployment"):
        yield Finding(f"the install strategy is {strategy!r}, not 'deployment'", path=STRATEGY, subject=strategy)


# Deployments


@rule(
    "CSV-DEPLOYMENT-NAME",
    VALIDATOR,
    Severity.ERROR,
    "the name of a deployment is missing, misspelt, or taken twice",
    hint="Give each deployment a name of its own, of lower case letters, digits and '-'.",
    bad="deployments: [{name: manager}, {name: manager}]",
    good="deployments: [{name: manager}, {name: webhook}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def deployment_name(csv: Csv) -> Iterator[Finding]:
    """A cluster takes no object without a name, and of two with one name the second changes the first."""
    seen: set[str] = set()
    for path, deployment in csv.entries(DEPLOYMENTS):
        name = deployment.get("name", "")
        if csv.decoded.has_mismatch(*path) or csv.decoded.has_mismatch(*path, "name"):
            continue
        if problems := dns1123_subdomain(name):
            yield Finding(
                f"the name {name!r} of a deployment is no name: {problems[0]}", path=(*path, "name"), subject=name
            )
        elif name in seen:
            yield Finding(f"there is a deployment {name!r} already", path=(*path, "name"), subject=name)
        seen.add(name)


@rule(
    "CSV-DEPLOYMENT-SELECTOR",
    VALIDATOR,
    Severity.ERROR,
    "a deployment does not select its own pods",
    hint="Repeat the labels of spec.selector.matchLabels in spec.template.metadata.labels.",
    bad="spec: {selector: {matchLabels: {app: demo}}, template: {metadata: {labels: {app: other}}}}",
    good="spec: {selector: {matchLabels: {app: demo}}, template: {metadata: {labels: {app: demo}}}}",
    compat=OPMKIT_ONLY,
)
@csv_check
def deployment_selector(csv: Csv) -> Iterator[Finding]:
    """A cluster refuses a deployment without a selector, or one whose selector does not match its template."""
    for path, deployment in csv.entries(DEPLOYMENTS):
        spec, name = mapping(deployment.get("spec")), deployment.get("name", "")
        selector = mapping(spec.get("selector"))
        labels = mapping(mapping(mapping(spec.get("template")).get("metadata")).get("labels"))
        where = (*path, "spec", "selector")
        if not csv.is_well_typed(path):
            continue
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            yield Finding(f"the deployment {name!r} has no selector", path=where, subject=name)
        elif not _selects(selector, labels):
            yield Finding(f"the selector of the deployment {name!r} does not match its pods", path=where, subject=name)


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    plain = all(labels.get(key) == value for key, value in mapping(selector.get("matchLabels")).items())
    return plain and all(_holds(mapping(one), labels) for one in items(selector.get("matchExpressions")))


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
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
    "a deployment has no containers, or one without a good name or image",
    hint="Give each container a name of its own and an image.",
    bad="containers: [{name: manager, image: ''}]",
    good="containers: [{name: manager, image: 'quay.io/example/demo:1.2.3'}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def deployment_containers(csv: Csv) -> Iterator[Finding]:
    """A cluster refuses such a deployment, and the installation ends there."""
    for deployment, path, pod in _pods(csv):
        if not csv.is_well_typed(path):
            continue
        if not pod.get("containers"):
            where = (*path, "containers")
            yield Finding(f"the deployment {deployment!r} has no containers", path=where, subject=deployment)
        seen: set[str] = set()
        for where, container in _containers(path, pod):
            name = container.get("name", "")
            problems = [f"has no good name: {problem}" for problem in dns1123_label(name)]
            problems += ["has the name of another"] if name in seen else []
            problems += [] if container.get("image") else ["has no image"]
            for problem in problems[:1]:
                yield Finding(
                    f"the container {name!r} of the deployment {deployment!r} {problem}", path=where, subject=name
                )
            seen.add(name)


@rule(
    "CSV-DEPLOYMENT-ACCOUNT",
    VALIDATOR,
    Severity.WARNING,
    "a deployment runs under a service account that nothing makes",
    hint="Add permissions or clusterPermissions for the service account, or correct its name.",
    bad="""permissions: [{serviceAccountName: demo}]
deployments: [{spec: {template: {spec: {serviceAccountName: dmo}}}}]""",
    good="""permissions: [{serviceAccountName: demo}]
deployments: [{spec: {template: {spec: {serviceAccountName: demo}}}}]""",
    compat=OPMKIT_ONLY,
)
def deployment_account(bundle: BundleView) -> Iterator[Finding]:
    """Accounts are made for those that have permissions, and from manifests. Pods of any other account never start."""
    csv = Csv.from_bundle(bundle)
    if csv is None or bundle.csv is None:
        return
    made = {text(entry.get("serviceAccountName")) for _, entry in _permissions(csv)}
    made |= {manifest.object_name for manifest in bundle.manifests if manifest.kind == "ServiceAccount"}
    for deployment, path, pod in _pods(csv):
        name = pod.get("serviceAccountName") or pod.get("serviceAccount") or "default"
        if name not in made | {"default"}:
            message = f"the service account {name!r} of the deployment {deployment!r} has no permissions"
            yield Finding(message, bundle.csv.path, (*path, "serviceAccountName"), subject=name)


# Permissions


def _permissions(csv: Csv) -> Iterator[Entry]:
    for kind in ("permissions", "clusterPermissions"):
        yield from csv.entries((*INSTALL, kind))


@rule(
    "CSV-PERMISSION-ACCOUNT",
    VALIDATOR,
    Severity.ERROR,
    "permissions are for no service account",
    hint="Set serviceAccountName to the account of the deployment.",
    bad="permissions: [{serviceAccountName: '', rules: []}]",
    good="permissions: [{serviceAccountName: demo, rules: []}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def permission_account(csv: Csv) -> Iterator[Finding]:
    """The account is made, and bound to the rules, by its name."""
    for path, entry in _permissions(csv):
        name = entry.get("serviceAccountName", "")
        if (problems := dns1123_subdomain(name)) and not csv.decoded.has_mismatch(*path, "serviceAccountName"):
            message = f"the service account {name!r} has no good name: {problems[0]}"
            yield Finding(message, path=(*path, "serviceAccountName"), subject=name)


@rule(
    "CSV-PERMISSION-RULE",
    VALIDATOR,
    Severity.ERROR,
    "a rule of permissions is none that a cluster takes",
    hint="Give it verbs, and apiGroups and resources (or, for the whole cluster, nonResourceURLs).",
    bad="rules: [{apiGroups: [''], resources: [pods]}]",
    good="rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def permission_rule(csv: Csv) -> Iterator[Finding]:
    """A role with such a rule is refused, and the installation ends there."""
    for path, entry in _permissions(csv):
        for where, one in members(entry.get("rules"), (*path, "rules")):
            if not any(finding.path[: len(where)] == where for finding in csv.decoded.mismatches):
                yield from (
                    Finding(f"the rule {problem}", path=where) for problem in _rule_problems(one, "permissions" in path)
                )


def _rule_problems(one: Mapping[str, Any], namespaced: bool) -> Iterator[str]:
    if not one.get("verbs"):
        yield "has no verbs"
    if one.get("nonResourceURLs"):
        if namespaced:
            yield "has nonResourceURLs, which only clusterPermissions may have"
        elif one.get("resources") or one.get("apiGroups"):
            yield "has both resources and nonResourceURLs"
    elif not one.get("apiGroups"):
        yield "has no apiGroups ('' is the core group)"
    elif not one.get("resources"):
        yield "has no resources"


# Images

RELATED_IMAGES: FieldPath = ("spec", "relatedImages")


@rule(
    "CSV-IMAGE-NOT-RELATED",
    VALIDATOR,
    Severity.WARNING,
    "an image that is run is not among the related images",
    hint="Add the image to spec.relatedImages, exactly as the container names it.",
    bad="""relatedImages: [{name: db, image: 'quay.io/example/db:1'}]
containers: [{image: 'quay.io/example/demo:1'}]""",
    good="""relatedImages: [{name: demo, image: 'quay.io/example/demo:1'}]
containers: [{image: 'quay.io/example/demo:1'}]""",
    compat=OPMKIT_ONLY,
)
@csv_check
def image_not_related(csv: Csv) -> Iterator[Finding]:
    """Related images are copied for clusters without a way to the internet; this one is missing there.

    A ClusterServiceVersion without related images is not looked at.
    """
    related = {entry.get("image") for _, entry in csv.entries(RELATED_IMAGES)}
    for _, path, pod in _pods(csv) if related else ():
        for where, container in _containers(path, pod):
            image = container.get("image")
            if image and image not in related:
                yield Finding(
                    f"the image {image} is not among spec.relatedImages", path=(*where, "image"), subject=image
                )


@rule(
    "CSV-IMAGE-UNPINNED",
    VALIDATOR,
    Severity.WARNING,
    "some related images have digests and others have not",
    hint="Name all related images by digest.",
    bad="relatedImages: [{image: 'quay.io/example/demo@sha256:…'}, {image: 'quay.io/example/db:latest'}]",
    good="relatedImages: [{image: 'quay.io/example/demo@sha256:…'}, {image: 'quay.io/example/db@sha256:…'}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def image_unpinned(csv: Csv) -> Iterator[Finding]:
    """Mirrors for clusters without a way to the internet find images by digest; those by tag stay unreachable there."""
    related = [(path, entry["image"]) for path, entry in csv.entries(RELATED_IMAGES) if entry.get("image")]
    if any("@" in image for _, image in related):
        for path, image in related:
            if "@" not in image:
                yield Finding(
                    f"the related image {image} has no digest, others have", path=(*path, "image"), subject=image
                )
