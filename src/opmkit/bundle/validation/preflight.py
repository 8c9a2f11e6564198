"""Checks of operators by openshift-preflight, as far as they need neither a cluster nor Red Hat's catalog of images.

The checks and their results follow openshift-preflight 1.21.0 (internal/policy/operator, internal/bundle) and, for the
images of a ClusterServiceVersion, operator-manifest-tools 0.12 (pkg/pullspec).
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, structs

from opmkit.bundle.finding import Severity
from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.labels import CHANNELS, DEFAULT_CHANNEL, PACKAGE
from opmkit.bundle.validation.csv_view import Csv
from opmkit.bundle.validation.openshift import VERSIONS
from opmkit.bundle.versions import tolerant_version
from opmkit.documents.fields import describe, format_path
from opmkit.documents.lenient import items, mapping, scalar_text, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import BundleView, ManifestView
    from opmkit.documents.fields import FieldPath

LOAD_RULE, METADATA_RULE, ANNOTATIONS_RULE = "PREFLIGHT-LOAD", "PREFLIGHT-METADATA", "PREFLIGHT-ANNOTATIONS"
RELEASE = "1.21.0"
"""The release of openshift-preflight whose checks these are."""
ANNOTATIONS_FILE = "metadata/annotations.yaml"
_MANIFESTS = "manifests/"
_LATEST = tolerant_version("4.22")
_FIRST_MINOR, _LAST_MINOR = 9, 23
"""The minor versions of OpenShift 4 whose version of Kubernetes preflight knows."""
_MANAGER_IMAGES = "RELATED_IMAGE_"
DISCONNECTED = "features.operators.openshift.io/disconnected"
INFRASTRUCTURE = "operators.openshift.io/infrastructure-features"
_FEATURES = "features.operators.openshift.io/"
REQUIRED_FEATURES = tuple(
    f"{_FEATURES}{name}"
    for name in (
        *("disconnected", "fips-compliant", "proxy-aware", "tls-profiles"),
        *("token-auth-aws", "token-auth-azure", "token-auth-gcp"),
    )
)
"""Annotations that each operator must have, with the value true or false."""
OPTIONAL_FEATURES = tuple(f"{_FEATURES}{name}" for name in ("cnf", "cni", "csi"))
"""Annotations that have the value true or false if they are present."""


class CheckName(StrEnum):
    """Names of preflight's checks of operators."""

    DEPLOYABLE = "DeployableByOLM"
    VALID = "ValidateOperatorBundle"
    CERTIFIED_IMAGES = "BundleImageRefsAreCertified"
    SECURITY_CONTEXT = "SecurityContextConstraintsInCSV"
    RELATED_IMAGES = "AllImageRefsInRelatedImages"
    RESTRICTED_NETWORK = "FollowsRestrictedNetworkEnablementGuidelines"
    ANNOTATIONS = "RequiredAnnotations"


class CheckOutcome(StrEnum):
    """Outcomes of a check."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    """The check could not be completed."""
    UNKNOWN = "unknown"
    """The check needs a cluster, or Red Hat's catalog of images."""


class CheckProblem(NamedTuple):
    """A reason for the outcome of a check, in a file and at a path in its object."""

    message: str
    file: str = ""
    path: FieldPath = ()
    hint: str = ""


class CheckResult(Struct, frozen=True):
    """The result of a check.

    Attributes:
        name: Name of the check.
        outcome: Its outcome.
        problems: The reasons, or what to improve although the check passed.
    """

    name: CheckName
    outcome: CheckOutcome
    problems: tuple[CheckProblem, ...] = ()


def enforced_checks(findings: Iterable[Finding]) -> tuple[CheckResult, CheckResult]:
    """Return the results of the checks that certification requires, without the one that needs a cluster.

    Args:
        findings: The findings for a bundle in the profile ``preflight``.
    """
    is_loaded = True
    problems: dict[str, list[CheckProblem]] = {"unreadable": [], "invalid": [], "annotations": []}
    for finding in findings:
        problem = CheckProblem(finding.message, finding.file, finding.path, finding.hint)
        if finding.validator == "load" or finding.rule in (LOAD_RULE, METADATA_RULE):
            problems["unreadable"].append(problem)
            is_loaded = is_loaded and finding.rule == METADATA_RULE
        elif finding.rule == ANNOTATIONS_RULE:
            problems["annotations"].append(problem)
        elif finding.severity is Severity.ERROR:
            problems["invalid"].append(problem)
    unreadable, invalid, annotations = (tuple(found) for found in problems.values())
    valid = _outcome(is_error=bool(unreadable), is_failed=bool(invalid))
    annotated = _outcome(is_error=not is_loaded, is_failed=bool(annotations))
    return (
        CheckResult(CheckName.VALID, valid, unreadable or invalid),
        CheckResult(CheckName.ANNOTATIONS, annotated, annotations if is_loaded else unreadable),
    )


def unreadable(reason: str) -> tuple[CheckResult, CheckResult]:
    """Return the results of `enforced_checks` for a bundle that cannot be read."""
    valid, annotations = (
        CheckResult(name, CheckOutcome.ERROR, (CheckProblem(reason),))
        for name in (CheckName.VALID, CheckName.ANNOTATIONS)
    )
    return valid, annotations


def _outcome(*, is_error: bool, is_failed: bool) -> CheckOutcome:
    if is_error:
        return CheckOutcome.ERROR
    return CheckOutcome.FAILED if is_failed else CheckOutcome.PASSED


def as_extracted(bundle: BundleView) -> BundleView:
    """Return a bundle with the files that preflight extracts from its image, and the options with which it validates.

    The options are the version of Kubernetes in the last version of OpenShift for which the bundle is released.
    """
    files = {path: content for path, content in bundle.files.items() if _is_extracted(path)}
    directories = frozenset(name for name in bundle.directories if name in ("manifests", "metadata"))
    view = replace(bundle, files=files, directories=directories, extracted=True)
    version, _ = _kubernetes_version(view)
    return replace(view, options=structs.replace(view.options, k8s_version=version))


def _is_extracted(path: str) -> bool:
    name = path.removeprefix(_MANIFESTS)
    return path == ANNOTATIONS_FILE or (name != path and "/" not in name)


def load_problems(bundle: BundleView) -> Iterator[CheckProblem]:
    """Yield why none of the checks that load the bundle can be completed, except for its manifests."""
    if not bundle.files.get(ANNOTATIONS_FILE):
        return
    content = bundle.manifest(ANNOTATIONS_FILE).content
    values = mapping(content.value).get("annotations")
    if content.error is not None or not isinstance(content.value, dict | None):
        yield CheckProblem(f"{ANNOTATIONS_FILE} is not a mapping in YAML", ANNOTATIONS_FILE)
    elif not isinstance(values, dict | None):
        yield CheckProblem("annotations is not a mapping", ANNOTATIONS_FILE, ("annotations",))
    for key in (PACKAGE, CHANNELS, DEFAULT_CHANNEL):
        if isinstance(value := mapping(values).get(key), list | dict):
            yield CheckProblem(f"{key} is {describe(value)}, not a string", ANNOTATIONS_FILE, ("annotations", key))


def metadata_problems(bundle: BundleView) -> Iterator[CheckProblem]:
    """Yield why preflight cannot read the annotations of a bundle, or the versions of OpenShift in them."""
    if ANNOTATIONS_FILE not in bundle.files:
        yield CheckProblem(f"{ANNOTATIONS_FILE} does not exist", hint="Add the file; other names are not read.")
        return
    if not bundle.files[ANNOTATIONS_FILE]:
        yield CheckProblem(f"{ANNOTATIONS_FILE} is empty", ANNOTATIONS_FILE)
    _, problem = _kubernetes_version(bundle)
    if problem:
        yield CheckProblem(problem, ANNOTATIONS_FILE, ("annotations", VERSIONS))


def _kubernetes_version(bundle: BundleView) -> tuple[str, str]:
    """Return the version of Kubernetes to validate for, "" for any, and why it cannot be determined."""
    if ANNOTATIONS_FILE not in bundle.files:
        return "", ""
    value = mapping(bundle.manifest(ANNOTATIONS_FILE).object.get("annotations")).get(VERSIONS)
    versions = "" if value is None else scalar_text(value)
    if versions is None:
        return "", f"{VERSIONS} is {describe(value)}, not a string"
    if not versions:
        return "", ""
    try:
        major, minor = _target_version(versions)
    except ValueError as error:
        return "", f"{VERSIONS} is {versions!r}: {error}"
    known = major == 4 and _FIRST_MINOR <= minor <= _LAST_MINOR
    return (f"1.{minor + 13}" if known else ""), ""


def _target_version(value: str) -> tuple[int, int]:
    """Return the last version of OpenShift that an annotation names; for an open range, the latest release.

    Raises:
        ValueError: With the reason, for an invalid range.
    """
    cleaned = re.sub("[v'\"]", "", value)
    if value.startswith("="):
        version = tolerant_version(cleaned.split("=")[1])
    elif len(cleaned) < 2:
        raise ValueError("not a version")
    elif "-" in cleaned:
        last = cleaned.split("-")[1]
        if not last:
            raise ValueError("the range has no end: write a minimum as v4.14, and a range as v4.14-v4.16")
        version = tolerant_version(last)
    else:
        version = max(tolerant_version(cleaned), _LATEST)
    return version.major, version.minor


def check_annotations(bundle: BundleView) -> CheckResult:
    """Check the annotations of the ClusterServiceVersion that say which features of OpenShift an operator supports."""
    csv = bundle.csv
    if csv is None:
        return CheckResult(CheckName.ANNOTATIONS, CheckOutcome.ERROR)
    base = ("metadata", "annotations")
    problems = []
    for name in (*REQUIRED_FEATURES, *OPTIONAL_FEATURES):
        value = bundle.csv_annotations.get(name)
        if value is None and name not in bundle.csv_annotations:
            if name in REQUIRED_FEATURES:
                problems.append(CheckProblem(f"the annotation {name} is missing", csv.path, (*base, name)))
        elif value not in ("true", "false"):
            problems.append(
                CheckProblem(
                    f'the annotation {name} is {_shown(value)}, not "true" or "false"', csv.path, (*base, name)
                )
            )
    return _failed_if(CheckName.ANNOTATIONS, problems)


def check_security_context(bundle: BundleView) -> CheckResult:
    """Check that the first rule about security context constraints names at most one."""
    name = CheckName.SECURITY_CONTEXT
    if bundle.csv is None:
        return CheckResult(name, CheckOutcome.ERROR)
    base = ("spec", "install", "spec", "clusterPermissions")
    for number, permission in enumerate(items(_strategy(bundle).get("clusterPermissions"))):
        for index, rule in enumerate(items(mapping(permission).get("rules"))):
            groups, resources, names = (items(mapping(rule).get(key)) for key in _RULE_KEYS)
            if "security.openshift.io" in groups and "securitycontextconstraints" in resources:
                if len(names) < 2:
                    return CheckResult(name, CheckOutcome.PASSED)
                message = f"{len(names)} security context constraints are requested, more than one"
                path = (*base, number, "rules", index, "resourceNames")
                return CheckResult(name, CheckOutcome.ERROR, (CheckProblem(message, bundle.csv.path, path),))
    return CheckResult(name, CheckOutcome.PASSED)


_RULE_KEYS = ("apiGroups", "resources", "resourceNames")


def check_restricted_network(bundle: BundleView) -> CheckResult:
    """Check that an operator that supports restricted networks pins its images, and passes them to its containers.

    An operator that does not claim to support them fails the check as well, which is optional, with no problem.
    """
    name, csv = CheckName.RESTRICTED_NETWORK, bundle.csv
    if csv is None:
        return CheckResult(name, CheckOutcome.ERROR)
    if not _claims_disconnected(bundle.csv_annotations):
        return CheckResult(name, CheckOutcome.FAILED)
    related = items(bundle.spec.get("relatedImages"))
    path: FieldPath = ("spec", "relatedImages")
    if not related:
        return CheckResult(name, CheckOutcome.FAILED, (CheckProblem("spec.relatedImages is empty", csv.path, path),))
    for number, entry in enumerate(related):
        image = text(mapping(entry).get("image"))
        if not _ImageName.parse(image).tag.startswith("sha256:"):
            problem = CheckProblem(f"the related image {image} has no digest", csv.path, (*path, number, "image"))
            return CheckResult(name, CheckOutcome.FAILED, (problem,))
    if any(text(mapping(each).get("name")).startswith(_MANAGER_IMAGES) for each in _environment(bundle)):
        return CheckResult(name, CheckOutcome.PASSED)
    message = f"no container has an environment variable {_MANAGER_IMAGES}..."
    path = ("spec", "install", "spec", "deployments")
    return CheckResult(name, CheckOutcome.FAILED, (CheckProblem(message, csv.path, path),))


def _claims_disconnected(annotations: Mapping[str, Any]) -> bool:
    if annotations.get(DISCONNECTED) == "true":
        return True
    import json  # rarely needed

    try:
        features = json.loads(text(annotations.get(INFRASTRUCTURE)))
    except (ValueError, RecursionError):
        return False
    if not isinstance(features, list) or not all(isinstance(each, str | None) for each in features):
        return False
    return any((each or "").lower() == "disconnected" for each in features)


def _strategy(bundle: BundleView) -> Mapping[str, Any]:
    return mapping(mapping(bundle.spec.get("install")).get("spec"))


def _pods(bundle: BundleView) -> Iterator[Mapping[str, Any]]:
    for deployment in items(_strategy(bundle).get("deployments")):
        template = mapping(mapping(mapping(deployment).get("spec")).get("template"))
        yield mapping(template.get("spec"))


def _environment(bundle: BundleView) -> Iterator[Any]:
    for pod in _pods(bundle):
        for container in (*items(pod.get("containers")), *items(pod.get("initContainers"))):
            yield from items(mapping(container).get("env"))


def check_related_images(bundle: BundleView) -> CheckResult:
    """Check that all images of the ClusterServiceVersion are related images; those that are not only give problems."""
    name = CheckName.RELATED_IMAGES
    found = _find_images(bundle)
    if isinstance(found, CheckProblem):
        return CheckResult(name, CheckOutcome.ERROR, (found,))
    related = {text(mapping(entry).get("image")) for entry in items(found.spec.get("relatedImages"))}
    if related and Csv.from_bundle(bundle) is None:
        problem = CheckProblem("a field of the ClusterServiceVersion has the wrong type", found.manifest.path)
        return CheckResult(name, CheckOutcome.ERROR, (problem,))
    problems = [
        CheckProblem(f"the image {image} is not in spec.relatedImages", found.manifest.path, path)
        for image, path in found.images.items()
        if image not in related
    ]
    return CheckResult(name, CheckOutcome.PASSED, tuple(problems))


def check_certified_images(bundle: BundleView) -> CheckResult:
    """Check that all images have digests, without which they are not found in Red Hat's catalog of images."""
    name = CheckName.CERTIFIED_IMAGES
    found = _find_images(bundle)
    if isinstance(found, CheckProblem):
        return CheckResult(name, CheckOutcome.ERROR, (found,))
    problems = [
        CheckProblem(f"the image {image} has no digest", found.manifest.path, path)
        for image, path in found.images.items()
        if not _PINNED.fullmatch(image)
    ]
    if found.images and not problems:
        return CheckResult(name, CheckOutcome.UNKNOWN)
    return _failed_if(name, problems or [CheckProblem("the ClusterServiceVersion names no image", found.manifest.path)])


def _failed_if(name: CheckName, problems: Iterable[CheckProblem]) -> CheckResult:
    found = tuple(problems)
    return CheckResult(name, CheckOutcome.FAILED if found else CheckOutcome.PASSED, found)


_PINNED = re.compile(
    r"(?:[^/@]*[.:][^/@]*/|localhost/)?[a-z0-9_\-./]{2,255}(?::[a-zA-Z0-9_\-.]{1,128})?@sha256:[0-9a-f]{64}"
)
"""Images that go-containerregistry accepts as references by digest."""


class _ImageName(NamedTuple):
    """An image reference, as operator-manifest-tools splits it."""

    repository: str
    tag: str

    @classmethod
    def parse(cls, image: str) -> _ImageName:
        *parents, last = image.split("/", 2)
        tag = "latest"
        for separator in "@:":
            if separator in last:
                last, _, tag = last.partition(separator)
                break
        return cls("/".join((*filter(None, parents), last)), tag)

    def __str__(self) -> str:
        if not self.repository or self.repository.endswith("/"):
            return "<invalid>"
        separator = "@" if self.tag.startswith("sha256:") else ":"
        return f"{self.repository}{separator}{self.tag}" if self.tag else self.repository


class _FoundImages(NamedTuple):
    """The images of a ClusterServiceVersion: references and the paths where they are first."""

    manifest: ManifestView
    spec: Mapping[str, Any]
    images: Mapping[str, FieldPath]


class _UnsupportedImageError(Exception):
    """operator-manifest-tools cannot read the images of a ClusterServiceVersion."""

    def __init__(self, problem: str, path: FieldPath) -> None:
        super().__init__(problem)
        self.path = path


def _find_images(bundle: BundleView) -> _FoundImages | CheckProblem:
    """Return the images of the only ClusterServiceVersion in YAML, or why operator-manifest-tools finds none."""
    csvs: list[ManifestView] = []
    for manifest in bundle.files_in("manifests"):
        if manifest.path.endswith((".yaml", ".yml")):
            if not manifest.kind:
                return CheckProblem(f"{manifest.path} contains no Kubernetes object", manifest.path)
            csvs += [manifest] if manifest.kind == CSV_KIND else []
    if len(csvs) != 1:
        count = f"{len(csvs)} files" if csvs else "no file"
        return CheckProblem(
            f"{count} in {_MANIFESTS} with the ending .yaml or .yml contain a {CSV_KIND}, instead of one"
        )
    try:
        images: defaultdict[str, list[FieldPath]] = defaultdict(list)
        for image, path in _image_references(csvs[0].object):
            images[str(_ImageName.parse(image))].append(path)
    except _UnsupportedImageError as error:
        return CheckProblem(f"{format_path(error.path)} {error}", csvs[0].path, error.path)
    spec = mapping(csvs[0].object.get("spec"))
    return _FoundImages(csvs[0], spec, {image: paths[0] for image, paths in images.items()})


def _image_references(csv: Mapping[str, Any]) -> Iterator[tuple[str, FieldPath]]:
    """Yield the images of related images, containers, their environment, and annotations."""
    base: FieldPath = ("spec", "relatedImages")
    for path, entry in _entries(mapping(csv.get("spec")).get("relatedImages"), base):
        yield _string(entry, "image", path), (*path, "image")
    base = ("spec", "install", "spec", "deployments")
    deployments = mapping(mapping(mapping(csv.get("spec")).get("install")).get("spec")).get("deployments")
    if not isinstance(deployments, list):
        raise _UnsupportedImageError("is missing" if deployments is None else "is not a list", base)
    for number, deployment in enumerate(deployments):
        pod = mapping(mapping(mapping(mapping(deployment).get("spec")).get("template")).get("spec"))
        for key in ("containers", "initContainers"):
            for path, container in _entries(pod.get(key), (*base, number, "spec", "template", "spec", key)):
                yield _string(container, "image", path), (*path, "image")
                yield from _environment_images(container.get("env"), (*path, "env"))
    yield from _annotation_images(csv, ())


def _environment_images(value: Any, base: FieldPath) -> Iterator[tuple[str, FieldPath]]:
    for path, variable in _entries(value, base):
        if text(variable.get("name")).startswith(_MANAGER_IMAGES):
            if "valueFrom" in variable:
                raise _UnsupportedImageError("is not supported", (*path, "valueFrom"))
            yield _string(variable, "value", path), (*path, "value")


def _entries(value: Any, base: FieldPath) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    if not isinstance(value, list | None):
        raise _UnsupportedImageError("is not a list", base)
    for number, entry in enumerate(value or ()):
        if not isinstance(entry, dict):
            raise _UnsupportedImageError("is not a mapping", (*base, number))
        yield (*base, number), entry


def _string(owner: Mapping[str, Any], key: str, path: FieldPath) -> str:
    value = owner.get(key)
    if not isinstance(value, str):
        raise _UnsupportedImageError("is missing" if value is None else "is not a string", (*path, key))
    return value


def _annotation_images(value: Any, path: FieldPath, *, under_metadata: bool = False) -> Iterator[tuple[str, FieldPath]]:
    """Yield what looks like an image with a tag or digest in the annotations of an object and of those below it."""
    annotations = mapping(mapping(value.get("metadata")).get("annotations"))
    for key, annotation in annotations.items():
        for image in _images_in(str(annotation)):
            yield image, (*path, "metadata", "annotations", key)
    for key, member in value.items():
        if key == "metadata" and under_metadata:
            continue
        for step, child in enumerate(member) if isinstance(member, list) else ((None, member),):
            if isinstance(child, dict):
                place = (*path, key) if step is None else (*path, key, step)
                yield from _annotation_images(child, place, under_metadata=key == "metadata")


_CANDIDATE = re.compile(r"[a-zA-Z0-9/\-._@:]+")
_EDGES = "/-._@:"
_PORT = re.compile(r"[0-9]+")
_HEX_DIGEST = re.compile(r"sha256:[a-fA-F0-9]{64}")


def _images_in(value: str) -> Iterator[str]:
    for candidate in _CANDIDATE.findall(value):
        image = candidate.strip(_EDGES)
        if _looks_like_image(image):
            yield image


def _looks_like_image(value: str) -> bool:
    """Whether a value is REGISTRY/REPOSITORY with a tag or digest, and the registry contains a dot."""
    registry, _, rest = value.partition("/")
    host, colon, port = registry.partition(":")
    *namespaces, last = rest.split("/")
    name, at, digest = last.partition("@")
    has_tag = _HEX_DIGEST.fullmatch(digest) if at else _is_name(last.partition(":")[2])
    names = (host, *namespaces, name if at else last.partition(":")[0])
    return "." in host and bool(has_tag) and (not colon or bool(_PORT.fullmatch(port))) and all(map(_is_name, names))


def _is_name(value: str) -> bool:
    """Whether a value begins and ends with a letter or digit, and has no separators of images."""
    return value[:1].isalnum() and value[-1:].isalnum() and not set(value) & set("/@:")


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else describe(value)


CHECKS = (
    check_certified_images,
    check_security_context,
    check_related_images,
    check_restricted_network,
    check_annotations,
)
"""The checks in preflight's order, without those of the whole bundle."""
