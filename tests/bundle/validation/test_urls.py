"""Parsing of URLs, with the results of Go's net/url."""

from __future__ import annotations

import pytest

from opmkit.bundle.validation.urls import Url, parse_request_url, parse_url


@pytest.mark.parametrize(
    "text",
    [
        "https://a.b/c",
        "https://",
        "mailto:x",
        "/x",
        "*",
        "https://a/#x",
        "https://[::1]:80/",
        "https://a/ b",
        "a:b",
        "https://ü/",
        "https://u:p@a/",
        "HTTPS://a",
        "https://a?%zz",
    ],
)
def test_urls_of_requests(text: str) -> None:
    parse_request_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "x/y",
        "example.com",
        "https//a",
        "https://a/\x7f",
        "https://a/%zz",
        "https://a:x/",
        "https://a b/",
        "https://[::1/",
        "https://[::1]x/",
        ":x",
        "[x](https://a)",
        "https://u^@a/",
        "https://a%20b/",
        "1:b",
    ],
)
def test_invalid_request_urls(text: str) -> None:
    with pytest.raises(ValueError, match=r"URL|scheme|colon|escape|port|host|user name"):
        parse_request_url(text)


def test_parse() -> None:
    assert parse_url("HTTPS://u@a:1/b?c#d") == Url("https", "u", "a:1", "c", "d")
    assert parse_url("a/b:c") == Url()
    assert parse_url("//a/b") == Url(host="a")
    assert parse_request_url("https://a/#x").fragment == ""
    for wrong in ("1:b", "#%", "//a^b/"):
        with pytest.raises(ValueError):
            parse_url(wrong)
