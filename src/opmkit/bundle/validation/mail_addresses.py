"""Validation of mail addresses, equal to ``mail.ParseAddress`` of Go's ``net/mail`` (RFC 5322)."""

from __future__ import annotations

import re

_MAX_LENGTH = 10_000

_ATEXT = r"""[^\x00-\x20\x7f()<>\[\]:;@\\,".]"""
_ATOM = rf"{_ATEXT}++(?:\.{_ATEXT}++)*+"
_QUOTED = r'"(?:[^\x00-\x08\x0a-\x1f\x7f"\\]|\\[^\x00-\x08\x0a-\x1f\x7f])%s"'
_SPACE = r"[ \t]*+"
_COMMENT = r"\((?:[^()\\]|\\.)*+\)"
_ADDRESS = rf"{_SPACE}(?:{_ATOM}|{_QUOTED % '++'})@{_SPACE}{_ATOM}"
_WORD = rf"(?:(?:{_ATEXT}|\.)++|{_QUOTED % '*+'})"
_PHRASE = rf"{_SPACE}{_WORD}(?:{_SPACE}{_WORD})*+"
_MAILBOX = rf"(?:{_ADDRESS}|(?:{_PHRASE})?{_SPACE}<{_ADDRESS}>)"
_GROUP = rf"{_PHRASE}{_SPACE}:{_MAILBOX}{_SPACE};"
_SINGLE = re.compile(rf"(?:{_MAILBOX}|{_GROUP}){_SPACE}(?:{_COMMENT}{_SPACE})*+")


def is_single_address(text: str) -> bool:
    """Return whether the text is one address, such as ``a@example.com`` or ``Ann <a@example.com>``."""
    return len(text) <= _MAX_LENGTH and _SINGLE.fullmatch(text) is not None
