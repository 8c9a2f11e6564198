"""Responses of the web API, with the paths, parameters and status codes of catalogd."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from email.utils import formatdate
from html import escape
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from opmkit.server.http_api.conditions import InvalidRange, Validators, check_preconditions, requested_range
from opmkit.server.http_api.content import FIELDS, Section
from opmkit.server.http_api.request import is_escaped

if TYPE_CHECKING:
    from opmkit.server.http_api.content import CatalogContent
    from opmkit.server.http_api.request import Request

_PATH = re.compile(r"/catalogs/(?P<catalog>[^/]+)/api/v1/(?P<endpoint>all|metas)")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_NAME = 253
_METHODS = ("GET", "HEAD")
_QUALITY = re.compile(r"\s*;\s*q\s*=\s*0(\.0*)?\s*")
_CONTENT_TYPE = ("Content-Type", "application/jsonl")
RANGES = ("Accept-Ranges", "bytes")
VARY = ("Vary", "Accept-Encoding")
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

    @property
    def is_compressible(self) -> bool:
        """Whether the response is large enough to compress, and complete."""
        return self.status is HTTPStatus.OK and bool(self.sections) and self.size >= MIN_COMPRESSED


@dataclass(frozen=True, slots=True)
class CatalogApi:
    """The API for one catalog, which is called ``name`` in URLs, or anything if that is empty."""

    content: CatalogContent
    name: str = ""

    def answer(self, request: Request) -> Response:
        """Return the response to a request, without regard to whether the method is HEAD."""
        if request.method not in _METHODS:
            response = error_response(HTTPStatus.METHOD_NOT_ALLOWED, "Method Not Allowed")
            return Response(response.status, (*response.headers, ("Allow", ", ".join(_METHODS))), response.text)
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
            return Response(status, headers)
        if path["endpoint"] == "all":
            return self._all(request, headers)
        return Response(status, (_CONTENT_TYPE, *headers), sections=self.content.select(**parameters))

    def _all(self, request: Request, headers: tuple[tuple[str, str], ...]) -> Response:
        """Return all documents, or the requested range."""
        everything = self.content.everything
        size = sum(section.length for section in everything)
        headers = (_CONTENT_TYPE, *headers, RANGES)
        try:
            part = requested_range(request.headers, size, self.content.modified)
        except InvalidRange as error:
            response = error_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, str(error))
            total = (("Content-Range", f"bytes */{size}"),) if error.is_outside else ()
            return Response(response.status, (*response.headers, *total), response.text)
        if part is None:
            return Response(HTTPStatus.OK, headers, sections=everything)
        last = part.offset + part.length - 1
        content_range = ("Content-Range", f"bytes {part.offset}-{last}/{size}")
        return Response(HTTPStatus.PARTIAL_CONTENT, (*headers, content_range), sections=(Section(*part),))


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


def _redirect(location: str) -> Response:
    """Return a redirection to another path."""
    status = HTTPStatus.TEMPORARY_REDIRECT
    headers = (("Content-Type", "text/html; charset=utf-8"), ("Location", location), VARY)
    return Response(status, headers, f'<a href="{escape(location)}">{status.phrase}</a>.\n\n'.encode())


def is_catalog_name(name: str) -> bool:
    """Return whether a ClusterCatalog can have the name."""
    return len(name) <= _MAX_NAME and _NAME.fullmatch(name) is not None


def error_response(status: HTTPStatus, text: str = "") -> Response:
    """Return a response with a line of text, which defaults to the status."""
    headers = (("Content-Type", "text/plain; charset=utf-8"), VARY, ("X-Content-Type-Options", "nosniff"))
    return Response(status, headers, f"{text or f'{status.value} {status.phrase}'}\n".encode())


def accepts_gzip(request: Request) -> bool:
    """Return whether the client accepts responses that are compressed by gzip."""
    return any(_is_gzip(coding) for coding in request.headers.get("accept-encoding", "").split(","))


def _is_gzip(coding: str) -> bool:
    name, separator, quality = coding.partition(";")
    return name.strip().lower() == "gzip" and _QUALITY.fullmatch(separator + quality) is None
