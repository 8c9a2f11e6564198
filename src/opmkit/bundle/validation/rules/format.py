"""Rules of the validator ``format``: the layout of a bundle and its annotations.

Rules about dependencies are in :mod:`.dependencies`.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, cast

from opmkit.bundle import labels
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.loading import read_finding
from opmkit.bundle.validation.opm_content import PLAIN, media_type
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.bundle.validation.bundle_view import BundleView, ManifestView
    from opmkit.bundle.validation.rule import Check

    FileCheck = Callable[[BundleView, ManifestView], Iterable[Finding]]

VALIDATOR = "format"
MANIFESTS = "manifests"
METADATA = "metadata"
REQUIRED = (labels.MEDIA_TYPE, labels.MANIFESTS, labels.METADATA, labels.PACKAGE, labels.CHANNELS)
"""The required annotations; the default channel is optional."""

_GENERATE = "Write metadata/annotations.yaml."


def is_laid_out(bundle: BundleView) -> bool:
    """Return True if a bundle has both of its directories; otherwise no other rule of the format is checked."""
    return {MANIFESTS, METADATA} <= bundle.directories


def _annotated(check_file: FileCheck) -> Check:
    """Turn a check of the annotations file into a check of the bundle."""

    @wraps(check_file)
    def check(bundle: BundleView) -> Iterable[Finding]:
        file = bundle.annotations_file
        return check_file(bundle, file) if file is not None and is_laid_out(bundle) else ()

    return cast("Check", check)


@rule(
    "FMT-NO-MANIFESTS-DIR",
    VALIDATOR,
    Severity.ERROR,
    "missing manifests directory",
    hint="Put the ClusterServiceVersion, the CRDs and all other objects into a directory named manifests.",
    bad="bundle/deploy/demo.clusterserviceversion.yaml",
    good="bundle/manifests/demo.clusterserviceversion.yaml",
)
def no_manifests_directory(bundle: BundleView) -> Iterator[Finding]:
    """The objects must be in a directory named ``manifests``, regardless of the annotations."""
    if MANIFESTS not in bundle.directories:
        yield Finding("directory manifests not found")


@rule(
    "FMT-NO-METADATA-DIR",
    VALIDATOR,
    Severity.ERROR,
    "missing metadata directory",
    hint=_GENERATE,
    bad="bundle/manifests/annotations.yaml",
    good="bundle/metadata/annotations.yaml",
)
def no_metadata_directory(bundle: BundleView) -> Iterator[Finding]:
    """The annotations, with the package and the channels, must be in a file in a directory named ``metadata``."""
    if METADATA not in bundle.directories:
        yield Finding("directory metadata not found")


@rule(
    "FMT-EMPTY-MANIFESTS",
    VALIDATOR,
    Severity.ERROR,
    "the manifests directory has no files",
    hint="Put the ClusterServiceVersion and the CRDs directly into the manifests directory, not into subdirectories.",
    bad="bundle/manifests/1.0.0/demo.clusterserviceversion.yaml",
    good="bundle/manifests/demo.clusterserviceversion.yaml",
)
def empty_manifests(bundle: BundleView) -> Iterator[Finding]:
    """Files in subdirectories of the manifests directory are ignored."""
    if is_laid_out(bundle) and not any(bundle.files_in(MANIFESTS)):
        yield Finding("the directory manifests has no files")


@rule(
    "FMT-NO-ANNOTATIONS",
    VALIDATOR,
    Severity.ERROR,
    "missing annotations",
    hint=_GENERATE,
    bad="# metadata/annotations.yaml\noperators.operatorframework.io.bundle.package.v1: demo",
    good="# metadata/annotations.yaml\nannotations:\n  operators.operatorframework.io.bundle.package.v1: demo",
)
def no_annotations(bundle: BundleView) -> Iterator[Finding]:
    """Annotations are a mapping of strings under the key ``annotations``, in any file of the directory ``metadata``."""
    if not is_laid_out(bundle) or bundle.annotations_file is not None:
        return
    for file in bundle.files_in(METADATA):
        if file.name.startswith("annotations") and (error := file.content.error) is not None:
            message = f"cannot read the annotations: {error.problem}"
            yield Finding(message, file.path, line=error.line, column=error.column, hint="Correct the YAML.")
            return
    yield Finding("no file in metadata has annotations")


@rule(
    "ANN-MISSING",
    VALIDATOR,
    Severity.ERROR,
    "a required annotation is missing",
    hint="Add it to the annotations file.",
    bad="annotations:\n  operators.operatorframework.io.bundle.channels.v1: stable",
    good="annotations:\n"
    "  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n"
    "  operators.operatorframework.io.bundle.manifests.v1: manifests/\n"
    "  operators.operatorframework.io.bundle.metadata.v1: metadata/\n"
    "  operators.operatorframework.io.bundle.package.v1: demo\n"
    "  operators.operatorframework.io.bundle.channels.v1: stable",
)
@_annotated
def annotation_missing(bundle: BundleView, file: ManifestView) -> Iterator[Finding]:
    """Catalogs and clusters read media type, directories, package and channels from the annotations."""
    for key in REQUIRED:
        if key not in bundle.annotations:
            yield Finding(f"annotation {key} not found", file.path, ("annotations",))


@rule(
    "ANN-MEDIATYPE-MISMATCH",
    VALIDATOR,
    Severity.ERROR,
    "the media type annotation does not match the manifests",
    hint="Set it to registry+v1 if the manifests directory has a ClusterServiceVersion, to helm if it has a "
    "Chart.yaml, otherwise to plain.",
    bad="annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v2",
    good="annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1",
)
@_annotated
def media_type_mismatch(bundle: BundleView, file: ManifestView) -> Iterator[Finding]:
    """The media type determines how clusters unpack a bundle. Files without an object are not considered."""
    declared = bundle.annotations.get(labels.MEDIA_TYPE, "")
    actual = media_type(bundle, MANIFESTS)
    if bundle.compat is Compat.OPMKIT and actual == PLAIN and any(map(read_finding, bundle.files_in(MANIFESTS))):
        return  # a file that cannot be read may be the ClusterServiceVersion
    if declared != actual:
        message = f"the media type is {declared!r}, but the manifests are {actual!r}"
        yield Finding(message, file.path, ("annotations", labels.MEDIA_TYPE))


@rule(
    "ANN-CHANNELS-EMPTY",
    VALIDATOR,
    Severity.ERROR,
    "missing channels",
    hint="List the channels of the bundle, separated by commas.",
    bad="annotations:\n  operators.operatorframework.io.bundle.channels.v1: ''",
    good="annotations:\n  operators.operatorframework.io.bundle.channels.v1: candidate,stable",
)
@_annotated
def channels_empty(bundle: BundleView, file: ManifestView) -> Iterator[Finding]:
    """Operators are installed from a channel, so a bundle without a channel cannot be installed."""
    if not bundle.annotations.get(labels.CHANNELS):
        yield Finding(f"annotation {labels.CHANNELS} is empty", file.path, ("annotations", labels.CHANNELS))


@rule(
    "ANN-DEFAULT-CHANNEL-EMPTY",
    VALIDATOR,
    Severity.ERROR,
    "empty default channel",
    hint="Set it to one of the channels, or remove the annotation.",
    bad="annotations:\n  operators.operatorframework.io.bundle.channel.default.v1: ''",
    good="annotations:\n  operators.operatorframework.io.bundle.channel.default.v1: stable",
)
@_annotated
def default_channel_empty(bundle: BundleView, file: ManifestView) -> Iterator[Finding]:
    """Subscriptions without a channel use the default channel. The annotation is optional, but must not be empty."""
    if bundle.annotations.get(labels.DEFAULT_CHANNEL) == "":
        message = f"annotation {labels.DEFAULT_CHANNEL} is empty"
        yield Finding(message, file.path, ("annotations", labels.DEFAULT_CHANNEL))
