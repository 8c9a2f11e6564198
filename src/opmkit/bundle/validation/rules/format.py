"""Rules of the validator ``format``: the layout of a bundle and its annotations.

Those about its dependencies are in :mod:`.dependencies`.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, cast

from opmkit.bundle import labels
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.media_type import media_type
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.bundle.validation.bundle_view import BundleView, Manifest
    from opmkit.bundle.validation.rule import Check

    JudgeFile = Callable[[BundleView, Manifest], Iterable[Finding]]

VALIDATOR = "format"
MANIFESTS = "manifests"
METADATA = "metadata"
REQUIRED = (labels.MEDIA_TYPE, labels.MANIFESTS, labels.METADATA, labels.PACKAGE, labels.CHANNELS)
"""The annotations that a bundle must have; a default channel may be left out."""

_GENERATE = "Write metadata/annotations.yaml."


def is_laid_out(bundle: BundleView) -> bool:
    """Tell whether a bundle has its two directories, for without them nothing else of its format can be judged."""
    return {MANIFESTS, METADATA} <= bundle.directories


def _annotated(judge: JudgeFile) -> Check:
    """Make a check of a function that judges the annotations file of a bundle that is laid out as one."""

    @wraps(judge)
    def check(bundle: BundleView) -> Iterable[Finding]:
        file = bundle.annotations_file
        return judge(bundle, file) if file is not None and is_laid_out(bundle) else ()

    return cast("Check", check)


@rule(
    "FMT-NO-MANIFESTS-DIR",
    VALIDATOR,
    Severity.ERROR,
    "there is no manifests directory",
    hint="Put the ClusterServiceVersion, the CRDs and all other objects in a directory named manifests.",
    bad="bundle/deploy/demo.clusterserviceversion.yaml",
    good="bundle/manifests/demo.clusterserviceversion.yaml",
)
def no_manifests_directory(bundle: BundleView) -> Iterator[Finding]:
    """A bundle has a directory ``manifests`` with the objects, whatever its annotations call it."""
    if MANIFESTS not in bundle.directories:
        yield Finding("the bundle has no directory named manifests")


@rule(
    "FMT-NO-METADATA-DIR",
    VALIDATOR,
    Severity.ERROR,
    "there is no metadata directory",
    hint=_GENERATE,
    bad="bundle/manifests/annotations.yaml",
    good="bundle/metadata/annotations.yaml",
)
def no_metadata_directory(bundle: BundleView) -> Iterator[Finding]:
    """A bundle has a directory ``metadata`` with a file of annotations, which tells its package and channels."""
    if METADATA not in bundle.directories:
        yield Finding("the bundle has no directory named metadata")


@rule(
    "FMT-EMPTY-MANIFESTS",
    VALIDATOR,
    Severity.ERROR,
    "the manifests directory has no files",
    hint="Put the ClusterServiceVersion and the CRDs right into the manifests directory, not below it.",
    bad="bundle/manifests/1.0.0/demo.clusterserviceversion.yaml",
    good="bundle/manifests/demo.clusterserviceversion.yaml",
)
def empty_manifests(bundle: BundleView) -> Iterator[Finding]:
    """Files in directories within the manifests directory do not count."""
    if is_laid_out(bundle) and not any(bundle.below(MANIFESTS)):
        yield Finding("the directory manifests has no files")


@rule(
    "FMT-NO-ANNOTATIONS",
    VALIDATOR,
    Severity.ERROR,
    "no file of the metadata directory has annotations",
    hint=_GENERATE,
    bad="# metadata/annotations.yaml\noperators.operatorframework.io.bundle.package.v1: demo",
    good="# metadata/annotations.yaml\nannotations:\n  operators.operatorframework.io.bundle.package.v1: demo",
)
def no_annotations(bundle: BundleView) -> Iterator[Finding]:
    """The annotations are a mapping of texts under the key ``annotations``, in a file of any name in ``metadata``."""
    if not is_laid_out(bundle) or bundle.annotations_file is not None:
        return
    for file in bundle.below(METADATA):
        if file.name.startswith("annotations") and (error := file.content.error) is not None:
            told = f"the annotations can't be read: {error.problem}"
            yield Finding(told, file.path, line=error.line, column=error.column, hint="Put its YAML right.")
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
def annotation_missing(bundle: BundleView, file: Manifest) -> Iterator[Finding]:
    """They tell what the bundle is (media type, manifests, metadata) and where it belongs (package, channels)."""
    for key in REQUIRED:
        if key not in bundle.annotations:
            yield Finding(f"the annotation {key} is missing", file.path, ("annotations",))


@rule(
    "ANN-MEDIATYPE-MISMATCH",
    VALIDATOR,
    Severity.ERROR,
    "the media type annotation is not that of the manifests",
    hint="Set it to the media type of what is in the manifests directory: registry+v1 if that has a "
    "ClusterServiceVersion, helm if it has a Chart.yaml, else plain.",
    bad="annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v2",
    good="annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1",
)
@_annotated
def media_type_mismatch(bundle: BundleView, file: Manifest) -> Iterator[Finding]:
    """A cluster unpacks a bundle by its media type. Files that hold no object are passed over in finding it out."""
    told = bundle.annotations.get(labels.MEDIA_TYPE, "")
    wanted = media_type(bundle, MANIFESTS)
    if told != wanted:
        message = f"the media type is {told!r}, but the manifests make it {wanted!r}"
        yield Finding(message, file.path, ("annotations", labels.MEDIA_TYPE))


@rule(
    "ANN-CHANNELS-EMPTY",
    VALIDATOR,
    Severity.ERROR,
    "the annotations name no channel",
    hint="Name the channels that the bundle belongs to, with commas between.",
    bad="annotations:\n  operators.operatorframework.io.bundle.channels.v1: ''",
    good="annotations:\n  operators.operatorframework.io.bundle.channels.v1: candidate,stable",
)
@_annotated
def channels_empty(bundle: BundleView, file: Manifest) -> Iterator[Finding]:
    """An operator is subscribed to by a channel of its package; a bundle in no channel can't be installed."""
    if not bundle.annotations.get(labels.CHANNELS):
        yield Finding(f"the annotation {labels.CHANNELS} names no channel", file.path, ("annotations", labels.CHANNELS))


@rule(
    "ANN-DEFAULT-CHANNEL-EMPTY",
    VALIDATOR,
    Severity.ERROR,
    "the default channel is empty",
    hint="Name one of the channels, or remove the annotation.",
    bad="annotations:\n  operators.operatorframework.io.bundle.channel.default.v1: ''",
    good="annotations:\n  operators.operatorframework.io.bundle.channel.default.v1: stable",
)
@_annotated
def default_channel_empty(bundle: BundleView, file: Manifest) -> Iterator[Finding]:
    """Whoever names no channel is subscribed to the default channel. The annotation may be left out, not be empty."""
    if bundle.annotations.get(labels.DEFAULT_CHANNEL) == "":
        told = f"the annotation {labels.DEFAULT_CHANNEL} is empty"
        yield Finding(told, file.path, ("annotations", labels.DEFAULT_CHANNEL))
