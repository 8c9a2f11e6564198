"""Rules of the validator ``openshift``: the OpenShift versions for which a bundle is released, and its APIs.

The annotation ``com.redhat.openshift.versions`` selects the catalogs that contain the bundle. The property
``olm.maxOpenShiftVersion`` blocks the upgrade of a cluster to later versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.csv_view import Csv
from opmkit.bundle.validation.openshift import MAX_VERSION, VERSIONS, OpenShiftRange, OpenShiftVersion
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.rules.deprecated_apis import REMOVED, describe_removed
from opmkit.bundle.versions import tolerant_version
from opmkit.documents.lenient import items, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.documents.fields import FieldPath

VALIDATOR = "openshift"
_ANNOTATION: FieldPath = ("annotations", VERSIONS)
_CSV_PROPERTIES: FieldPath = ("metadata", "annotations", "olm.properties")
_PROPERTIES_FILE = "metadata/properties.yaml"


def _versions_finding(bundle: BundleView, problem: str) -> Finding:
    file = bundle.annotations_file.path if bundle.annotations_file and VERSIONS in bundle.annotations else ""
    return Finding(f"{VERSIONS} {problem}", file, _ANNOTATION, subject=VERSIONS)


def _versions_text(bundle: BundleView) -> str | None:
    """Return the annotation, or the label of the image, or None."""
    return bundle.annotations.get(VERSIONS, (bundle.image_labels or {}).get(VERSIONS))


def released_versions(bundle: BundleView) -> OpenShiftRange | None:
    """Return the OpenShift versions for which the bundle is released, None if they are absent or invalid."""
    try:
        text = _versions_text(bundle)
        return None if text is None else OpenShiftRange.parse(text)
    except ValueError:
        return None


@rule(
    "OPENSHIFT-VERSIONS-FORMAT",
    VALIDATOR,
    Severity.ERROR,
    "invalid range of OpenShift versions",
    hint="Write v4.12 for this version and later ones, v4.12-v4.15 for a range, or =v4.12 for one version, in quotes.",
    bad=f"annotations: {{{VERSIONS}: '>=4.12'}}",
    good=f"annotations: {{{VERSIONS}: v4.12-v4.15}}",
    compat=OPMKIT_ONLY,
)
def versions_format(bundle: BundleView) -> Iterator[Finding]:
    """Pipelines cannot determine the catalogs for the bundle. Without quotes, 4.10 is the number 4.1."""
    text = _versions_text(bundle)
    if text is None:
        return
    raw = mapping(bundle.annotations_file.object.get("annotations")).get(VERSIONS) if bundle.annotations_file else ""
    try:
        OpenShiftRange.parse(text)
    except ValueError as error:
        yield _versions_finding(bundle, f"is invalid: {error}")
    else:
        if isinstance(raw, float):
            yield _versions_finding(bundle, f"is the number {raw}, not a string")


@rule(
    "OPENSHIFT-VERSIONS-LIST",
    VALIDATOR,
    Severity.WARNING,
    "list of OpenShift versions",
    hint="Write the range v4.12-v4.14, or v4.12 for this version and later ones.",
    bad=f"annotations: {{{VERSIONS}: 'v4.12,v4.14'}}",
    good=f"annotations: {{{VERSIONS}: v4.12-v4.14}}",
    compat=OPMKIT_ONLY,
)
def versions_list(bundle: BundleView) -> Iterator[Finding]:
    """Lists are supported only for v4.5,v4.6; a list means its lowest version and all later ones."""
    versions = released_versions(bundle)
    if versions is not None and versions.unsupported_list:
        yield _versions_finding(bundle, f"is the list {_versions_text(bundle)!r}, which means {versions}")


@rule(
    "OPENSHIFT-VERSIONS-LABEL",
    VALIDATOR,
    Severity.WARNING,
    "label and annotation have different OpenShift versions",
    hint=f"Set the label {VERSIONS} of the image to the value of the annotation.",
    bad=f"LABEL {VERSIONS}=v4.12  # and the annotation is v4.14",
    good=f"LABEL {VERSIONS}=v4.14",
    compat=OPMKIT_ONLY,
)
def versions_label(bundle: BundleView) -> Iterator[Finding]:
    """Some tools read the label of the image, and others read the annotation."""
    label, annotation = (bundle.image_labels or {}).get(VERSIONS), bundle.annotations.get(VERSIONS)
    if label is not None and annotation is not None and label != annotation:
        yield _versions_finding(bundle, f"is {annotation!r} in the annotations, but {label!r} in the label")


@rule(
    "OPENSHIFT-KUBE-VERSION",
    VALIDATOR,
    Severity.ERROR,
    "the bundle is released for OpenShift versions that are too old for it",
    hint=f"Raise the first version in {VERSIONS}, or lower spec.minKubeVersion.",
    bad=f"annotations: {{{VERSIONS}: v4.12}}  # and spec.minKubeVersion is 1.27.0",
    good=f"annotations: {{{VERSIONS}: v4.14}}  # and spec.minKubeVersion is 1.27.0",
    compat=OPMKIT_ONLY,
)
def kube_version(bundle: BundleView) -> Iterator[Finding]:
    """OLM does not install a bundle on a cluster with an older version of Kubernetes than spec.minKubeVersion."""
    csv, versions = Csv.from_bundle(bundle), released_versions(bundle)
    minimum = csv.spec.get("minKubeVersion", "") if csv else ""
    if versions is None or not minimum:
        return
    try:
        parsed = tolerant_version(minimum)
    except ValueError:  # reported by another rule
        return
    kubernetes = versions.first.kubernetes
    if kubernetes is not None and kubernetes < (parsed.major, parsed.minor):
        has = f"OpenShift {versions.first} contains Kubernetes {kubernetes[0]}.{kubernetes[1]}"
        yield _versions_finding(bundle, f"is {versions}, but {has}, and spec.minKubeVersion is {minimum}")


@rule(
    "OPENSHIFT-REMOVED-API",
    VALIDATOR,
    Severity.ERROR,
    "the bundle is released for OpenShift versions that do not have APIs it uses",
    hint=f"Migrate to current APIs, or end {VERSIONS} before this version.",
    bad=f"annotations: {{{VERSIONS}: v4.9}}  # and a manifest is a policy/v1beta1 PodDisruptionBudget",
    good=f"annotations: {{{VERSIONS}: v4.9-v4.11}}",
    compat=OPMKIT_ONLY,
)
def removed_api(bundle: BundleView) -> Iterator[Finding]:
    """The bundle cannot be installed from the catalogs of these versions."""
    versions = released_versions(bundle)
    for kubernetes in REMOVED if versions else ():
        without = OpenShiftVersion.of_kubernetes(kubernetes)
        if versions and versions.reaches(without) and (uses := describe_removed(bundle, kubernetes)):
            yield _versions_finding(bundle, f"is {versions}, but OpenShift {without} lacks APIs of the bundle: {uses}")


def _max_versions(bundle: BundleView) -> list[tuple[Any, str, FieldPath]]:
    """Return value, file and path of each property with the last OpenShift version."""
    csv = Csv.from_bundle(bundle)
    found: list[tuple[Any, str, FieldPath]] = []
    if csv is not None and bundle.csv is not None and (annotation := csv.annotations.get("olm.properties")):
        try:
            entries = items(orjson.loads(annotation))
        except orjson.JSONDecodeError:  # reported by another rule
            entries = []
        found += [(value, bundle.csv.path, _CSV_PROPERTIES) for _, value in _named(entries)]
    if _PROPERTIES_FILE in bundle.files:
        entries = items(bundle.manifest(_PROPERTIES_FILE).object.get("properties"))
        found += [(value, _PROPERTIES_FILE, ("properties", number, "value")) for number, value in _named(entries)]
    return found


def _named(entries: list[Any]) -> list[tuple[int, Any]]:
    return [
        (number, mapping(entry).get("value"))
        for number, entry in enumerate(entries)
        if mapping(entry).get("type") == MAX_VERSION
    ]


def max_version(bundle: BundleView) -> OpenShiftVersion | None:
    """Return the last OpenShift version on which the bundle works, None if it is absent or invalid."""
    try:
        (value, _, _), *_ = _max_versions(bundle) or [("", "", ())]
        return OpenShiftVersion.parse(value) if isinstance(value, str) else None
    except ValueError:
        return None


@rule(
    "OPENSHIFT-MAX-VERSION",
    VALIDATOR,
    Severity.ERROR,
    "invalid or duplicate maximum OpenShift version",
    hint="Write one property with major and minor as a string, such as '4.14'.",
    bad="properties: [{type: olm.maxOpenShiftVersion, value: 4.14}]",
    good="properties: [{type: olm.maxOpenShiftVersion, value: '4.14'}]",
    compat=OPMKIT_ONLY,
)
def max_version_format(bundle: BundleView) -> Iterator[Finding]:
    """While the bundle is installed, OLM blocks every minor upgrade of the cluster if the property is invalid.

    As a number, 4.10 is 4.1.
    """
    properties = _max_versions(bundle)
    for number, (value, file, path) in enumerate(properties):
        problem = _max_version_problem(value) or ("is defined more than once" if number else "")
        if problem:
            yield Finding(f"{MAX_VERSION} {problem}", file, path, subject=MAX_VERSION)


def _max_version_problem(value: object) -> str:
    if not isinstance(value, str):
        return f"is {value!r}, not a string"
    try:
        version = tolerant_version(value)
    except ValueError as error:
        return f"is invalid: {error}"
    has_more = version.patch or version.prerelease or version.build
    return f"is {value!r}, which has more than major and minor" if has_more else ""


@rule(
    "OPENSHIFT-MAX-REMOVED-API",
    VALIDATOR,
    Severity.ERROR,
    "the maximum OpenShift version does not have APIs that the bundle uses",
    hint="Migrate to current APIs, or lower the version.",
    bad="properties: [{type: olm.maxOpenShiftVersion, value: '4.12'}]  # and a policy/v1beta1 PodDisruptionBudget",
    good="properties: [{type: olm.maxOpenShiftVersion, value: '4.11'}]  # and a policy/v1beta1 PodDisruptionBudget",
    compat=OPMKIT_ONLY,
)
def max_removed_api(bundle: BundleView) -> Iterator[Finding]:
    """The cluster can be upgraded to a version on which the operator does not work."""
    last = max_version(bundle)
    for kubernetes in REMOVED if last else ():
        without = OpenShiftVersion.of_kubernetes(kubernetes)
        if last and last >= without and (uses := describe_removed(bundle, kubernetes)):
            _, file, path = _max_versions(bundle)[0]
            message = f"{MAX_VERSION} is {last}, but OpenShift {without} lacks APIs of the bundle: {uses}"
            yield Finding(message, file, path, subject=MAX_VERSION)


@rule(
    "OPENSHIFT-MAX-RANGE",
    VALIDATOR,
    Severity.WARNING,
    "the bundle is released for versions after its maximum OpenShift version",
    hint=f"End {VERSIONS} at the maximum version, or raise the maximum version.",
    bad=f"annotations: {{{VERSIONS}: v4.12}}  # and olm.maxOpenShiftVersion is 4.14",
    good=f"annotations: {{{VERSIONS}: v4.12-v4.14}}  # and olm.maxOpenShiftVersion is 4.14",
    compat=OPMKIT_ONLY,
)
def max_range(bundle: BundleView) -> Iterator[Finding]:
    """The catalogs of later versions contain the bundle, but it does not work there."""
    versions, last = released_versions(bundle), max_version(bundle)
    if versions and last and versions.reaches(OpenShiftVersion(last.major, last.minor + 1)):
        yield _versions_finding(bundle, f"is {versions}, but {MAX_VERSION} is {last}")
