"""Rules of the validators ``pipeline`` and ``community-pipeline``: requirements of Red Hat's operator pipelines.

The first are those of all catalogs, the second those of community-operators-prod. They run on request, and in the
profiles of these catalogs.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from datetime import datetime
from typing import TYPE_CHECKING, Any

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.openshift import VERSIONS
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.rules.deprecated_apis import REMOVED, describe_removed
from opmkit.bundle.validation.rules.operator_hub import CAPABILITIES, CATEGORIES, MEDIA_TYPES
from opmkit.bundle.versions import strict_version, tolerant_version
from opmkit.documents.fields import format_path
from opmkit.documents.lenient import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.documents.fields import FieldPath

VALIDATOR, COMMUNITY = "pipeline", "community-pipeline"
_ANNOTATIONS: FieldPath = ("metadata", "annotations")
_MAX_KUBE = "operatorhub.io/ui-metadata-max-k8s-version"
_SHOWN = 50


@rule(
    "PIPELINE-NETWORK-POLICY",
    VALIDATOR,
    Severity.ERROR,
    "the bundle contains a NetworkPolicy",
    hint="Remove the NetworkPolicy, or let the operator create it.",
    bad="apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy",
    good="# no file with a NetworkPolicy",
    compat=OPMKIT_ONLY,
)
def network_policy(bundle: BundleView) -> Iterator[Finding]:
    """The pipelines reject bundles with a NetworkPolicy, because not all releases of OLM can install it."""
    for manifest in bundle.manifests:
        if manifest.kind == "NetworkPolicy" and manifest.api_version.startswith("networking.k8s.io/"):
            message = f"NetworkPolicy {manifest.object_name} is not allowed in the catalogs"
            yield Finding(message, manifest.path, ("kind",), subject=manifest.object_name)


@rule(
    "PIPELINE-KUBE-VERSION",
    COMMUNITY,
    Severity.ERROR,
    "minimum Kubernetes version without OpenShift versions",
    hint=f"Add the annotation {VERSIONS} with the first version that contains this Kubernetes version.",
    bad=f"spec: {{minKubeVersion: 1.27.0}}  # without the annotation {VERSIONS}",
    good=f"annotations: {{{VERSIONS}: v4.14}}  # OpenShift 4.14 contains Kubernetes 1.27",
    compat=OPMKIT_ONLY,
)
def kube_version(bundle: BundleView) -> Iterator[Finding]:
    """Without the annotation, the bundle is released for all versions of OpenShift, also older ones."""
    minimum = text(bundle.spec.get("minKubeVersion"))
    if bundle.csv and minimum and VERSIONS not in bundle.annotations:
        message = f"spec.minKubeVersion is {minimum}, but the annotation {VERSIONS} is missing"
        yield Finding(message, bundle.csv.path, ("spec", "minKubeVersion"), subject=VERSIONS)


@rule(
    "PIPELINE-MAX-KUBE-VERSION",
    COMMUNITY,
    Severity.ERROR,
    "invalid maximum Kubernetes version",
    hint=f"Set the annotation {_MAX_KUBE} to the last version on which the operator works, such as '1.24'.",
    bad=f"annotations: {{{_MAX_KUBE}: '1.25'}}  # and a manifest is a policy/v1beta1 PodDisruptionBudget",
    good=f"annotations: {{{_MAX_KUBE}: '1.24'}}  # and a manifest is a policy/v1beta1 PodDisruptionBudget",
    compat=OPMKIT_ONLY,
)
def max_kube_version(bundle: BundleView) -> Iterator[Finding]:
    """OperatorHub.io shows this version, and its pipeline installs the operator on it."""
    value = bundle.csv_annotations.get(_MAX_KUBE)
    problem = "" if value is None else _max_kube_problem(bundle, value)
    if bundle.csv and problem:
        path = (*_ANNOTATIONS, _MAX_KUBE)
        yield Finding(f"annotation {_MAX_KUBE} {problem}", bundle.csv.path, path, subject=_MAX_KUBE)


def _max_kube_problem(bundle: BundleView, value: Any) -> str:
    try:
        last = tolerant_version(value if isinstance(value, str) else "")
    except ValueError:
        return f"is {str(value)[:_SHOWN]!r}, not a version in quotes"
    try:
        first = tolerant_version(text(bundle.spec.get("minKubeVersion")) or "0")
    except ValueError:  # reported by another rule
        first = tolerant_version("0")
    if (last.major, last.minor) < (first.major, first.minor):
        return f"is {value}, lower than spec.minKubeVersion {first}"
    for removal in REMOVED:
        if tolerant_version(removal) <= last and (uses := describe_removed(bundle, removal)):
            return f"is {value}, but Kubernetes {removal} removed APIs of the bundle: {uses}"
    return ""


def _matches(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> Callable[[Any], bool]:
    compiled = re.compile(pattern, flags)
    return lambda value: not isinstance(value, dict | list) and bool(compiled.match(str(value)))


def _is_time(value: Any) -> bool:
    try:
        return bool(datetime.fromisoformat(str(value)))
    except ValueError:
        return False


def _is_version(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(strict_version(value))
    except ValueError:
        return False


def _is_icon(value: Any) -> bool:
    return isinstance(value, dict) and value.get("mediatype") in MEDIA_TYPES and _is_base64(value.get("base64data"))


def _is_base64(value: Any) -> bool:
    data = "".join(value.split()) if isinstance(value, str) else ""
    try:
        return len(data) >= 4 and bool(b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False


def _all(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check of a list that is not empty."""
    return lambda value: bool(items(value)) and all(map(check, value))


def _has_texts(*names: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(isinstance(value.get(name), str) for name in names)


_REQUIRED: Mapping[FieldPath, tuple[Callable[[Any], bool], str]] = {
    ("spec", "displayName"): (_matches(r".{3,50}"), "a name of 3 to 50 characters"),
    ("spec", "description"): (_matches(r".{20,}", re.DOTALL), "a text of at least 20 characters"),
    ("spec", "icon"): (_all(_is_icon), "a list of images with base64data and mediatype"),
    ("spec", "version"): (_is_version, "a semantic version"),
    ("spec", "maintainers"): (_all(_has_texts("name", "email")), "a list with name and email"),
    ("spec", "provider", "name"): (_matches(r".{3,}"), "a name of at least 3 characters"),
    ("spec", "links"): (_all(_has_texts("name", "url")), "a list with name and url"),
}
"""Fields that the pipeline requires: check, and the expected value."""

_RECOMMENDED: Mapping[FieldPath, tuple[Callable[[Any], bool], str]] = {
    CAPABILITIES: (_matches(r".+"), "a capability level"),  # other validators check the values of these two
    CATEGORIES: (_matches(r".+"), "a list of categories"),
    (*_ANNOTATIONS, "containerImage"): (_matches(r"([^/]+/)+[^/:]+:.+"), "an image with a tag or digest"),
    (*_ANNOTATIONS, "createdAt"): (_is_time, "a time such as 2026-01-31T09:00:00Z"),
    (*_ANNOTATIONS, "repository"): (_matches(r"https?://.+"), "an HTTP URL"),
    (*_ANNOTATIONS, "support"): (_matches(r".{3,}", re.DOTALL), "a text of at least 3 characters"),
    (*_ANNOTATIONS, "description"): (_matches(r".{10,}", re.DOTALL), "a text of at least 10 characters"),
    ("spec", "keywords"): (_all(lambda value: isinstance(value, str)), "a list of strings"),
}
"""Fields whose absence the pipeline reports as a warning."""


@rule(
    "PIPELINE-REQUIRED-FIELD",
    COMMUNITY,
    Severity.ERROR,
    "a field that the community pipeline requires is missing or invalid",
    hint="Set the field in the ClusterServiceVersion.",
    bad="spec: {displayName: Demo, description: a demo}",
    good="spec: {displayName: Demo, description: Makes demos of what an operator can do.}",
    compat=OPMKIT_ONLY,
)
def required_field(bundle: BundleView) -> Iterator[Finding]:
    """The pipeline of community-operators-prod rejects the bundle."""
    return _field_findings(bundle, _REQUIRED)


@rule(
    "PIPELINE-RECOMMENDED-FIELD",
    COMMUNITY,
    Severity.WARNING,
    "a field that the community pipeline recommends is missing or invalid",
    hint="Set the field in the ClusterServiceVersion.",
    bad="annotations: {repository: example/demo}",
    good="annotations: {repository: 'https://github.com/example/demo'}",
    compat=OPMKIT_ONLY,
)
def recommended_field(bundle: BundleView) -> Iterator[Finding]:
    """Consoles show these fields; the pipeline of community-operators-prod reports a warning."""
    return _field_findings(bundle, _RECOMMENDED)


def _field_findings(
    bundle: BundleView, fields: Mapping[FieldPath, tuple[Callable[[Any], bool], str]]
) -> Iterator[Finding]:
    if bundle.csv is None:
        return
    for path, (is_valid, expected) in fields.items():
        value: Any = bundle.csv.object
        for step in path:
            value = mapping(value).get(str(step))
        name = format_path(path)
        if value is None:
            yield Finding(f"{name} is missing: the pipeline expects {expected}", bundle.csv.path, path, subject=name)
        elif not is_valid(value):
            yield Finding(f"{name} is not {expected}", bundle.csv.path, path, subject=name)
