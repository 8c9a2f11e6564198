"""URL parser equal to Go's ``net/url``, which the Go tools and API servers use.

It is more lenient than RFC 3986 about paths, and stricter about hosts and ports.
"""

from __future__ import annotations

import re

from msgspec import Struct

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_ESCAPED = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*+", re.DOTALL)
_USER = re.compile(r"(?:[A-Za-z0-9._:~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})*+")
_HOST = re.compile(r"""(?:[A-Za-z0-9!$&'()*+,;=:\[\]<>"._~-]|[^\x00-\x7f]|%25|%[89A-Fa-f][0-9A-Fa-f])*+""")
_PORT = re.compile(r"(?::[0-9]*)?")


class Url(Struct, frozen=True):
    """The parts of a URL that rules check; ``host`` includes the port."""

    scheme: str = ""
    user: str | None = None
    host: str = ""
    query: str = ""
    fragment: str = ""


def parse_url(text: str) -> Url:
    """Parse a URL, which may be relative.

    Raises:
        ValueError: With the reason, for an invalid URL.
    """
    before, _, fragment = text.partition("#")
    if not _ESCAPED.fullmatch(fragment):
        raise ValueError("invalid escape in the fragment")
    return _parse(before, fragment, request=False)


def parse_request_url(text: str) -> Url:
    """Parse the URL of a request: absolute, or a path that starts with a slash, without a fragment.

    Raises:
        ValueError: With the reason, for an invalid URL.
    """
    if not text:
        raise ValueError("empty URL")
    return _parse(text, "", request=True)


def _parse(text: str, fragment: str, *, request: bool) -> Url:
    if _CONTROL.search(text):
        raise ValueError("control character in the URL")
    if text == "*":
        return Url(fragment=fragment)
    if text.startswith(":"):
        raise ValueError("missing scheme before the colon")
    match = _SCHEME.fullmatch(text)
    scheme, rest = match.groups() if match else ("", text)
    rest, _, query = rest.partition("?")
    user, host = None, ""
    if not rest.startswith("/"):
        if scheme:  # opaque, such as mailto:
            return Url(scheme.lower(), query=query, fragment=fragment)
        if request:
            raise ValueError("neither a scheme such as https:// nor a leading slash")
        if ":" in rest.partition("/")[0]:
            raise ValueError("colon in the first path segment")
    elif rest.startswith("//") and (scheme or not (request or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        user, host = _authority(authority)
        rest = slash + path
    if not _ESCAPED.fullmatch(rest):
        raise ValueError("invalid escape in the path")
    return Url(scheme.lower(), user, host, query, fragment)


def _authority(text: str) -> tuple[str | None, str]:
    """Split an authority into the user and the host with its port."""
    user, at, host = text.rpartition("@")
    if not _USER.fullmatch(user):
        raise ValueError("invalid character in the user name")
    if host.startswith("["):
        _, bracket, port = host.rpartition("]")
        if not bracket:
            raise ValueError("missing closing bracket of the host address")
    else:
        _, colon, number = host.rpartition(":")
        port = colon and colon + number
    if not _PORT.fullmatch(port):
        raise ValueError(f"invalid port {port!r}")
    if not _HOST.fullmatch(host):
        raise ValueError("invalid character in the host")
    return (user if at else None), host
