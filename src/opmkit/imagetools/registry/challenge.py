"""Parser for the WWW-Authenticate header (RFC 9110, section 11.6.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PART = re.compile(
    rf'[\s,]*(?:(?P<name>{_WORD})\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s,"]+))|(?P<scheme>{_WORD}))'
)
_SCHEMES = ("bearer", "basic")
"""The supported schemes, in order of preference."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge with a supported scheme, ``bearer`` or ``basic``, and its parameters."""

    scheme: str
    realm: str = ""
    service: str = ""
    scope: str = ""

    @classmethod
    def parse(cls, header: str) -> Challenge | None:
        """Return the preferred challenge of a header that may contain several, or None if none is supported."""
        challenges: dict[str, dict[str, str]] = {}
        parameters: dict[str, str] = {}
        for part in _PART.finditer(header):
            if part["scheme"]:
                parameters = challenges.setdefault(part["scheme"].lower(), {})
            else:
                value = part["bare"] or re.sub(r"\\(.)", r"\1", part["quoted"] or "")
                parameters.setdefault(part["name"].lower(), value)
        for scheme in _SCHEMES:
            if scheme in challenges:
                values = challenges[scheme]
                return cls(scheme, *(values.get(name, "") for name in ("realm", "service", "scope")))
        return None
