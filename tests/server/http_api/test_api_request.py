"""Parsing of HTTP/1.1 requests."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.server.http_api.api import (
    HEAD_END,
    HttpRequest,
    RequestError,
    parse_parameters,
    parse_request,
)
from opmkit.server.settings import is_catalog_name


def parse(*lines: bytes) -> HttpRequest:
    return parse_request(b"\r\n".join(lines) + HEAD_END)


def test_parts_of_a_request() -> None:
    request = parse(b"GET http://host/a%20b?x=1?y HTTP/1.1", b"Host: host", b"A: 1", b"a:  2 ", b"Connection: Close")
    assert request == HttpRequest("GET", "/a%20b", "x=1?y", request.headers, keep_alive=False, chunked=True)
    assert request.path == "/a b"
    assert request.headers == {"host": "host", "a": "1, 2", "connection": "Close"}


@pytest.mark.parametrize(
    ("version", "headers", "keep_alive", "chunked"),
    [
        (b"1.1", [b"Host: h"], True, True),
        (b"1.0", [], False, False),
        (b"1.0", [b"Connection: keep-alive"], True, False),
        (b"1.1", [b"Host: h", b"Content-Length: 3"], False, True),
        (b"1.1", [b"Host: h", b"Transfer-Encoding: chunked"], False, True),
    ],
)
def test_persistence(version: bytes, headers: list[bytes], *, keep_alive: bool, chunked: bool) -> None:
    request = parse(b"GET / HTTP/" + version, *headers)
    assert (request.keep_alive, request.chunked) == (keep_alive, chunked)


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([b"GET / HTTP/1.1"], HTTPStatus.BAD_REQUEST),
        ([b"GET / HTTP/1.1", b"Host: a", b"Host: b"], HTTPStatus.BAD_REQUEST),
        ([b"GET / HTTP/1.1", b"Host : a"], HTTPStatus.BAD_REQUEST),
        ([b"GET / HTTP/1.1", b"Host: a", b" folded"], HTTPStatus.BAD_REQUEST),
        ([b"GET / HTTP/1.1", b"Host: a\x00"], HTTPStatus.BAD_REQUEST),
        ([b"GET /a b HTTP/1.1", b"Host: a"], HTTPStatus.BAD_REQUEST),
        ([b"GET /%zz HTTP/1.1", b"Host: a"], HTTPStatus.BAD_REQUEST),
        ([b"GET * HTTP/1.1", b"Host: a"], HTTPStatus.BAD_REQUEST),
        ([b"GET / HTTP/2.0", b"Host: a"], HTTPStatus.HTTP_VERSION_NOT_SUPPORTED),
        ([b""], HTTPStatus.BAD_REQUEST),
    ],
)
def test_invalid_requests(lines: list[bytes], status: HTTPStatus) -> None:
    with pytest.raises(RequestError) as caught:
        parse(*lines)
    assert caught.value.status is status


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_an_error(data: bytes) -> None:
    try:
        request = parse_request(data + HEAD_END)
    except RequestError:
        return
    assert request.raw_path.startswith("/")
    parse_parameters(request.query)


def test_first_value_of_a_parameter_counts() -> None:
    assert parse_parameters("a=1&a=2&b&c=%20+&d%zz=1&e;f=1&=x") == {"a": "1", "b": "", "c": "  ", "": "x"}


@pytest.mark.parametrize(
    ("name", "valid"), [("a", True), ("a-1.b", True), ("A", False), ("a" * 254, False), ("-a", False)]
)
def test_catalog_names(name: str, *, valid: bool) -> None:
    assert is_catalog_name(name) is valid
