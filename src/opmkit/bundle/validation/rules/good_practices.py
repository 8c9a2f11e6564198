"""Rules of the validator ``good-practices``: recommendations for operators."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opmkit.bundle import labels
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.csv_view import DEPLOYMENTS, Csv, csv_check
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.versions import strict_version
from opmkit.documents.lenient import items, mapping, members

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.documents.fields import FieldPath

VALIDATOR = "good-practices"
NAME: FieldPath = ("metadata", "name")
CHANNEL_NAMES = ("candidate", "stable", "fast")
_DESCRIPTIONS: FieldPath = ("spec", "customresourcedefinitions")
_INSTALL: FieldPath = ("spec", "install", "spec")
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+)?$", re.ASCII)
_ALL = ("*", "[*]")


@rule(
    "GP-NO-DEPLOYMENT",
    VALIDATOR,
    Severity.ERROR,
    "a ClusterServiceVersion has no deployment",
    hint="Add spec.install.spec.deployments with the deployment of the operator.",
    bad="install: {strategy: deployment, spec: {}}",
    good="install: {strategy: deployment, spec: {deployments: [{name: demo, spec: {}}]}}",
)
@csv_check
def no_deployment(csv: Csv) -> Iterator[Finding]:
    """The operator runs in a deployment."""
    if csv.is_unset(*map(str, DEPLOYMENTS)):
        yield Finding("spec.install.spec.deployments is missing", path=DEPLOYMENTS, subject=csv.name)


def _containers(csv: Csv) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """Yield the containers of all deployments, without init containers."""
    for _, path, pod in csv.pods:
        yield from members(pod.get("containers"), (*path, "containers"))


def _requests(container: Mapping[str, Any]) -> Mapping[str, Any] | None:
    requests: Mapping[str, Any] | None = mapping(container.get("resources")).get("requests")
    return requests


@rule(
    "GP-RESOURCE-REQUESTS",
    VALIDATOR,
    Severity.WARNING,
    "a container requests no resources",
    hint="Set resources.requests with cpu and memory.",
    bad="containers: [{name: manager, image: demo}]",
    good="containers: [{name: manager, image: demo, resources: {requests: {cpu: 10m, memory: 64Mi}}}]",
)
@csv_check
def resource_requests(csv: Csv) -> Iterator[Finding]:
    """Without requests, the scheduler does not reserve resources, and namespaces with quotas reject the pod."""
    for path, container in _containers(csv):
        if _requests(container) is None:
            message = f"container {container.get('name', '')!r} requests no resources"
            yield Finding(message, path=path, subject=csv.name)


@rule(
    "GP-RESOURCE-REQUESTS-PARTIAL",
    VALIDATOR,
    Severity.WARNING,
    "a container requests only one of cpu and memory",
    hint="Set both cpu and memory in resources.requests.",
    bad="resources: {requests: {cpu: 10m}}",
    good="resources: {requests: {cpu: 10m, memory: 64Mi}}",
    compat=OPMKIT_ONLY,
)
@csv_check
def resource_requests_partial(csv: Csv) -> Iterator[Finding]:
    """Namespaces with a quota for the other one reject the pod. The Go validators mention this but do not check it."""
    for path, container in _containers(csv):
        requests = _requests(container)
        missing = [name for name in ("cpu", "memory") if requests is not None and not requests.get(name)]
        if missing:
            message = f"container {container.get('name', '')!r} does not request {' or '.join(missing)}"
            yield Finding(message, path=(*path, "resources", "requests"), subject=csv.name)


@rule(
    "GP-CRD-DESCRIPTION",
    VALIDATOR,
    Severity.WARNING,
    "an owned or required CRD has no description",
    hint="Describe the resource in one sentence.",
    bad="owned: [{name: demos.example.com, version: v1, kind: Demo}]",
    good="owned: [{name: demos.example.com, version: v1, kind: Demo, description: A demonstration}]",
)
@csv_check
def crd_description(csv: Csv) -> Iterator[Finding]:
    """Catalogs show the description to users."""
    for side in ("owned", "required"):
        for path, entry in csv.entries((*_DESCRIPTIONS, side)):
            if not entry.get("description") and not csv.decoded.has_mismatch(*path, "description"):
                message = f"{side} CRD {entry.get('name', '')!r} has no description"
                yield Finding(message, path=path, subject=csv.name)


@rule(
    "GP-CHANNEL-NAME",
    VALIDATOR,
    Severity.WARNING,
    "unconventional channel name",
    hint=f"Begin the names of channels with {', '.join(CHANNEL_NAMES[:-1])} or {CHANNEL_NAMES[-1]}.",
    bad=f"annotations: {{{labels.CHANNELS}: alpha}}",
    good=f"annotations: {{{labels.CHANNELS}: 'stable-v1,candidate-v1'}}",
    compat=OPMKIT_ONLY,
)
def channel_name(bundle: BundleView) -> Iterator[Finding]:
    """Channel names indicate the maturity of their versions.

    The Go validators have this rule, but operator-sdk does not pass the annotations to it.
    """
    csv, file = Csv.from_bundle(bundle), bundle.annotations_file
    if csv is None or file is None:
        return
    listed = bundle.annotations.get(labels.CHANNELS, "").split(",")
    names = {name.strip() for name in (*listed, bundle.annotations.get(labels.DEFAULT_CHANNEL, ""))} - {""}
    unconventional = sorted(name for name in names if not name.startswith(CHANNEL_NAMES))
    if unconventional:
        message = f"channels {', '.join(unconventional)} match none of the allowed prefixes: {', '.join(CHANNEL_NAMES)}"
        yield Finding(message, file.path, ("annotations", labels.CHANNELS), subject=csv.name)


@rule(
    "GP-RBAC-CRD",
    VALIDATOR,
    Severity.WARNING,
    "the operator has permission to create CRDs",
    hint="Put the CRDs into the bundle, or depend on the operator that owns them, and remove the permission.",
    bad="rules: [{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: ['*']}]",
    good="rules: [{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, list]}]",
)
@csv_check
def rbac_crd(csv: Csv) -> Iterator[Finding]:
    """OLM does not upgrade CRDs outside of bundles, and they can conflict with those of other operators."""
    for side in ("permissions", "clusterPermissions"):
        for path, permission in csv.entries((*_INSTALL, side)):
            for number, policy_rule in enumerate(items(permission.get("rules"))):
                if _allows_creating_crds(mapping(policy_rule)):
                    message = "the operator has permission to create CustomResourceDefinitions"
                    yield Finding(message, path=(*path, "rules", number), subject=csv.name)
                    return  # like the Go validators, only the first


def _allows_creating_crds(policy_rule: Mapping[str, Any]) -> bool:
    groups, resources, verbs = (items(policy_rule.get(name)) for name in ("apiGroups", "resources", "verbs"))
    return (
        "apiextensions.k8s.io" in groups
        and any(name in resources for name in ("customresourcedefinitions", *_ALL))
        and any(name in verbs for name in ("create", "patch", *_ALL))
    )


@rule(
    "GP-NAME-VERSION",
    VALIDATOR,
    Severity.WARNING,
    "the name of a ClusterServiceVersion does not end in a version",
    hint="Name it PACKAGE.vMAJOR.MINOR.PATCH, such as demo.v1.2.3.",
    bad="metadata: {name: demo.v1.2}",
    good="metadata: {name: demo.v1.2.0}",
)
@csv_check
def name_version(csv: Csv) -> Iterator[Finding]:
    """The version in the name distinguishes the bundles of a package."""
    match = _VERSION.search(csv.name)
    try:
        strict_version(match.group() if match else "")
    except ValueError:
        yield Finding(f"name {csv.name!r} does not end in a semantic version", path=NAME, subject=csv.name)


@rule(
    "GP-NAME-CONVENTION",
    VALIDATOR,
    Severity.WARNING,
    "the name of a ClusterServiceVersion is not PACKAGE.vVERSION",
    hint="Name it PACKAGE.vMAJOR.MINOR.PATCH, such as demo.v1.2.3.",
    bad="metadata: {name: demo-1.2.3}",
    good="metadata: {name: demo.v1.2.3}",
)
@csv_check
def name_convention(csv: Csv) -> Iterator[Finding]:
    """With exactly one ".v", tools can split the name into package and version."""
    parts = len(csv.name.split(".v"))
    if parts != 2:
        yield Finding(f"name {csv.name!r} contains .v {parts - 1} times instead of once", path=NAME, subject=csv.name)
