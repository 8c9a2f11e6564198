"""Rules of the validator ``labels``: labels of a bundle image, which tools read without pulling it."""

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
    """Return the image's labels for bundles, {} for a directory."""
    return {key: value for key, value in (bundle.image_labels or {}).items() if key.startswith(_PREFIX)}


@rule(
    "LABEL-NONE",
    VALIDATOR,
    Severity.ERROR,
    "the image has no bundle labels",
    hint=_BUILD_AGAIN,
    bad="LABEL name=lagoon",
    good=_GOOD,
    compat=OPMKIT_ONLY,
)
def none(bundle: BundleView) -> Iterator[Finding]:
    """Tools recognize bundle images by their labels."""
    if bundle.image_labels is not None and not _bundle_labels(bundle):
        yield Finding("the image is not a bundle image: no label begins with operators.operatorframework.io")


@rule(
    "LABEL-MISSING",
    VALIDATOR,
    Severity.ERROR,
    "missing or empty label of a bundle image",
    hint=_BUILD_AGAIN,
    bad=_GOOD.replace(f"LABEL {names.PACKAGE}=lagoon\n", ""),
    good=_GOOD,
    compat=OPMKIT_ONLY,
)
def missing(bundle: BundleView) -> Iterator[Finding]:
    """Media type, directories, package and channels are required; the default channel is optional."""
    labels = _bundle_labels(bundle)
    for key in _REQUIRED if labels else ():
        if not labels.get(key, "").strip():
            yield Finding(f"image label {key} is {'empty' if key in labels else 'missing'}", subject=key)


@rule(
    "LABEL-MEDIATYPE",
    VALIDATOR,
    Severity.ERROR,
    "unsupported media type label",
    hint="Write registry+v1 for manifests with a ClusterServiceVersion.",
    bad=f"LABEL {names.MEDIA_TYPE}=registry/v1",
    good=f"LABEL {names.MEDIA_TYPE}=registry+v1",
    compat=OPMKIT_ONLY,
)
def media_type(bundle: BundleView) -> Iterator[Finding]:
    """The media type determines how clusters unpack and install a bundle."""
    value = _bundle_labels(bundle).get(names.MEDIA_TYPE)
    if value and value not in MEDIA_TYPES:
        yield Finding(f"the media type of the image is {value!r}, not one of {', '.join(MEDIA_TYPES)}", subject=value)


@rule(
    "LABEL-DEFAULT-CHANNEL",
    VALIDATOR,
    Severity.ERROR,
    "the default channel label is not one of the channels",
    hint="Set the default channel to one of the channels, or add it to the channels.",
    bad=f"LABEL {names.CHANNELS}=alpha\nLABEL {names.DEFAULT_CHANNEL}=stable",
    good=f"LABEL {names.CHANNELS}=alpha,stable\nLABEL {names.DEFAULT_CHANNEL}=stable",
    compat=OPMKIT_ONLY,
)
def default_channel(bundle: BundleView) -> Iterator[Finding]:
    """The first bundle of a package in a catalog must be in its default channel."""
    labels = _bundle_labels(bundle)
    default = labels.get(names.DEFAULT_CHANNEL, "")
    channels = [channel.strip() for channel in labels.get(names.CHANNELS, "").split(",")]
    if default and default not in channels:
        yield Finding(
            f"the default channel {default} of the image is not one of {', '.join(channels)}", subject=default
        )


@rule(
    "LABEL-DIFFERS",
    VALIDATOR,
    Severity.ERROR,
    "an image label differs from metadata/annotations.yaml",
    hint=_BUILD_AGAIN,
    bad=f"LABEL {names.PACKAGE}=lagoon    # and in annotations.yaml: {names.PACKAGE}: laguna",
    good=f"LABEL {names.PACKAGE}=lagoon    # and in annotations.yaml: {names.PACKAGE}: lagoon",
    compat=OPMKIT_ONLY,
)
def differs(bundle: BundleView) -> Iterator[Finding]:
    """Some tools read the labels and others the file, so both must be equal."""
    file, labels = bundle.annotations_file, _bundle_labels(bundle)
    if file is None or not labels:
        return
    for key, value in bundle.annotations.items():
        if key in labels and labels[key] != value:
            message = f"{key} is {value!r} in the file, but {labels[key]!r} in the image labels"
            yield Finding(message, file.path, ("annotations", key), subject=key)
