"""Our own rules for the annotations of a bundle: its package, its channels, its directories."""

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
"""Characters of a list of channels that a finding shows: there may be a finding for each channel."""


@rule(
    "ANN-PACKAGE-EMPTY",
    VALIDATOR,
    Severity.ERROR,
    "a bundle names no package",
    hint="Set the annotation to the name of the package.",
    bad=f"annotations: {{{labels.PACKAGE}: ''}}",
    good=f"annotations: {{{labels.PACKAGE}: demo-operator}}",
    compat=OPMKIT_ONLY,
)
def package_empty(bundle: BundleView) -> Iterator[Finding]:
    """A catalog files a bundle under its package, and takes none without."""
    if bundle.annotations_file and not bundle.annotations.get(labels.PACKAGE, "missing").strip():
        yield _annotation_finding(bundle, labels.PACKAGE, "is empty")


@rule(
    "ANN-DEFAULT-CHANNEL-UNKNOWN",
    VALIDATOR,
    Severity.WARNING,
    "the default channel is none of the bundle's channels",
    hint="Add the default channel to the channels, or make one of them the default.",
    bad=f"annotations: {{{labels.CHANNELS}: 'alpha,beta', {labels.DEFAULT_CHANNEL}: stable}}",
    good=f"annotations: {{{labels.CHANNELS}: 'alpha,stable', {labels.DEFAULT_CHANNEL}: stable}}",
    compat=OPMKIT_ONLY,
)
def default_channel_unknown(bundle: BundleView) -> Iterator[Finding]:
    """A package whose default channel has no bundle can't be installed without naming a channel.

    It is right for a bundle that is not in its package's default channel, as long as another one is.
    """
    default = bundle.annotations.get(labels.DEFAULT_CHANNEL, "").strip()
    listed = bundle.annotations.get(labels.CHANNELS, "")
    channels = {channel.strip() for channel in listed.split(",")}
    if default and listed and default not in channels:
        yield _annotation_finding(bundle, labels.DEFAULT_CHANNEL, f"is {default!r}, none of {listed!r}")


@rule(
    "ANN-CHANNELS-ODD",
    VALIDATOR,
    Severity.WARNING,
    "a channel is blank, listed twice, or has blanks around it",
    hint="Write the channels with a comma between and nothing else: alpha,stable.",
    bad=f"annotations: {{{labels.CHANNELS}: 'alpha, stable,,alpha'}}",
    good=f"annotations: {{{labels.CHANNELS}: 'alpha,stable'}}",
    compat=OPMKIT_ONLY,
)
def channels_odd(bundle: BundleView) -> Iterator[Finding]:
    """Catalogs take what is between the commas for the name of a channel, blanks and all."""
    listed = bundle.annotations.get(labels.CHANNELS, "")
    channels = listed.split(",") if listed else []
    shown = listed if len(listed) <= _SHOWN else f"{listed[:_SHOWN]}..."
    counts = Counter(channels)
    odd = {channel for channel, count in counts.items() if channel.strip() != channel or not channel or count > 1}
    for channel in sorted(odd):
        told = "is listed twice" if counts[channel] > 1 else "is blank or has blanks around it"
        yield _annotation_finding(bundle, labels.CHANNELS, f"is {shown!r}: the channel {channel!r} {told}")


@rule(
    "ANN-DIRECTORY-UNKNOWN",
    VALIDATOR,
    Severity.ERROR,
    "the annotations name a directory that is not there",
    hint="Write the directory as it is in the image: manifests/ and metadata/.",
    bad=f"annotations: {{{labels.MANIFESTS}: deploy/}}  # and the files are in manifests/",
    good=f"annotations: {{{labels.MANIFESTS}: manifests/}}",
    compat=OPMKIT_ONLY,
)
def directory_unknown(bundle: BundleView) -> Iterator[Finding]:
    """An image is unpacked by what its labels say: a bundle whose manifests are elsewhere is installed without any."""
    for key in (labels.MANIFESTS, labels.METADATA):
        value = bundle.annotations.get(key)
        directory = (value or "").strip("/").removeprefix("./")
        if value is not None and directory not in ("", ".") and directory not in bundle.directories:
            yield _annotation_finding(bundle, key, f"is {value!r}, a directory that the bundle does not have")


def _annotation_finding(bundle: BundleView, key: str, told: str) -> Finding:
    file = bundle.annotations_file.path if bundle.annotations_file else ""
    return Finding(f"the annotation {key} {told}", file, ("annotations", key), subject=key)
