"""The result of filtering a file-based catalog."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.fbc.blobs import Blobs


@dataclass(frozen=True, slots=True)
class RetainedBundle:
    """A bundle in a channel that matches no filter but is needed, with the reason.

    A whole package that is needed has an empty channel and bundle.
    """

    package: str
    channel: str
    bundle: str
    reason: str

    def __str__(self) -> str:
        """Format the bundle or package with the reason."""
        return f"{self.bundle or f'package {self.package}'} stays: {self.reason}"


@dataclass(frozen=True, slots=True)
class RetainedChannel:
    """A remaining channel: its number of entries and its head, now and before."""

    package: str
    name: str
    bundles: int
    bundles_before: int
    head: str
    head_before: str

    def __str__(self) -> str:
        """Format the channel with the numbers, and with the head if it changed."""
        moved = f", head {self.head} instead of {self.head_before}" if self.head != self.head_before else ""
        return f"channel {self.name}: {self.bundles} of {self.bundles_before} bundles{moved}"


@dataclass(frozen=True, slots=True)
class RemovedCounts:
    """The numbers of removed packages, channels and bundles. A bundle in several channels counts once."""

    packages: int
    channels: int
    bundles: int

    def __str__(self) -> str:
        """Format the numbers."""
        counts = ((self.packages, "package"), (self.channels, "channel"), (self.bundles, "bundle"))
        return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The remaining part of a catalog. Unchanged blobs are the same objects as before."""

    blobs: Blobs
    channels: tuple[RetainedChannel, ...]
    retained: tuple[RetainedBundle, ...]
    removed: RemovedCounts
    warnings: tuple[str, ...] = field(default=())

    def lines(self) -> Iterator[str]:
        """Yield the report: packages with their channels and needed bundles, then the numbers of removed objects."""
        for package in dict.fromkeys(channel.package for channel in self.channels):
            yield f"package {package}"
            yield from (f"  {bundle}" for bundle in self.retained if bundle.package == package and not bundle.channel)
            for channel in self.channels:
                if channel.package == package:
                    yield f"  {channel}"
                    for bundle in self.retained:
                        if (bundle.package, bundle.channel) == (package, channel.name):
                            yield f"    {bundle}"
        yield f"left out: {self.removed}"

    def as_dict(self) -> dict[str, Any]:
        """Return the report in JSON types."""
        return {
            "channels": [asdict(channel) for channel in self.channels],
            "kept": [asdict(bundle) for bundle in self.retained],
            "dropped": asdict(self.removed),
            "warnings": list(self.warnings),
        }
