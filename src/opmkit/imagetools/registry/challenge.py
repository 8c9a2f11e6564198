"""What a registry asks for when it answers 401: the WWW-Authenticate header (RFC 9110, section 11.6.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PART = re.compile(
    rf'[\s,]*(?:(?P<name>{_WORD})\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s,"]+))|(?P<scheme>{_WORD}))'
)
_PREFERRED = ("bearer", "basic")


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge that can be answered; ``scheme`` is ``bearer`` or ``basic``, the rest is what comes with it."""

    scheme: str
    realm: str = ""
    service: str = ""
    scope: str = ""

    @classmethod
    def parse(cls, header: str) -> Challenge | None:
        """The best challenge of a header, which may hold several; None if no scheme in it is known."""
        found: dict[str, dict[str, str]] = {}
        parameters: dict[str, str] = {}
        for part in _PART.finditer(header):
            if part["scheme"]:
                parameters = found.setdefault(part["scheme"].lower(), {})
            else:
                value = part["bare"] or re.sub(r"\\(.)", r"\1", part["quoted"] or "")
                parameters.setdefault(part["name"].lower(), value)
        for scheme in _PREFERRED:
            if scheme in found:
                known = found[scheme]
                return cls(scheme, *(known.get(name, "") for name in ("realm", "service", "scope")))
        return None
