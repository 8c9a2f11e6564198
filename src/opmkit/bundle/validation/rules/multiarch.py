"""Rules of the validator ``multiarch``: whether an operator's images run on all that it claims to run on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import RECENT, Compat
from opmkit.bundle.validation.operator_images import ARCH_LABEL, OS_LABEL, OperatorImages
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.bundle.field_path import FieldPath
    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.operator_images import Pair

VALIDATOR = "multiarch"
CONTAINER_TOOLS = ("docker", "podman", "none")
_LABELS: FieldPath = ("metadata", "labels")


def _images(bundle: BundleView) -> OperatorImages | None:
    """The images, if the option says how to ask for them."""
    return OperatorImages.of(bundle) if _is_known_tool(bundle) else None


def _is_known_tool(bundle: BundleView) -> bool:
    return bundle.options.container_tools.lower() in ("", *CONTAINER_TOOLS)


def _finding(bundle: BundleView, images: OperatorImages, path: FieldPath, problem: str) -> Finding:
    file = bundle.csv.path if bundle.csv else ""
    return Finding(problem, file, path, subject=images.csv.name)


def _told(pairs: Iterable[Pair]) -> str:
    return ", ".join(f"{system}/{architecture}" for system, architecture in pairs) or "none"


@rule(
    "ARCH-OPTION-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "the option container-tools names no known tool",
    hint=f"Give one of {', '.join(CONTAINER_TOOLS)}.",
    bad="container-tools=crictl",
    good="container-tools=podman",
)
def option_invalid(bundle: BundleView) -> Iterator[Finding]:
    """The tool is asked for the platforms of images; with none, registries are asked without any tool."""
    images = OperatorImages.of(bundle) if not _is_known_tool(bundle) else None
    if images is not None:
        told = f"container-tools is {bundle.options.container_tools!r}, none of {', '.join(CONTAINER_TOOLS)}"
        yield Finding(told, subject=images.csv.name)


@rule(
    "ARCH-INSPECT",
    VALIDATOR,
    Severity.WARNING,
    "the platforms of an image can't be learnt",
    hint="See that the image is there and may be pulled; log in to its registry.",
    bad="image: registry.internal/demo:latest",
    good="image: quay.io/example/demo:v1.2.3",
)
def inspect(bundle: BundleView) -> Iterator[Finding]:
    """The image is left out of all that follows, so the operator may lack support that it claims."""
    images = _images(bundle)
    for image, path in images.everywhere.items() if images else ():
        if images and images.provided[image] is None:
            yield _finding(bundle, images, path, f"the platforms of the image {image!r} can't be learnt")


@rule(
    "ARCH-IMAGE-UNSUPPORTED",
    VALIDATOR,
    Severity.ERROR,
    "an image does not run on a platform that labels claim",
    hint="Build the image for the platform too, or remove the label.",
    bad="labels: {operatorframework.io/arch.s390x: supported}",
    good="labels: {operatorframework.io/arch.amd64: supported}",
)
def image_unsupported(bundle: BundleView) -> Iterator[Finding]:
    """Labels ``operatorframework.io/arch.ARCH`` and ``operatorframework.io/os.OS`` say where an operator can run.

    Without, that is linux and amd64. One finding tells all images that lack a platform.
    """
    images = _images(bundle)
    if images is None:
        return
    paths = images.everywhere
    known = {image: found for image in paths if (found := images.provided[image]) is not None}
    for system in images.labelled(OS_LABEL) or ["linux"]:
        for architecture in images.labelled(ARCH_LABEL) or ["amd64"]:
            lacking = sorted(image for image, found in known.items() if (system, architecture) not in found)
            if lacking:
                told = f"{system}/{architecture} is claimed, but these images do not run on it: {', '.join(lacking)}"
                yield _finding(bundle, images, paths[lacking[0]], told)


def _unlabelled(images: OperatorImages, prefix: str, provided: list[str], usual: str) -> list[str]:
    """What managers run on without a label that says so; the usual alone needs none.

    The references take a label for one of any text within it: that of arm64 does for arm.
    """
    labelled = images.labelled(prefix)
    if images.csv.compat is Compat.OPMKIT:
        lacking = [one for one in provided if one not in labelled]
    else:
        lacking = [one for one in provided if not any(one in f"{prefix}{label}" for label in labelled)]
    return [] if provided == [usual] else lacking


@rule(
    "ARCH-LABEL-MISSING",
    VALIDATOR,
    Severity.WARNING,
    "the operator runs on architectures that no label claims",
    hint=f"Add a label {ARCH_LABEL}ARCH: supported for each architecture, amd64 too.",
    bad="labels: {}",
    good="labels: {operatorframework.io/arch.amd64: supported, operatorframework.io/arch.arm64: supported}",
)
def label_missing(bundle: BundleView) -> Iterator[Finding]:
    """Catalogs on clusters of other architectures show an operator by its labels alone."""
    images = _images(bundle)
    if images and (lacking := _unlabelled(images, ARCH_LABEL, images.architectures, "amd64")):
        told = f"the managers run on {', '.join(lacking)}, which no label {ARCH_LABEL}ARCH claims"
        yield _finding(bundle, images, _LABELS, told)


@rule(
    "ARCH-OS-LABEL-MISSING",
    VALIDATOR,
    Severity.WARNING,
    "the operator runs on operating systems that no label claims",
    hint=f"Add a label {OS_LABEL}OS: supported for each operating system, linux too.",
    bad="labels: {operatorframework.io/os.linux: supported}",
    good="labels: {operatorframework.io/os.linux: supported, operatorframework.io/os.windows: supported}",
)
def os_label_missing(bundle: BundleView) -> Iterator[Finding]:
    """An operator without such labels is taken to run on linux alone."""
    images = _images(bundle)
    if images and (lacking := _unlabelled(images, OS_LABEL, images.systems, "linux")):
        told = f"the managers run on {', '.join(lacking)}, which no label {OS_LABEL}OS claims"
        yield _finding(bundle, images, _LABELS, told)


def _behind(bundle: BundleView, wanted: str) -> Iterator[Finding]:
    """The images that lack an architecture, or operating system, of the managers or the labels."""
    images = _images(bundle)
    if images is None:
        return
    position, all_of_them = (1, images.architectures) if wanted == "architecture" else (0, images.systems)
    for image, path in images.companions:
        found = images.provided[image]
        if found is not None:
            lacking = sorted(set(all_of_them) - {pair[position] for pair in found})
            if lacking:
                told = f"the image {image!r} does not run on {', '.join(lacking)}, as the managers do, or labels claim"
                yield _finding(bundle, images, path, told)


@rule(
    "ARCH-OTHER-IMAGE",
    VALIDATOR,
    Severity.WARNING,
    "another image of the operator runs on fewer architectures than the operator",
    hint="Build the image for those architectures too, or see that nothing needs it there.",
    bad="relatedImages: [{name: proxy, image: 'quay.io/example/proxy:v1-amd64'}]",
    good="relatedImages: [{name: proxy, image: 'quay.io/example/proxy:v1'}]",
)
def other_image(bundle: BundleView) -> Iterator[Finding]:
    """What the operator starts must run where it runs itself."""
    return _behind(bundle, "architecture")


@rule(
    "ARCH-OTHER-IMAGE-OS",
    VALIDATOR,
    Severity.WARNING,
    "another image of the operator runs on fewer operating systems than the operator",
    hint="Build the image for those operating systems too, or see that nothing needs it there.",
    bad="relatedImages: [{name: proxy, image: 'quay.io/example/proxy:v1-windows'}]",
    good="relatedImages: [{name: proxy, image: 'quay.io/example/proxy:v1'}]",
)
def other_image_os(bundle: BundleView) -> Iterator[Finding]:
    """What the operator starts must run where it runs itself."""
    return _behind(bundle, "operating system")


def _scheduled(bundle: BundleView) -> Iterator[tuple[OperatorImages, str, FieldPath]]:
    """The images of deployments."""
    images = _images(bundle)
    if images:
        for image, path in {**images.managers, **images.others}.items():
            yield images, image, path


@rule(
    "ARCH-AFFINITY-MISSING",
    VALIDATOR,
    Severity.WARNING,
    "nothing keeps the pods of an image on nodes that it runs on",
    hint="Require, in affinity.nodeAffinity, the values of kubernetes.io/arch and kubernetes.io/os that it runs on.",
    bad="spec: {containers: [{name: manager, image: demo}]}",
    good=(
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
        "[{matchExpressions: [{key: kubernetes.io/arch, operator: In, values: [amd64]}, "
        "{key: kubernetes.io/os, operator: In, values: [linux]}]}]}}}"
    ),
    compat=RECENT,
)
def affinity_missing(bundle: BundleView) -> Iterator[Finding]:
    """On a cluster of several architectures, a pod may be put on a node that can't run its image."""
    for images, image, path in _scheduled(bundle):
        found = images.provided[image]
        if not images.affinities[image] and (found is not None or bundle.compat is not Compat.OPMKIT):
            told = f"no node affinity keeps {image!r} on what it runs on: {_told(found or ())}"
            yield _finding(bundle, images, path, told)


@rule(
    "ARCH-AFFINITY-UNKNOWN",
    VALIDATOR,
    Severity.WARNING,
    "nothing binds the pods of an image to nodes, nor can it be learnt what it runs on",
    hint="Require, in affinity.nodeAffinity, the values of kubernetes.io/arch and kubernetes.io/os that it runs on.",
    bad="image: registry.internal/demo:latest",
    good="image: quay.io/example/demo:v1.2.3",
    compat=RECENT,
)
def affinity_unknown(bundle: BundleView) -> Iterator[Finding]:
    """On a cluster of several architectures, a pod may be put on a node that can't run its image."""
    for images, image, path in _scheduled(bundle):
        if not images.affinities[image] and images.provided[image] is None:
            yield _finding(bundle, images, path, f"no node affinity keeps {image!r} on what it runs on")


@rule(
    "ARCH-AFFINITY-EXTRA",
    VALIDATOR,
    Severity.WARNING,
    "the pods of an image may be put on nodes that it does not run on",
    hint="Remove those values from the node affinity, or build the image for them.",
    bad="{key: kubernetes.io/arch, operator: In, values: [amd64, s390x]}",
    good="{key: kubernetes.io/arch, operator: In, values: [amd64]}",
    compat=RECENT,
)
def affinity_extra(bundle: BundleView) -> Iterator[Finding]:
    """Such pods would never start."""
    for images, image, path in _scheduled(bundle):
        found = images.provided[image]
        extra = [pair for pair in images.affinities[image] if pair not in (found or ())]
        if extra and found is not None:
            told = f"the node affinity of {image!r} allows {_told(extra)}, but it runs on {_told(found)}"
            yield _finding(bundle, images, path, told)


@rule(
    "ARCH-AFFINITY-LACKS",
    VALIDATOR,
    Severity.WARNING,
    "the pods of an image are kept from nodes that it runs on",
    hint="Add those values to the node affinity, unless the image is not meant for them.",
    bad="{key: kubernetes.io/arch, operator: In, values: [amd64]}",
    good="{key: kubernetes.io/arch, operator: In, values: [amd64, arm64]}",
    compat=RECENT,
)
def affinity_lacks(bundle: BundleView) -> Iterator[Finding]:
    """The operator can't be installed on clusters of such nodes alone."""
    for images, image, path in _scheduled(bundle):
        allowed = images.affinities[image]
        lacking = [pair for pair in images.provided[image] or () if pair not in allowed]
        if allowed and lacking:
            told = f"{image!r} runs on {_told(lacking)} too, but its node affinity allows {_told(allowed)} alone"
            yield _finding(bundle, images, path, told)
