"""What is to be kept of a catalog, as people write it: ``PACKAGE[:CHANNEL[,CHANNEL...]][@RANGE]``."""

from __future__ import annotations

from dataclasses import dataclass

from opmkit.bundle.versions import VersionRange
from opmkit.index.errors import CatalogError

FORM = "PACKAGE[:CHANNEL[,CHANNEL...]][@RANGE]"
_ADVICE = f'Write {FORM}, such as lagoon, lagoon:alpha,beta or "lagoon:alpha@>=1.0.0 <2.0.0".'


@dataclass(frozen=True, slots=True)
class Wanted:
    """A package, of which these channels alone if any are named; and of them what is in the range, "" for all."""

    package: str
    channels: tuple[str, ...] = ()
    version_range: str = ""

    def __str__(self) -> str:
        """The text that it is read from."""
        channels = f":{','.join(self.channels)}" if self.channels else ""
        return f"{self.package}{channels}{f'@{self.version_range}' if self.version_range else ''}"


def parse_wanted(text: str) -> Wanted:
    """Read what is to be kept; ranges are those of ``skipRange``.

    Raises:
        CatalogError: with the place, from 1, of what is missing or no range.
    """
    named, at, version_range = text.partition("@")
    package, colon, rest = named.partition(":")
    channels = rest.split(",") if colon else []
    if not package:
        raise _misread(text, 0, "the name of a package is missing")
    for number, channel in enumerate(channels):
        if not channel:
            start = len(package) + 1 + len(",".join(channels[:number])) + bool(number)
            raise _misread(text, start, "the name of a channel is missing")
    if at:
        _check_range(text, version_range, len(named) + 1)
    return Wanted(package, tuple(dict.fromkeys(channels)), version_range)


def _check_range(text: str, version_range: str, start: int) -> None:
    try:
        complete = VersionRange.parse(version_range).is_complete
    except ValueError as error:
        raise _misread(text, start, f"there is no range of versions: {error}") from error
    if not complete:
        raise _misread(text, start, "the range has an alternative without a version")


def _misread(text: str, start: int, problem: str) -> CatalogError:
    return CatalogError(f'what to keep, "{text}", can\'t be read at {start + 1}: {problem}', advice=_ADVICE)
