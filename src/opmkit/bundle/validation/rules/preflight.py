"""Rules of the validator ``preflight``, which runs in the profile of this name: checks for Red Hat's certification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.preflight import CheckProblem

VALIDATOR = "preflight"


def _findings(problems: Iterable[CheckProblem]) -> Iterator[Finding]:
    for problem in problems:
        yield Finding(problem.message, problem.file, problem.path, subject=problem.message, hint=problem.hint)


@rule(
    "PREFLIGHT-LOAD",
    VALIDATOR,
    Severity.ERROR,
    "the annotations of the bundle are not valid YAML",
    hint="Correct metadata/annotations.yaml.",
    bad="[annotations]",
    good="annotations: {operators.operatorframework.io.bundle.package.v1: demo}",
)
def load(bundle: BundleView) -> Iterator[Finding]:
    """All checks that load the bundle end with an error, which fails the certification."""
    from opmkit.bundle.validation.preflight import load_problems

    return _findings(load_problems(bundle))


@rule(
    "PREFLIGHT-METADATA",
    VALIDATOR,
    Severity.ERROR,
    "preflight cannot read the annotations of the bundle",
    hint="Correct metadata/annotations.yaml.",
    bad="annotations: {com.redhat.openshift.versions: v4.14-}",
    good="annotations: {com.redhat.openshift.versions: v4.14}",
)
def metadata(bundle: BundleView) -> Iterator[Finding]:
    """The check ValidateOperatorBundle ends with an error, which fails the certification."""
    from opmkit.bundle.validation.preflight import metadata_problems

    return _findings(metadata_problems(bundle))


@rule(
    "PREFLIGHT-ANNOTATIONS",
    VALIDATOR,
    Severity.ERROR,
    "an annotation about a feature of OpenShift is missing or invalid",
    hint="Set the annotation of the ClusterServiceVersion to 'true' or 'false', in quotes.",
    bad="annotations: {features.operators.openshift.io/proxy-aware: 'yes'}",
    good="annotations: {features.operators.openshift.io/proxy-aware: 'true'}",
)
def required_annotations(bundle: BundleView) -> Iterator[Finding]:
    """The check RequiredAnnotations fails, and with it the certification. OpenShift's console shows the features."""
    from opmkit.bundle.validation.preflight import check_annotations

    return _findings(check_annotations(bundle).problems)


@rule(
    "PREFLIGHT-IMAGE-DIGEST",
    VALIDATOR,
    Severity.WARNING,
    "an image has no digest, so that it is not a certified image",
    hint="Refer to the image by its digest.",
    bad="image: quay.io/example/demo:1.2.3",
    good="image: quay.io/example/demo@sha256:0123...",
)
def image_digest(bundle: BundleView) -> Iterator[Finding]:
    """The check BundleImageRefsAreCertified, which is optional, finds images in Red Hat's catalog by their digests."""
    from opmkit.bundle.validation.preflight import check_certified_images

    return _findings(check_certified_images(bundle).problems)


@rule(
    "PREFLIGHT-RELATED-IMAGES",
    VALIDATOR,
    Severity.WARNING,
    "an image is not in spec.relatedImages",
    hint="Add the image to spec.relatedImages.",
    bad="spec: {relatedImages: []}  # and a container has an image",
    good="spec: {relatedImages: [{name: manager, image: quay.io/example/demo@sha256:0123...}]}",
)
def related_images(bundle: BundleView) -> Iterator[Finding]:
    """Mirrors copy related images only. The check AllImageRefsInRelatedImages is not enforced yet."""
    from opmkit.bundle.validation.preflight import check_related_images

    return _findings(check_related_images(bundle).problems)


@rule(
    "PREFLIGHT-RESTRICTED-NETWORK",
    VALIDATOR,
    Severity.WARNING,
    "an operator for restricted networks does not follow the guidelines for them",
    hint="Pin all related images, and pass them to the operator in variables RELATED_IMAGE_...",
    bad="annotations: {features.operators.openshift.io/disconnected: 'true'}  # and an image has no digest",
    good="annotations: {features.operators.openshift.io/disconnected: 'true'}  # and all images have digests",
)
def restricted_network(bundle: BundleView) -> Iterator[Finding]:
    """The check FollowsRestrictedNetworkEnablementGuidelines, which is optional, fails.

    It also fails for operators that do not claim to support restricted networks; for these, nothing is reported.
    """
    from opmkit.bundle.validation.preflight import check_restricted_network

    return _findings(check_restricted_network(bundle).problems)


@rule(
    "PREFLIGHT-SECURITY-CONTEXT",
    VALIDATOR,
    Severity.WARNING,
    "several security context constraints are requested",
    hint="Request one of them.",
    bad="resourceNames: [anyuid, privileged]",
    good="resourceNames: [anyuid]",
)
def security_context(bundle: BundleView) -> Iterator[Finding]:
    """The check SecurityContextConstraintsInCSV, which is optional, ends with an error."""
    from opmkit.bundle.validation.preflight import check_security_context

    return _findings(check_security_context(bundle).problems)
