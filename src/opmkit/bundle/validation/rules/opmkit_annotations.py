"""Rules of the validator ``opmkit``: package, channels and directories in the annotations."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from opmkit.bundle import labels
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.validation.bundle_view import BundleView

VALIDATOR = "opmkit"
_SHOWN = 1000
"""Maximum characters of the list of channels in a message, as there can be a finding for each channel."""


@rule(
    "ANN-PACKAGE-EMPTY",
    VALIDATOR,
    Severity.ERROR,
    "empty package name",
    hint="Set the annotation to the name of the package.",
    bad=f"annotations: {{{labels.PACKAGE}: ''}}",
    good=f"annotations: {{{labels.PACKAGE}: demo-operator}}",
    compat=OPMKIT_ONLY,
)
def package_empty(bundle: BundleView) -> Iterator[Finding]:
    """Catalogs reject bundles without a package."""
    if bundle.annotations_file and not bundle.annotations.get(labels.PACKAGE, "missing").strip():
        yield _annotation_finding(bundle, labels.PACKAGE, "is empty")


@rule(
    "ANN-DEFAULT-CHANNEL-UNKNOWN",
    VALIDATOR,
    Severity.WARNING,
    "the default channel is not one of the bundle's channels",
    hint="Add the default channel to the channels, or set it to one of them.",
    bad=f"annotations: {{{labels.CHANNELS}: 'alpha,beta', {labels.DEFAULT_CHANNEL}: stable}}",
    good=f"annotations: {{{labels.CHANNELS}: 'alpha,stable', {labels.DEFAULT_CHANNEL}: stable}}",
    compat=OPMKIT_ONLY,
)
def default_channel_unknown(bundle: BundleView) -> Iterator[Finding]:
    """A package whose default channel has no bundle cannot be installed without naming a channel.

    Ignore this warning if another bundle of the package is in the default channel.
    """
    default = bundle.annotations.get(labels.DEFAULT_CHANNEL, "").strip()
    listed = bundle.annotations.get(labels.CHANNELS, "")
    channels = {channel.strip() for channel in listed.split(",")}
    if default and listed and default not in channels:
        yield _annotation_finding(bundle, labels.DEFAULT_CHANNEL, f"is {default!r}, not one of {listed!r}")


@rule(
    "ANN-CHANNELS-ODD",
    VALIDATOR,
    Severity.WARNING,
    "blank or duplicate channel, or a channel with surrounding spaces",
    hint="Separate the channels by commas without spaces: alpha,stable.",
    bad=f"annotations: {{{labels.CHANNELS}: 'alpha, stable,,alpha'}}",
    good=f"annotations: {{{labels.CHANNELS}: 'alpha,stable'}}",
    compat=OPMKIT_ONLY,
)
def channels_odd(bundle: BundleView) -> Iterator[Finding]:
    """Catalogs split the list at commas and keep spaces as part of the channel name."""
    listed = bundle.annotations.get(labels.CHANNELS, "")
    channels = listed.split(",") if listed else []
    shown = listed if len(listed) <= _SHOWN else f"{listed[:_SHOWN]}..."
    counts = Counter(channels)
    odd = {channel for channel, count in counts.items() if channel.strip() != channel or not channel or count > 1}
    for channel in sorted(odd):
        problem = "is listed twice" if counts[channel] > 1 else "is blank or has surrounding spaces"
        yield _annotation_finding(bundle, labels.CHANNELS, f"is {shown!r}: channel {channel!r} {problem}")


@rule(
    "ANN-DIRECTORY-UNKNOWN",
    VALIDATOR,
    Severity.ERROR,
    "a directory of the annotations does not exist",
    hint="Write the directory as it is in the image: manifests/ and metadata/.",
    bad=f"annotations: {{{labels.MANIFESTS}: deploy/}}  # and the files are in manifests/",
    good=f"annotations: {{{labels.MANIFESTS}: manifests/}}",
    compat=OPMKIT_ONLY,
)
def directory_unknown(bundle: BundleView) -> Iterator[Finding]:
    """Clusters unpack an image by its labels; if the manifests are in another directory, none are installed."""
    for key in (labels.MANIFESTS, labels.METADATA):
        value = bundle.annotations.get(key)
        directory = (value or "").strip("/").removeprefix("./")
        if value is not None and directory not in ("", ".") and directory not in bundle.directories:
            yield _annotation_finding(bundle, key, f"is {value!r}, which does not exist in the bundle")


def _annotation_finding(bundle: BundleView, key: str, problem: str) -> Finding:
    file = bundle.annotations_file.path if bundle.annotations_file else ""
    return Finding(f"annotation {key} {problem}", file, ("annotations", key), subject=key)
