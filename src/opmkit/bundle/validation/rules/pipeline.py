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

from semver import Version

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.openshift import VERSIONS, OpenShiftVersion
from opmkit.bundle.validation.operator_view import enables_catalogs
from opmkit.bundle.validation.pipeline_yaml import unreadable_for_pipelines
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.rules.deprecated_apis import REMOVED, describe_removed
from opmkit.bundle.validation.rules.operator_hub import CAPABILITIES, CATEGORIES, CATEGORY_NAMES, LEVELS, MEDIA_TYPES
from opmkit.bundle.versions import strict_version, tolerant_version
from opmkit.documents.content import Content
from opmkit.documents.fields import format_path
from opmkit.documents.lenient import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opmkit.bundle.validation.bundle_view import BundleView, ManifestView
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
    for manifest in _yaml_manifests(bundle):
        if manifest.kind == "NetworkPolicy" and manifest.api_version.startswith("networking.k8s.io/"):
            message = f"NetworkPolicy {manifest.object_name} is not allowed in the catalogs"
            yield Finding(message, manifest.path, ("kind",), subject=manifest.object_name)


def _yaml_manifests(bundle: BundleView) -> Iterator[ManifestView]:
    """Yield the files that the pipelines take for manifests."""
    return (file for file in bundle.files_in("manifests") if file.name.endswith((".yaml", ".yml")))


@rule(
    "PIPELINE-YAML",
    VALIDATOR,
    Severity.ERROR,
    "a file that the pipelines cannot read",
    hint="Put each document into a separate file in UTF-8, without a separator after it, and write '=' in quotes.",
    bad="enum: [=, '!=']",
    good="enum: ['=', '!=']",
    compat=OPMKIT_ONLY,
)
def yaml_files(bundle: BundleView) -> Iterator[Finding]:
    """The static tests of the pipelines read files as one YAML document with PyYAML, and end with an error.

    OLM reads the first document of a file, and takes = for a string.
    """
    annotations = (file for file in bundle.files_in("metadata") if file.name in _ANNOTATION_FILES)
    for file in (*_yaml_manifests(bundle), *annotations):
        unreadable = None if file.content.error else unreadable_for_pipelines(file.content.raw)
        if unreadable is not None:
            problem, line = unreadable
            yield Finding(f"{file.name} has {problem}", file.path, line=line)


@rule(
    "PIPELINE-KUBE-VERSION",
    COMMUNITY,
    Severity.ERROR,
    "minimum Kubernetes version without OpenShift versions that contain it",
    hint=f"Add the annotation {VERSIONS} with the first version that contains this Kubernetes version.",
    bad=f"spec: {{minKubeVersion: 1.27.0}}  # without the annotation {VERSIONS}",
    good=f"annotations: {{{VERSIONS}: v4.14}}  # OpenShift 4.14 contains Kubernetes 1.27",
    compat=OPMKIT_ONLY,
    variable_severity=True,
)
def kube_version(bundle: BundleView) -> Iterator[Finding]:
    """Without the annotation, the bundle is released for all versions of OpenShift, also older ones.

    The pipeline compares the versions of OpenShift that it knows, which end with 4.17. It does not check operators with
    fbc.enabled in ci.yaml. A comma-separated list of other versions than 4.5 and 4.6 is a warning.
    """
    minimum = bundle.spec.get("minKubeVersion")
    if bundle.csv is None or not minimum or enables_catalogs(mapping(Content.read(bundle.operator_config).value)):
        return
    try:
        kubernetes = _pipeline_version(minimum)
    except ValueError:
        yield _kube_finding(bundle, f"spec.minKubeVersion {str(minimum)[:_SHOWN]!r} is not a version in quotes")
        return
    selector = _raw_annotation(bundle, VERSIONS)
    if not selector:
        yield _kube_finding(bundle, f"spec.minKubeVersion is {minimum}, but the annotation {VERSIONS} is missing")
        return
    try:
        versions = _selected_versions(selector)
    except ValueError:
        message = f"the annotation {VERSIONS} is {str(selector)[:_SHOWN]!r}, not a range of versions in quotes"
        yield _kube_finding(bundle, message)
        return
    if "," in selector and "-" not in selector and set(map(_openshift, selector.split(","))) != set(_LEGACY):
        message = f"the annotation {VERSIONS} is {selector!r}; only v4.5,v4.6 is a list"
        yield _kube_finding(bundle, message, Severity.WARNING)
    older = [version for version in versions if (*(version.kubernetes or ()), 0) < kubernetes]
    if older:
        listed = ", ".join(map(str, older))
        message = f"spec.minKubeVersion is {minimum}, but the bundle is released for OpenShift {listed}"
        yield _kube_finding(bundle, message)


def _kube_finding(bundle: BundleView, message: str, severity: Severity = Severity.ERROR) -> Finding:
    path = bundle.csv.path if bundle.csv else ""
    return Finding(message, path, ("spec", "minKubeVersion"), subject=VERSIONS, severity=severity)


def _raw_annotation(bundle: BundleView, key: str) -> Any:
    """Return the value of an annotation of the bundle, which can have any type."""
    file = bundle.annotations_file
    return mapping(file.object.get("annotations")).get(key) if file else None


_ANNOTATION_FILES = ("annotations.yaml", "annotations.yml")
_LEGACY = (OpenShiftVersion(4, 5), OpenShiftVersion(4, 6))
_KNOWN = tuple(OpenShiftVersion(4, minor) for minor in range(1, 18))
"""The versions of OpenShift that the pipeline knows."""


def _pipeline_version(value: Any) -> tuple[int, int, int]:
    """Parse a version that may lack minor and patch version, and ignore its prerelease; raise ValueError."""
    if not isinstance(value, str):
        raise ValueError("not a string")
    version = Version.parse(value.strip(), optional_minor_and_patch=True)
    return version.major, version.minor, version.patch


def _openshift(value: Any) -> OpenShiftVersion:
    if not isinstance(value, str):
        raise ValueError("not a string")
    return OpenShiftVersion(*_pipeline_version(value.strip().removeprefix("v"))[:2])


def _selected_versions(selector: Any) -> list[OpenShiftVersion]:
    """Return the known versions of OpenShift that the annotation selects; raise ValueError."""
    if not isinstance(selector, str):
        raise ValueError("not a string")
    selector = selector.strip()
    if "-" in selector:
        first, last = map(_openshift, selector.split("-", 1))
        return [version for version in _KNOWN if first <= version <= last]
    if selector.startswith("=") and "," not in selector:
        wanted = _openshift(selector[1:])
        return [max((version for version in _KNOWN if version <= wanted), default=_KNOWN[0])]
    return [version for version in _KNOWN if version >= min(map(_openshift, selector.split(",")))]


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


_REDUCED = re.compile(r"(\d{4})(?:-(\d{2}))?|(\d{4})-?(\d{3})", re.ASCII)
"""Dates of ISO 8601 without a day or month, or with the day of the year."""


def _is_time(value: Any) -> bool:
    """Return whether a value is a date or time of ISO 8601."""
    text = str(value)
    try:
        return bool(datetime.fromisoformat(re.sub(r"(?<=^.{11})24(:?00)", r"00\1", text)))
    except ValueError:
        return _is_reduced_date(text)


def _is_reduced_date(text: str) -> bool:
    match = _REDUCED.fullmatch(text)
    if match is None:
        return False
    from calendar import isleap  # slow to import: locale

    year, month, day = int(match[1] or match[3]), int(match[2] or 1), int(match[4] or 1)
    return year > 0 and 1 <= month <= 12 and 1 <= day <= 365 + isleap(year)


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


_CATEGORIES = frozenset({*CATEGORY_NAMES, "Drivers and plugins"})


def _is_categories(value: Any) -> bool:
    return all(category.strip() in _CATEGORIES for category in str(value).split(","))


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
    CAPABILITIES: (lambda value: value in LEVELS, "a capability level"),
    CATEGORIES: (_is_categories, "a list of categories that the pipeline knows"),
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
    return (finding for finding in _field_findings(bundle, _RECOMMENDED) if not _is_plain_time(bundle, finding.path))


def _is_plain_time(bundle: BundleView, path: FieldPath) -> bool:
    """Return whether ``createdAt`` is a time of YAML without quotes, such as 2026-1-31."""
    if bundle.csv is None or path != _CREATED:
        return False
    line, _ = bundle.csv.content.locate(path)
    value = text(bundle.csv_annotations.get("createdAt"))
    return bool(_YAML_TIME.fullmatch(value)) and bundle.csv.content.excerpt(line).endswith(f": {value}")


_CREATED: FieldPath = (*_ANNOTATIONS, "createdAt")
_YAML_TIME = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d(?:\.\d*)?(?:[ \t]*(?:Z|[-+]\d\d?(?::?\d\d)?))?", re.ASCII
)


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
