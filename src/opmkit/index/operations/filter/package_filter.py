"""Filters of packages, channels and versions: ``PACKAGE[:CHANNEL[,CHANNEL...]][@RANGE]``."""

from __future__ import annotations

from dataclasses import dataclass

from opmkit.bundle.versions import VersionRange
from opmkit.index.errors import CatalogError

FORMAT = "PACKAGE[:CHANNEL[,CHANNEL...]][@RANGE]"
_HINT = f'write {FORMAT}, such as lagoon, lagoon:alpha,beta or "lagoon:alpha@>=1.0.0 <2.0.0"'


@dataclass(frozen=True, slots=True)
class PackageFilter:
    """A package, optionally limited to some of its channels and a version range; "" matches all versions."""

    package: str
    channels: tuple[str, ...] = ()
    version_range: str = ""

    def __str__(self) -> str:
        """Format the filter as it is parsed."""
        channels = f":{','.join(self.channels)}" if self.channels else ""
        return f"{self.package}{channels}{f'@{self.version_range}' if self.version_range else ''}"

    @classmethod
    def parse(cls, text: str) -> PackageFilter:
        """Parse a filter; ranges have the syntax of ``skipRange``.

        Raises:
            CatalogError: The filter is invalid; the message has the position, from 1.
        """
        named, at, version_range = text.partition("@")
        package, colon, rest = named.partition(":")
        channels = rest.split(",") if colon else []
        if not package:
            raise _invalid(text, 0, "missing package name")
        for number, channel in enumerate(channels):
            if not channel:
                start = len(package) + 1 + len(",".join(channels[:number])) + bool(number)
                raise _invalid(text, start, "missing channel name")
        if at:
            _check_range(text, version_range, len(named) + 1)
        return cls(package, tuple(dict.fromkeys(channels)), version_range)


def _check_range(text: str, version_range: str, start: int) -> None:
    try:
        complete = VersionRange.parse(version_range).is_complete
    except ValueError as error:
        raise _invalid(text, start, f"invalid version range: {error}") from error
    if not complete:
        raise _invalid(text, start, "the version range has an alternative without a version")


def _invalid(text: str, start: int, problem: str) -> CatalogError:
    return CatalogError(f'invalid filter "{text}" at position {start + 1}: {problem}', hint=_HINT)
