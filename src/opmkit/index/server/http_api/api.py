"""Responses of the web API, with the paths, parameters and status codes of catalogd."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from opmkit.index.server.http_api.content import FIELDS, Section

if TYPE_CHECKING:
    from opmkit.index.server.http_api.content import CatalogContent
    from opmkit.index.server.http_api.request import Request

_PATH = re.compile(r"/catalogs/(?P<catalog>[^/]+)/api/v1/(?P<endpoint>all|metas)")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_NAME = 253
_METHODS = ("GET", "HEAD")
_QUALITY = re.compile(r"\s*;\s*q\s*=\s*0(\.0*)?\s*")
MIN_COMPRESSED = 1024
"""Bytes of the smallest response that is compressed."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response: either text, or sections of the catalog."""

    status: HTTPStatus
    headers: tuple[tuple[str, str], ...] = ()
    text: bytes = b""
    sections: tuple[Section, ...] = ()

    @property
    def size(self) -> int:
        """Number of bytes before compression."""
        return len(self.text) + sum(section.length for section in self.sections)


@dataclass(frozen=True, slots=True)
class CatalogApi:
    """The API for one catalog, which is called ``name`` in URLs, or anything if that is empty."""

    content: CatalogContent
    name: str = ""

    def answer(self, request: Request) -> Response:
        """Return the response to a request, without regard to whether the method is HEAD."""
        path = _PATH.fullmatch(request.path)
        if path is None:
            return error_response(HTTPStatus.NOT_FOUND, "404 page not found")
        if request.method not in _METHODS:
            response = error_response(HTTPStatus.METHOD_NOT_ALLOWED, "Method Not Allowed")
            return Response(response.status, (*response.headers, ("Allow", ", ".join(_METHODS))), response.text)
        catalog = path["catalog"]
        if not is_catalog_name(catalog):
            return error_response(HTTPStatus.BAD_REQUEST, "invalid catalog name: not a DNS subdomain in lower case")
        is_query = path["endpoint"] == "metas"
        parameters = dict(reversed(parse_qsl(request.query, keep_blank_values=True))) if is_query else {}
        if not parameters.keys() <= set(FIELDS):
            return error_response(HTTPStatus.BAD_REQUEST)
        if self.name not in ("", catalog):
            return error_response(HTTPStatus.NOT_FOUND)
        validators = (
            ("Last-Modified", formatdate(self.content.modified, usegmt=True)),
            ("ETag", f'W/"{self.content.tag}"'),
            ("Vary", "Accept-Encoding"),
        )
        status = self._check_preconditions(request)
        if status is not HTTPStatus.OK:
            return Response(status, validators)
        headers = (("Content-Type", "application/jsonl"), *validators)
        return Response(status, headers, sections=self.content.select(**parameters))

    def _check_preconditions(self, request: Request) -> HTTPStatus:
        """Evaluate the conditions of a request, in the order of RFC 9110; the entity tag is weak."""
        matches, excluded = request.headers.get("if-match"), request.headers.get("if-none-match")
        if matches is not None:
            if matches.strip() != "*":
                return HTTPStatus.PRECONDITION_FAILED
        elif (limit := _seconds(request.headers.get("if-unmodified-since"))) is not None and (
            self.content.modified > limit
        ):
            return HTTPStatus.PRECONDITION_FAILED
        if excluded is not None:
            tags = {tag.strip().removeprefix("W/") for tag in excluded.split(",")}
            return HTTPStatus.NOT_MODIFIED if tags & {"*", f'"{self.content.tag}"'} else HTTPStatus.OK
        since = _seconds(request.headers.get("if-modified-since"))
        return HTTPStatus.OK if since is None or self.content.modified > since else HTTPStatus.NOT_MODIFIED


def is_catalog_name(name: str) -> bool:
    """Return whether a ClusterCatalog can have the name."""
    return len(name) <= _MAX_NAME and _NAME.fullmatch(name) is not None


def error_response(status: HTTPStatus, text: str = "") -> Response:
    """Return a response with a line of text, which defaults to the status."""
    headers = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))
    return Response(status, headers, f"{text or f'{status.value} {status.phrase}'}\n".encode())


def accepts_gzip(request: Request) -> bool:
    """Return whether the client accepts responses that are compressed by gzip."""
    return any(_is_gzip(coding) for coding in request.headers.get("accept-encoding", "").split(","))


def _is_gzip(coding: str) -> bool:
    name, separator, quality = coding.partition(";")
    return name.strip().lower() == "gzip" and _QUALITY.fullmatch(separator + quality) is None


def _seconds(date: str | None) -> float | None:
    """Return the time of a date in a header, or None if there is none or it is invalid."""
    try:
        parsed = parsedate_to_datetime(date or "")
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
