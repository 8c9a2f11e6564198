"""URLs, accepted and refused as Go's ``net/url`` does, which the reference tools and API servers use.

It is laxer than RFC 3986 in what a path may hold, and stricter in hosts and ports.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_ESCAPED = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*+", re.DOTALL)
_USER = re.compile(r"(?:[A-Za-z0-9._:~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})*+")
_HOST = re.compile(r"""(?:[A-Za-z0-9!$&'()*+,;=:\[\]<>"._~-]|[^\x00-\x7f]|%25|%[89A-Fa-f][0-9A-Fa-f])*+""")
_PORT = re.compile(r"(?::[0-9]*)?")


@dataclass(frozen=True, slots=True)
class Url:
    """What matters here of a URL; the host is with its port."""

    scheme: str = ""
    user: str | None = None
    host: str = ""
    query: str = ""
    fragment: str = ""


def parse_url(text: str) -> Url:
    """Read a URL, which may be relative; ValueError, with the reason, if it is none."""
    before, _, fragment = text.partition("#")
    if not _ESCAPED.fullmatch(fragment):
        raise ValueError("its fragment has a % that no two hexadecimal digits follow")
    return _parse(before, fragment, request=False)


def parse_request_url(text: str) -> Url:
    """Read a URL as a request names it: absolute, or a path with a slash first, and ``#`` has no meaning.

    Raises:
        ValueError: with the reason, if it is none.
    """
    if not text:
        raise ValueError("it is empty")
    return _parse(text, "", request=True)


def _parse(text: str, fragment: str, *, request: bool) -> Url:
    if _CONTROL.search(text):
        raise ValueError("it has a control character")
    if text == "*":
        return Url(fragment=fragment)
    if text.startswith(":"):
        raise ValueError("it has no scheme before the colon")
    match = _SCHEME.fullmatch(text)
    scheme, rest = match.groups() if match else ("", text)
    rest, _, query = rest.partition("?")
    user, host = None, ""
    if not rest.startswith("/"):
        if scheme:  # such as mailto:, whose rest is the scheme's own
            return Url(scheme.lower(), query=query, fragment=fragment)
        if request:
            raise ValueError("it has neither a scheme such as https:// nor a slash first")
        if ":" in rest.partition("/")[0]:
            raise ValueError("its first part has a colon")
    elif rest.startswith("//") and (scheme or not (request or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        user, host = _authority(authority)
        rest = slash + path
    if not _ESCAPED.fullmatch(rest):
        raise ValueError("its path has a % that no two hexadecimal digits follow")
    return Url(scheme.lower(), user, host, query, fragment)


def _authority(text: str) -> tuple[str | None, str]:
    """The user and the host with its port."""
    user, at, host = text.rpartition("@")
    if not _USER.fullmatch(user):
        raise ValueError("the user in it has characters that must be escaped")
    if host.startswith("["):
        _, bracket, port = host.rpartition("]")
        if not bracket:
            raise ValueError("the address of its host lacks the closing bracket")
    else:
        _, colon, number = host.rpartition(":")
        port = colon and colon + number
    if not _PORT.fullmatch(port):
        raise ValueError(f"{port!r} after its host is no port")
    if not _HOST.fullmatch(host):
        raise ValueError("its host has characters that no host may have")
    return (user if at else None), host
