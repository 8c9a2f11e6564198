"""The labels of a bundle's image, which catalogs and registries read without pulling it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle import labels as names
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.validation.bundle_view import BundleView

VALIDATOR = "labels"
MEDIA_TYPES = ("registry+v1", "plain", "helm", "plain+v0")

_REQUIRED = (names.MEDIA_TYPE, names.MANIFESTS, names.METADATA, names.PACKAGE, names.CHANNELS)
_PREFIX = "operators.operatorframework.io"
_BUILD_AGAIN = "Build the image from its manifests and metadata."
_GOOD = f"""LABEL {names.MEDIA_TYPE}=registry+v1
LABEL {names.MANIFESTS}=manifests/
LABEL {names.METADATA}=metadata/
LABEL {names.PACKAGE}=lagoon
LABEL {names.CHANNELS}=alpha,stable
LABEL {names.DEFAULT_CHANNEL}=stable"""


def _bundle_labels(bundle: BundleView) -> Mapping[str, str]:
    """The labels that say something on the bundle; none for a directory, and for an image that is no bundle."""
    return {key: value for key, value in (bundle.image_labels or {}).items() if key.startswith(_PREFIX)}


@rule(
    "LABEL-NONE",
    VALIDATOR,
    Severity.ERROR,
    "the image has none of a bundle's labels",
    hint=_BUILD_AGAIN,
    bad="LABEL name=lagoon",
    good=_GOOD,
    compat=OPMKIT_ONLY,
)
def none(bundle: BundleView) -> Iterator[Finding]:
    """Tools that list bundles look at the labels first, and take an image without them for something else."""
    if bundle.image_labels is not None and not _bundle_labels(bundle):
        yield Finding("the image has no label that begins with operators.operatorframework.io: it is no bundle image")


@rule(
    "LABEL-MISSING",
    VALIDATOR,
    Severity.ERROR,
    "a label that a bundle's image must have is missing or empty",
    hint=_BUILD_AGAIN,
    bad=_GOOD.replace(f"LABEL {names.PACKAGE}=lagoon\n", ""),
    good=_GOOD,
    compat=OPMKIT_ONLY,
)
def missing(bundle: BundleView) -> Iterator[Finding]:
    """Media type, directories, package and channels have to be there; the default channel may be left out."""
    labels = _bundle_labels(bundle)
    for key in _REQUIRED if labels else ():
        if not labels.get(key, "").strip():
            yield Finding(f"the image's label {key} is {'empty' if key in labels else 'missing'}", subject=key)


@rule(
    "LABEL-MEDIATYPE",
    VALIDATOR,
    Severity.ERROR,
    "the label of the media type names none that bundles have",
    hint="Write registry+v1 for manifests with a ClusterServiceVersion.",
    bad=f"LABEL {names.MEDIA_TYPE}=registry/v1",
    good=f"LABEL {names.MEDIA_TYPE}=registry+v1",
    compat=OPMKIT_ONLY,
)
def media_type(bundle: BundleView) -> Iterator[Finding]:
    """Clusters choose by the media type how a bundle is unpacked and installed."""
    value = _bundle_labels(bundle).get(names.MEDIA_TYPE)
    if value and value not in MEDIA_TYPES:
        yield Finding(f"the image's media type is {value!r}, not one of {', '.join(MEDIA_TYPES)}", subject=value)


@rule(
    "LABEL-DEFAULT-CHANNEL",
    VALIDATOR,
    Severity.ERROR,
    "the default channel of the labels is none of their channels",
    hint="Name one of the channels as the default, or add the default to the channels.",
    bad=f"LABEL {names.CHANNELS}=alpha\nLABEL {names.DEFAULT_CHANNEL}=stable",
    good=f"LABEL {names.CHANNELS}=alpha,stable\nLABEL {names.DEFAULT_CHANNEL}=stable",
    compat=OPMKIT_ONLY,
)
def default_channel(bundle: BundleView) -> Iterator[Finding]:
    """A fresh catalog can't take in a first bundle that is not in its own default channel."""
    labels = _bundle_labels(bundle)
    default = labels.get(names.DEFAULT_CHANNEL, "")
    channels = [channel.strip() for channel in labels.get(names.CHANNELS, "").split(",")]
    if default and default not in channels:
        yield Finding(f"the image's default channel {default} is none of {', '.join(channels)}", subject=default)


@rule(
    "LABEL-DIFFERS",
    VALIDATOR,
    Severity.ERROR,
    "a label of the image differs from metadata/annotations.yaml",
    hint=_BUILD_AGAIN,
    bad=f"LABEL {names.PACKAGE}=lagoon    # and in annotations.yaml: {names.PACKAGE}: laguna",
    good=f"LABEL {names.PACKAGE}=lagoon    # and in annotations.yaml: {names.PACKAGE}: lagoon",
    compat=OPMKIT_ONLY,
)
def differs(bundle: BundleView) -> Iterator[Finding]:
    """Some tools go by the labels and some by the file: the bundle would be two things at once."""
    file, labels = bundle.annotations_file, _bundle_labels(bundle)
    if file is None or not labels:
        return
    for key, value in bundle.annotations.items():
        if key in labels and labels[key] != value:
            message = f"{key} is {value!r} here, and {labels[key]!r} in the image's labels"
            yield Finding(message, file.path, ("annotations", key), subject=key)
