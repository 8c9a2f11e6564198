"""What is left of a catalog, and what is to be said of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.fbc.blobs import Blobs


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays though nobody named it, and why: a bundle in a channel, or a package, which has neither name."""

    package: str
    channel: str
    bundle: str
    reason: str

    def __str__(self) -> str:
        """The bundle or package with the reason."""
        return f"{self.bundle or f'package {self.package}'} stays: {self.reason}"


@dataclass(frozen=True, slots=True)
class KeptChannel:
    """A channel that stays: how many entries it has and had, and its head now and before."""

    package: str
    name: str
    bundles: int
    bundles_before: int
    head: str
    head_before: str

    def __str__(self) -> str:
        """The channel with its numbers, and its head where that is another."""
        moved = f", head {self.head} instead of {self.head_before}" if self.head != self.head_before else ""
        return f"channel {self.name}: {self.bundles} of {self.bundles_before} bundles{moved}"


@dataclass(frozen=True, slots=True)
class Dropped:
    """How many went; bundles are counted once, in however many channels they were."""

    packages: int
    channels: int
    bundles: int

    def __str__(self) -> str:
        """The numbers in words."""
        told = ((self.packages, "package"), (self.channels, "channel"), (self.bundles, "bundle"))
        return ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for count, kind in told)


@dataclass(frozen=True, slots=True)
class Filtered:
    """A part of a catalog: its ``blobs``, which stay the same objects where they don't change."""

    blobs: Blobs
    channels: tuple[KeptChannel, ...]
    kept: tuple[Kept, ...]
    dropped: Dropped
    warnings: tuple[str, ...] = field(default=())

    def lines(self) -> Iterator[str]:
        """What is to be said in text: packages with their channels, and what stays in them and why; what went."""
        for package in dict.fromkeys(channel.package for channel in self.channels):
            yield f"package {package}"
            yield from (f"  {kept}" for kept in self.kept if kept.package == package and not kept.channel)
            for channel in self.channels:
                if channel.package == package:
                    yield f"  {channel}"
                    reasons = (one for one in self.kept if (one.package, one.channel) == (package, channel.name))
                    yield from (f"    {kept}" for kept in reasons)
        yield f"left out: {self.dropped}"

    def report(self) -> dict[str, Any]:
        """What is to be said in plain JSON types; a package that stays for others has no channel and no bundle."""
        return {
            "channels": [asdict(channel) for channel in self.channels],
            "kept": [asdict(kept) for kept in self.kept],
            "dropped": asdict(self.dropped),
            "warnings": list(self.warnings),
        }
