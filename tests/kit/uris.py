"""Syntax of URIs, by the grammar of RFC 3986, appendix A (IPv6 addresses without their inner grammar)."""

from __future__ import annotations

import re

_UNRESERVED = r"A-Za-z0-9\-._~"
_ENCODED = "%[0-9A-Fa-f]{2}"
_SUB_DELIMS = r"!$&'()*+,;="
_PCHAR = rf"(?:[{_UNRESERVED}{_SUB_DELIMS}:@]|{_ENCODED})"
_SEGMENTS = rf"(?:/{_PCHAR}*)*"
_HOST = rf"(?:\[[0-9A-Fa-f:.]+\]|(?:[{_UNRESERVED}{_SUB_DELIMS}]|{_ENCODED})*)"
_AUTHORITY = rf"(?:(?:[{_UNRESERVED}{_SUB_DELIMS}:]|{_ENCODED})*@)?{_HOST}(?::[0-9]*)?"
_TAIL = rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
_URI = re.compile(
    rf"[A-Za-z][A-Za-z0-9+\-.]*:(?://{_AUTHORITY}{_SEGMENTS}|/(?:{_PCHAR}+{_SEGMENTS})?|{_PCHAR}+{_SEGMENTS}|){_TAIL}"
)
_FIRST = rf"(?:[{_UNRESERVED}{_SUB_DELIMS}@]|{_ENCODED})+"
_RELATIVE = re.compile(rf"(?://{_AUTHORITY}{_SEGMENTS}|/(?:{_PCHAR}+{_SEGMENTS})?|{_FIRST}{_SEGMENTS}|){_TAIL}")


def is_uri_reference(text: str) -> bool:
    """Return whether ``text`` is a URI or a relative reference."""
    return bool(_URI.fullmatch(text) or _RELATIVE.fullmatch(text))
