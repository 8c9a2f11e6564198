"""Conditional requests and ranges, as Go's ``net/http`` evaluates them for catalogd (RFC 9110, sections 13 and 14)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"[a-z]{{3}}, (?P<day>\d\d) (?P<month>[a-z]{{3}}) (?P<year>\d{{4}}) {_TIME} GMT",
        rf"[a-z]{{6,9}}, (?P<day>\d\d)-(?P<month>[a-z]{{3}})-(?P<year>\d\d) {_TIME} [a-z]{{3,4}}",
        rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})",
    )
)
"""The formats of dates in HTTP: the current one, that of RFC 850, and that of C's asctime."""
_PIVOT = 69
"""Years with two digits up to this one are in the 21st century."""
_TAG = re.compile(r'[\s,]*((?:W/)?"[\x21\x23-\x7e\x80-\xff]*"|\*)')
_RANGE = re.compile(r"\s*(\d*)\s*-\s*(\d*)\s*")
_MAX_DIGITS = 18


class InvalidRange(Exception):
    """A range that cannot be served; ``is_outside`` means that the range itself is valid, but after the content."""

    def __init__(self, *, is_outside: bool = False) -> None:
        """Create the error."""
        super().__init__("invalid range: failed to overlap" if is_outside else "invalid range")
        self.is_outside = is_outside


class Validators(NamedTuple):
    """The validators of the content: the time of its last change in seconds of Unix time, and a weak entity tag."""

    modified: int
    tag: str


class ByteRange(NamedTuple):
    """A part of the content."""

    offset: int
    length: int


def check_preconditions(headers: Mapping[str, str], validators: Validators) -> HTTPStatus:
    """Return OK, NOT_MODIFIED or PRECONDITION_FAILED; invalid dates are ignored."""
    if headers.get("if-match"):
        if "*" not in _tags(headers["if-match"]):  # a weak tag never matches
            return HTTPStatus.PRECONDITION_FAILED
    elif (limit := parse_date(headers.get("if-unmodified-since"))) is not None and validators.modified > limit:
        return HTTPStatus.PRECONDITION_FAILED
    if headers.get("if-none-match"):
        tags = {tag.removeprefix("W/") for tag in _tags(headers["if-none-match"])}
        return HTTPStatus.NOT_MODIFIED if tags & {"*", f'"{validators.tag}"'} else HTTPStatus.OK
    since = parse_date(headers.get("if-modified-since"))
    return HTTPStatus.OK if since is None or validators.modified > since else HTTPStatus.NOT_MODIFIED


def _tags(text: str) -> Iterator[str]:
    """Yield the entity tags of a list, and ``*``, up to the first invalid part."""
    position = 0
    while matched := _TAG.match(text, position):
        yield matched[1]
        position = matched.end()


def parse_date(text: str | None) -> int | None:
    """Return the Unix time of a date, or None for an invalid one, or without one."""
    matched = next(filter(None, (pattern.fullmatch(text or "") for pattern in _DATES)), None)
    if matched is None or matched["month"].lower() not in _MONTHS:
        return None
    year = int(matched["year"])
    if len(matched["year"]) == 2:
        year += 1900 if year >= _PIVOT else 2000
    month = _MONTHS.index(matched["month"].lower()) + 1
    day, hour, minute, second = (int(matched[name]) for name in ("day", "hour", "minute", "second"))
    try:
        return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp())
    except ValueError:
        return None


def requested_range(headers: Mapping[str, str], size: int, modified: int) -> ByteRange | None:
    """Return the part of content of ``size`` bytes that a request asks for; None for all of it.

    Several ranges, and those with a condition that is not met, are ignored.

    Raises:
        InvalidRange: the range is invalid or starts after the content.
    """
    text = headers.get("range", "")
    condition = headers.get("if-range", "")
    if not text or (condition and parse_date(condition) != modified):
        return None
    unit, separator, listed = text.partition("bytes=")
    if unit or not separator:
        raise InvalidRange
    requested = [_parse_range(part, size) for part in listed.split(",") if part.strip()]
    ranges = [part for part in requested if part is not None]
    if requested and not ranges and size:
        raise InvalidRange(is_outside=True)
    return ranges[0] if len(ranges) == 1 else None


def _parse_range(text: str, size: int) -> ByteRange | None:
    """Return a part of the content; None if it starts after its end."""
    matched = _RANGE.fullmatch(text)
    if matched is None or max(len(matched[1]), len(matched[2])) > _MAX_DIGITS or not (matched[1] or matched[2]):
        raise InvalidRange
    if not matched[1]:
        length = min(int(matched[2]), size)
        return ByteRange(size - length, length)
    first = int(matched[1])
    if first >= size:
        return None
    if not matched[2]:
        return ByteRange(first, size - first)
    last = int(matched[2])
    if first > last:
        raise InvalidRange
    return ByteRange(first, min(last, size - 1) - first + 1)
