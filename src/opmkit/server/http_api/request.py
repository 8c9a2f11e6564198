"""Parsing of HTTP/1.1 requests without content."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

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


@dataclass(frozen=True, slots=True)
class Request:
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


def parse_request(head: bytes) -> Request:
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
    return Request(line[1].decode(), path, query, headers, keep_alive, current)


def _split_target(target: str) -> tuple[str, str]:
    path, _, query = _ABSOLUTE.sub("", target, count=1).partition("?")
    if not path.startswith("/") or not is_escaped(path):
        raise RequestError(HTTPStatus.BAD_REQUEST)
    return path, query


def is_escaped(text: str) -> bool:
    """Return whether each percent sign in a part of a URL starts a valid escape."""
    return not _INVALID_ESCAPE.search(text)
