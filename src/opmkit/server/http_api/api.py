"""Requests and responses of the web API, with the paths, parameters and status codes of catalogd."""

from __future__ import annotations

import posixpath
import re
from datetime import UTC, datetime
from email.utils import formatdate
from functools import cached_property
from html import escape
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote, unquote_plus

from msgspec import Struct

from opmkit.server.http_api.content import FIELDS, Section, SelectedDocuments
from opmkit.server.settings import is_catalog_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.server.http_api.content import CatalogLines


_PATH = re.compile(r"/catalogs/(?P<catalog>[^/]+)/api/v1/(?P<endpoint>all|metas)")
_METHODS = ("GET", "HEAD")
_QUALITY = re.compile(r"\s*;\s*q\s*=\s*0(\.0*)?\s*")
_CONTENT_TYPE = ("Content-Type", "application/jsonl")
RANGES = ("Accept-Ranges", "bytes")
VARY = ("Vary", "Accept-Encoding")
_URL_CHARACTERS = "%/?:@!$&'()*+,;=~[]"
MIN_COMPRESSED = 1024
"""Bytes of the smallest response that is compressed."""


class HttpResponse(Struct, frozen=True, dict=True):
    """A response: either text, or sections of the catalog."""

    status: HTTPStatus
    headers: tuple[tuple[str, str], ...] = ()
    text: bytes = b""
    sections: tuple[Section, ...] | SelectedDocuments = ()

    @cached_property
    def size(self) -> int:
        """Number of bytes before compression."""
        return len(self.text) + sum(section.length for section in self.sections)

    @property
    def is_compressible(self) -> bool:
        """Whether the response is large enough to compress, and complete."""
        return self.status is HTTPStatus.OK and bool(self.sections) and self.size >= MIN_COMPRESSED


class CatalogApi(Struct, frozen=True):
    """The API for one catalog, which is called ``name`` in URLs, or anything if that is empty."""

    content: CatalogLines
    name: str = ""

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request, without regard to whether the method is HEAD."""
        if request.method not in _METHODS:
            response = error_response(HTTPStatus.METHOD_NOT_ALLOWED, "Method Not Allowed")
            return HttpResponse(response.status, (*response.headers, ("Allow", ", ".join(_METHODS))), response.text)
        clean = _clean_path(request.raw_path)
        if clean != request.raw_path:
            return _redirect(f"{clean}?{request.query}" if request.query else clean)
        path = _PATH.fullmatch(request.path)
        if path is None:
            return error_response(HTTPStatus.NOT_FOUND, "404 page not found")
        if not is_catalog_name(path["catalog"]):
            return error_response(HTTPStatus.BAD_REQUEST, "invalid catalog name: not a DNS subdomain in lower case")
        parameters = parse_parameters(request.query) if path["endpoint"] == "metas" else {}
        if not parameters.keys() <= set(FIELDS):
            return error_response(HTTPStatus.BAD_REQUEST)
        if self.name not in ("", path["catalog"]):
            return error_response(HTTPStatus.NOT_FOUND)
        headers = (
            ("Last-Modified", formatdate(self.content.modified, usegmt=True)),
            ("ETag", f'W/"{self.content.tag}"'),
            VARY,
        )
        status = check_preconditions(request.headers, Validators(self.content.modified, self.content.tag))
        if status is not HTTPStatus.OK:
            return HttpResponse(status, headers)
        if path["endpoint"] == "all":
            return self._all(request, headers)
        return HttpResponse(status, (_CONTENT_TYPE, *headers), sections=self.content.select(**parameters))

    def _all(self, request: HttpRequest, headers: tuple[tuple[str, str], ...]) -> HttpResponse:
        """Return all documents, or the requested range."""
        everything = self.content.everything
        size = sum(section.length for section in everything)
        headers = (_CONTENT_TYPE, *headers, RANGES)
        try:
            part = requested_range(request.headers, size, self.content.modified)
        except InvalidRange as error:
            response = error_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, str(error))
            total = (("Content-Range", f"bytes */{size}"),) if error.is_outside else ()
            return HttpResponse(response.status, (*response.headers, *total), response.text)
        if part is None:
            return HttpResponse(HTTPStatus.OK, headers, sections=everything)
        last = part.offset + part.length - 1
        content_range = ("Content-Range", f"bytes {part.offset}-{last}/{size}")
        return HttpResponse(HTTPStatus.PARTIAL_CONTENT, (*headers, content_range), sections=(Section(*part),))


def parse_parameters(query: str) -> dict[str, str]:
    """Return the first value of each parameter; as in Go, parts with invalid escapes or semicolons are ignored."""
    parameters: dict[str, str] = {}
    for part in query.split("&"):
        if part and ";" not in part and is_escaped(part):
            name, _, value = part.partition("=")
            parameters.setdefault(unquote_plus(name), unquote_plus(value))
    return parameters


def _clean_path(path: str) -> str:
    """Return a path without empty, ``.`` and ``..`` segments; a final slash is preserved."""
    clean = "/" + posixpath.normpath(path).lstrip("/")
    return f"{clean}/" if path.endswith("/") and clean != "/" else clean


def _redirect(location: str) -> HttpResponse:
    """Return a redirection to another path."""
    status = HTTPStatus.TEMPORARY_REDIRECT
    location = quote(location, safe=_URL_CHARACTERS, encoding="latin-1")  # browsers read /\\host as //host
    headers = (("Content-Type", "text/html; charset=utf-8"), ("Location", location), VARY)
    return HttpResponse(status, headers, f'<a href="{escape(location)}">{status.phrase}</a>.\n\n'.encode())


def error_response(status: HTTPStatus, text: str = "") -> HttpResponse:
    """Return a response with a line of text, which defaults to the status."""
    headers = (("Content-Type", "text/plain; charset=utf-8"), VARY, ("X-Content-Type-Options", "nosniff"))
    return HttpResponse(status, headers, f"{text or f'{status.value} {status.phrase}'}\n".encode())


def accepts_gzip(request: HttpRequest) -> bool:
    """Return whether the client accepts responses that are compressed by gzip."""
    return any(_is_gzip(coding) for coding in request.headers.get("accept-encoding", "").split(","))


def _is_gzip(coding: str) -> bool:
    name, separator, quality = coding.partition(";")
    return name.strip().lower() == "gzip" and _QUALITY.fullmatch(separator + quality) is None


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
        InvalidRange: The range is invalid or starts after the content.
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


HEAD_END = b"\r\n\r\n"
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e\x80-\xff]+) HTTP/(\d)\.(\d)")
_FIELD = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
_INVALID_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ABSOLUTE = re.compile(r"https?://[^/?#]*", re.IGNORECASE)


class RequestError(Exception):
    """A request that is answered with an error status, after which the connection is closed."""

    def __init__(self, status: HTTPStatus) -> None:
        """Answer with ``status``."""
        super().__init__(status.phrase)
        self.status = status


class HttpRequest(Struct, frozen=True):
    """A request; names of headers are in lower case, and values of repeated ones are joined by commas.

    ``chunked`` says whether the client understands responses of unknown length. ``raw_path`` has escapes.
    """

    method: str
    raw_path: str
    query: str
    headers: Mapping[str, str]
    keep_alive: bool
    chunked: bool

    @property
    def path(self) -> str:
        """The path without escapes."""
        return unquote(self.raw_path)


def parse_request(head: bytes) -> HttpRequest:
    """Parse the lines before the content; raises RequestError."""
    first, *lines = head.removesuffix(HEAD_END).lstrip(b"\r\n").split(b"\r\n")
    line = _REQUEST_LINE.fullmatch(first)
    if line is None:
        raise RequestError(HTTPStatus.BAD_REQUEST)
    if line[3] != b"1":
        raise RequestError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
    headers: dict[str, str] = {}
    for text in lines:
        matched = _FIELD.fullmatch(text)
        if matched is None:
            raise RequestError(HTTPStatus.BAD_REQUEST)
        name, value = matched[1].decode().lower(), matched[2].decode("latin-1")
        if name == "host" and name in headers:
            raise RequestError(HTTPStatus.BAD_REQUEST)
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    current = line[4] != b"0"
    if current and "host" not in headers:
        raise RequestError(HTTPStatus.BAD_REQUEST)
    path, query = _split_target(line[2].decode("latin-1"))
    options = {option.strip().lower() for option in headers.get("connection", "").split(",")}
    has_content = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    keep_alive = (current or "keep-alive" in options) and "close" not in options and not has_content
    return HttpRequest(line[1].decode(), path, query, headers, keep_alive, current)


def _split_target(target: str) -> tuple[str, str]:
    path, _, query = _ABSOLUTE.sub("", target, count=1).partition("?")
    if not path.startswith("/") or not is_escaped(path):
        raise RequestError(HTTPStatus.BAD_REQUEST)
    return path, query


def is_escaped(text: str) -> bool:
    """Return whether each percent sign in a part of a URL starts a valid escape."""
    return not _INVALID_ESCAPE.search(text)
