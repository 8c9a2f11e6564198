"""Rules of the validator ``multiarch``: platforms of an operator's images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import RECENT, Compat
from opmkit.bundle.validation.operator_view import ARCH_LABEL, OS_LABEL, OperatorImages
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.operator_view import OsArch
    from opmkit.documents.fields import FieldPath

VALIDATOR = "multiarch"
CONTAINER_TOOLS = ("docker", "podman", "none")
_LABELS: FieldPath = ("metadata", "labels")


def _images(bundle: BundleView) -> OperatorImages | None:
    """Return the images, None if the option container-tools is invalid."""
    return OperatorImages.from_bundle(bundle) if _is_known_tool(bundle) else None


def _is_known_tool(bundle: BundleView) -> bool:
    return bundle.options.container_tools.lower() in ("", *CONTAINER_TOOLS)


def _finding(bundle: BundleView, images: OperatorImages, path: FieldPath, problem: str) -> Finding:
    file = bundle.csv.path if bundle.csv else ""
    return Finding(problem, file, path, subject=images.csv.name)


def _join(pairs: Iterable[OsArch]) -> str:
    return ", ".join(f"{system}/{architecture}" for system, architecture in pairs) or "none"


@rule(
    "ARCH-OPTION-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "invalid option container-tools",
    hint=f"Set it to one of {', '.join(CONTAINER_TOOLS)}.",
    bad="container-tools=crictl",
    good="container-tools=podman",
)
def option_invalid(bundle: BundleView) -> Iterator[Finding]:
    """The option selects the tool that inspects images; with ``none``, opmkit asks their registries itself."""
    images = OperatorImages.from_bundle(bundle) if not _is_known_tool(bundle) else None
    if images is not None:
        message = f"container-tools is {bundle.options.container_tools!r}, not one of {', '.join(CONTAINER_TOOLS)}"
        yield Finding(message, subject=images.csv.name)


@rule(
    "ARCH-INSPECT",
    VALIDATOR,
    Severity.WARNING,
    "cannot inspect an image",
    hint="Check that the image exists and that you are logged in to its registry.",
    bad="image: registry.internal/demo:latest",
    good="image: quay.io/example/demo:v1.2.3",
)
def inspect(bundle: BundleView) -> Iterator[Finding]:
    """The image is not checked any further, so it may not support a platform that the operator claims."""
    images = _images(bundle)
    for image, path in images.all_images.items() if images else ():
        if images and images.platforms[image] is None:
            yield _finding(bundle, images, path, f"cannot determine the platforms of image {image!r}")


@rule(
    "ARCH-IMAGE-UNSUPPORTED",
    VALIDATOR,
    Severity.ERROR,
    "an image does not support a platform of the labels",
    hint="Build the image for the platform too, or remove the label.",
    bad="labels: {operatorframework.io/arch.s390x: supported}",
    good="labels: {operatorframework.io/arch.amd64: supported}",
)
def image_unsupported(bundle: BundleView) -> Iterator[Finding]:
    """Labels ``operatorframework.io/arch.ARCH`` and ``operatorframework.io/os.OS`` list the supported platforms.

    The default is linux/amd64. One finding lists all images that do not support a platform.
    """
    images = _images(bundle)
    if images is None:
        return
    paths = images.all_images
    known = {image: platforms for image in paths if (platforms := images.platforms[image]) is not None}
    for system in images.claimed(OS_LABEL) or ["linux"]:
        for architecture in images.claimed(ARCH_LABEL) or ["amd64"]:
            missing = sorted(image for image, platforms in known.items() if (system, architecture) not in platforms)
            if missing:
                message = f"these images do not support {system}/{architecture}: {', '.join(missing)}"
                yield _finding(bundle, images, paths[missing[0]], message)


def _unlabelled(images: OperatorImages, prefix: str, provided: list[str], default: str) -> list[str]:
    """Return what the managers support without a label; only the default needs no label.

    The Go validators compare substrings, so a label for arm64 also counts for arm.
    """
    labelled = images.claimed(prefix)
    if images.csv.compat is Compat.OPMKIT:
        missing = [name for name in provided if name not in labelled]
    else:
        missing = [name for name in provided if not any(name in f"{prefix}{label}" for label in labelled)]
    return [] if provided == [default] else missing


@rule(
    "ARCH-LABEL-MISSING",
    VALIDATOR,
    Severity.WARNING,
    "no label for a supported architecture",
    hint=f"Add a label {ARCH_LABEL}ARCH: supported for each architecture, amd64 too.",
    bad="labels: {}",
    good="labels: {operatorframework.io/arch.amd64: supported, operatorframework.io/arch.arm64: supported}",
)
def label_missing(bundle: BundleView) -> Iterator[Finding]:
    """Catalogs on clusters of other architectures show only operators with the label."""
    images = _images(bundle)
    if images and (missing := _unlabelled(images, ARCH_LABEL, images.architectures, "amd64")):
        message = f"the managers support {', '.join(missing)}, but there is no label {ARCH_LABEL}ARCH for it"
        yield _finding(bundle, images, _LABELS, message)


@rule(
    "ARCH-OS-LABEL-MISSING",
    VALIDATOR,
    Severity.WARNING,
    "no label for a supported operating system",
    hint=f"Add a label {OS_LABEL}OS: supported for each operating system, linux too.",
    bad="labels: {operatorframework.io/os.linux: supported}",
    good="labels: {operatorframework.io/os.linux: supported, operatorframework.io/os.windows: supported}",
)
def os_label_missing(bundle: BundleView) -> Iterator[Finding]:
    """An operator without these labels is assumed to support only linux."""
    images = _images(bundle)
    if images and (missing := _unlabelled(images, OS_LABEL, images.systems, "linux")):
        message = f"the managers support {', '.join(missing)}, but there is no label {OS_LABEL}OS for it"
        yield _finding(bundle, images, _LABELS, message)


def _missing_platforms(bundle: BundleView, *, systems: bool = False) -> Iterator[Finding]:
    """Report images that lack an architecture (or ``systems``: an operating system) of the managers or the labels."""
    images = _images(bundle)
    if images is None:
        return
    position, required = (0, images.systems) if systems else (1, images.architectures)
    for image, path in images.non_managers:
        platforms = images.platforms[image]
        if platforms is not None:
            missing = sorted(set(required) - {pair[position] for pair in platforms})
            if missing:
                message = f"image {image!r} does not support {', '.join(missing)}, which the managers or labels do"
                yield _finding(bundle, images, path, message)


@rule(
    "ARCH-OTHER-IMAGE",
    VALIDATOR,
    Severity.WARNING,
    "an image supports fewer architectures than the operator",
    hint="Build the image for these architectures too, or check that it is not needed there.",
    bad="relatedImages: [{name: proxy, image: 'quay.io/example/proxy:v1-amd64'}]",
    good="relatedImages: [{name: proxy, image: 'quay.io/example/proxy:v1'}]",
)
def other_image(bundle: BundleView) -> Iterator[Finding]:
    """Images that the operator starts must support the same platforms as the operator."""
    return _missing_platforms(bundle)


@rule(
    "ARCH-OTHER-IMAGE-OS",
    VALIDATOR,
    Severity.WARNING,
    "an image supports fewer operating systems than the operator",
    hint="Build the image for these operating systems too, or check that it is not needed there.",
    bad="relatedImages: [{name: proxy, image: 'quay.io/example/proxy:v1-windows'}]",
    good="relatedImages: [{name: proxy, image: 'quay.io/example/proxy:v1'}]",
)
def other_image_os(bundle: BundleView) -> Iterator[Finding]:
    """Images that the operator starts must support the same platforms as the operator."""
    return _missing_platforms(bundle, systems=True)


def _scheduled(bundle: BundleView) -> Iterator[tuple[OperatorImages, str, FieldPath]]:
    """Yield the images of the deployments with their paths."""
    images = _images(bundle)
    if images:
        for image, path in {**images.managers, **images.others}.items():
            yield images, image, path


@rule(
    "ARCH-AFFINITY-MISSING",
    VALIDATOR,
    Severity.WARNING,
    "missing node affinity",
    hint="Require the supported values of kubernetes.io/arch and kubernetes.io/os in affinity.nodeAffinity.",
    bad="spec: {containers: [{name: manager, image: demo}]}",
    good=(
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
        "[{matchExpressions: [{key: kubernetes.io/arch, operator: In, values: [amd64]}, "
        "{key: kubernetes.io/os, operator: In, values: [linux]}]}]}}}"
    ),
    compat=RECENT,
)
def affinity_missing(bundle: BundleView) -> Iterator[Finding]:
    """On clusters with several architectures, a pod can be scheduled on a node that does not support its image."""
    for images, image, path in _scheduled(bundle):
        platforms = images.platforms[image]
        if not images.affinities[image] and (platforms is not None or bundle.compat is not Compat.OPMKIT):
            message = f"no node affinity restricts image {image!r} to its platforms: {_join(platforms or ())}"
            yield _finding(bundle, images, path, message)


@rule(
    "ARCH-AFFINITY-UNKNOWN",
    VALIDATOR,
    Severity.WARNING,
    "missing node affinity for an image with unknown platforms",
    hint="Require the supported values of kubernetes.io/arch and kubernetes.io/os in affinity.nodeAffinity.",
    bad="image: registry.internal/demo:latest",
    good="image: quay.io/example/demo:v1.2.3",
    compat=RECENT,
)
def affinity_unknown(bundle: BundleView) -> Iterator[Finding]:
    """On clusters with several architectures, a pod can be scheduled on a node that does not support its image."""
    for images, image, path in _scheduled(bundle):
        if not images.affinities[image] and images.platforms[image] is None:
            yield _finding(bundle, images, path, f"no node affinity restricts image {image!r} to its platforms")


@rule(
    "ARCH-AFFINITY-EXTRA",
    VALIDATOR,
    Severity.WARNING,
    "the node affinity allows platforms that the image does not support",
    hint="Remove these values from the node affinity, or build the image for them.",
    bad="{key: kubernetes.io/arch, operator: In, values: [amd64, s390x]}",
    good="{key: kubernetes.io/arch, operator: In, values: [amd64]}",
    compat=RECENT,
)
def affinity_extra(bundle: BundleView) -> Iterator[Finding]:
    """Pods on such nodes do not start."""
    for images, image, path in _scheduled(bundle):
        platforms = images.platforms[image]
        extra = [pair for pair in images.affinities[image] if pair not in (platforms or ())]
        if extra and platforms is not None:
            message = f"the node affinity of image {image!r} allows {_join(extra)}, but it supports {_join(platforms)}"
            yield _finding(bundle, images, path, message)


@rule(
    "ARCH-AFFINITY-LACKS",
    VALIDATOR,
    Severity.WARNING,
    "the node affinity excludes platforms that the image supports",
    hint="Add these values to the node affinity, unless they are excluded on purpose.",
    bad="{key: kubernetes.io/arch, operator: In, values: [amd64]}",
    good="{key: kubernetes.io/arch, operator: In, values: [amd64, arm64]}",
    compat=RECENT,
)
def affinity_lacks(bundle: BundleView) -> Iterator[Finding]:
    """The operator cannot be installed on clusters with only such nodes."""
    for images, image, path in _scheduled(bundle):
        allowed = images.affinities[image]
        missing = [pair for pair in images.platforms[image] or () if pair not in allowed]
        if allowed and missing:
            message = f"image {image!r} also supports {_join(missing)}; its node affinity allows only {_join(allowed)}"
            yield _finding(bundle, images, path, message)
