"""Decoder of YAML documents: ryaml where it returns what `go_yaml` does, which decodes all others.

ryaml takes two thirds of the time. Its parser is a port of libyaml, so it accepts and rejects the same syntax, but it
resolves plain scalars as in YAML 1.2. Documents where that can differ from Go are left to ``go_yaml``, as are invalid
ones, because of its messages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.documents.errors import DuplicateKey
    from opmkit.documents.json_value import JsonValue

_ryaml_loads: Callable[[str], JsonValue] | None
try:
    from ryaml import loads as _ryaml_loads  # type: ignore[attr-defined, unused-ignore]  # documented, but not in __all__
except ImportError:  # only the extra "fast" installs it, since it has no wheels for some platforms
    _ryaml_loads = None

_MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of documents that ryaml decodes: it needs several copies of them."""

_MAX_FLOW_COLLECTIONS = 1000
"""Maximum number of flow collections: for each token, ryaml visits all open ones, which ``go_yaml`` limits to 200."""
_MAX_SEARCHES = 16
"""Maximum number of different strings that are searched in a document."""

_BEFORE_TOKENS = frozenset(b" \n\r\t[{,:\x85\xa8\xa9\xbf")
"""Bytes that precede a plain scalar, a tag or an anchor, unless it is at the start of the document.

The last ones are the ends of Unicode's line breaks and of the byte order mark in UTF-8.
"""
_BEFORE_PLAIN = _BEFORE_TOKENS | frozenset(b"\f\v")
_AFTER_PLAIN = frozenset((b"", *(bytes((byte,)) for byte in b" \t\n\r\f\v,]}:\xc2\xe2")))
"""What follows a plain scalar: the end of the document, or a byte of which the last two begin Unicode's line breaks."""
_FLOW_START = re.compile(rb"(?:\A|(?<=[ \n\r\t\[{,:\x85\xa8\xa9\xbf]))[\[{]")
_ESCAPED_TAG = (b"\\x21", b"\\u0021", b"\\U00000021")
_BEFORE_SPACE = frozenset(b"\n\r-:?[{,\x85\xa8\xa9\xbf")
"""Bytes that precede the space before a tag, unless the document is invalid or has an anchor."""
_ANCHOR_NAME = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-")
_NUMBER_START = frozenset(b".0123456789")
_BYTE_ORDER_MARK = "\ufeff".encode()
_DIFFERENT_IN_GO = re.compile(
    rb"""
    "(?=[-+.0-9_<yYnNoO])                                            # three times as fast with this
    (?: [yYnN]
     | [yY]es | YES | [nN]o | NO | [oO]n | ON | [oO]ff | OFF        # booleans of YAML 1.1
     | <<                                                           # merge keys
     | [-+]?0[0-9bBoOxX_][0-9a-fA-F_.eE+-]*                         # octal numbers, 0B1, 0O7, 0X1F
     | [-+]?[0-9.]?[0-9a-fA-F.xXoObB+-]*_[0-9a-fA-F_.xXoObB+-]*     # digits that are grouped by _
     | [-+]?\.(?:inf|Inf|INF|nan|NaN|NAN)
    )"
    """,
    re.VERBOSE,
)
"""Strings in JSON that are other values in Go if they are plain scalars in YAML."""


def load(content: bytes, duplicates: list[DuplicateKey] | None = None) -> JsonValue:
    """Decode the first document as :func:`opmkit.documents.go_yaml.load` does.

    Raises:
        InvalidDocument: With line and column, for invalid YAML, values without a JSON equivalent and exceeded limits.
    """
    decoded = _load_fast(content)
    if decoded is not None:
        return decoded[0]
    from opmkit.documents import go_yaml  # slow to import: PyYAML

    return go_yaml.load(content, duplicates)


def as_go_lines(text: bytes) -> bytes:
    """Return a text with the line breaks that Go's readers of lines replace or add."""
    if b"\r\n" in text:
        text = text.replace(b"\r\n", b"\n")
    return text if text.endswith(b"\n") else text + b"\n"


def _load_fast(content: bytes) -> tuple[JsonValue] | None:
    """Decode a document that ryaml and Go decode equally, and that has no duplicate keys; return None for others."""
    if _ryaml_loads is None or len(content) > _MAX_BYTES or _has_indicators(content):
        return None
    may_have_tags = _may_have_tags(content)
    if _has_many_flow_collections(content) or (may_have_tags and any(escape in content for escape in _ESCAPED_TAG)):
        return None
    try:
        value = _ryaml_loads(content.decode())
        text = orjson.dumps(value)
    except Exception:  # noqa: BLE001 - ryaml documents no errors; go_yaml reports those of the document
        return None
    if may_have_tags and _has_tag(text, content):
        return None
    differing = set(_DIFFERENT_IN_GO.findall(text))
    if len(differing) > _MAX_SEARCHES or any(_is_plain(scalar[1:-1], content) for scalar in differing):
        return None
    return (value,)


def _has_indicators(content: bytes) -> bool:
    """Report whether the document may contain directives, aliases, signed numbers, or byte order marks inside."""
    return (
        content.startswith(b"%")
        or (b"\xef" in content and content.find(_BYTE_ORDER_MARK, 1) > 0)  # libyaml ignores it at the start of a line
        or (b"%" in content and b"\n%" in content)  # single bytes are found much faster
        or (_may_have_anchors(content) and _starts_token(b"*", _ANCHOR_NAME, content))
        or _starts_token(b"+", _NUMBER_START, content)
    )


def _has_many_flow_collections(content: bytes) -> bool:
    """Report whether the document may contain more flow collections than ryaml is given."""
    if content.count(b"[") + content.count(b"{") <= _MAX_FLOW_COLLECTIONS:
        return False
    return len(_FLOW_START.findall(content)) > _MAX_FLOW_COLLECTIONS  # without those within words


def _may_have_anchors(content: bytes) -> bool:
    return _starts_token(b"&", _ANCHOR_NAME, content)


def _may_have_tags(content: bytes) -> bool:
    """Report whether the document may contain tags: exclamation marks that are not inside of a line of text."""
    if _may_have_anchors(content):  # tags can follow them
        return b"!" in content
    position = content.find(b"!")
    while position >= 0:
        before = position
        while before and content[before - 1] in b" \t":
            before -= 1
        if not before or content[before - 1] in (_BEFORE_TOKENS if before == position else _BEFORE_SPACE):
            return True
        position = content.find(b"!", position + 1)
    return False


def _has_tag(text: bytes, content: bytes) -> bool:
    """Report whether a document without aliases and escaped exclamation marks contains a tag, by its value in JSON.

    ryaml returns tags as mappings with one key, except standard ones, which are missing then.
    """
    return text.count(b"!") != content.count(b"!") or b'{"!' in text


def _starts_token(indicator: bytes, following: frozenset[int], content: bytes) -> bool:
    """Report whether the indicator is where a token can start, and one of the bytes follows."""
    position, last = content.find(indicator), len(content) - 1
    while 0 <= position < last:
        if (not position or content[position - 1] in _BEFORE_TOKENS) and content[position + 1] in following:
            return True
        position = content.find(indicator, position + 1)
    return False


def _is_plain(scalar: bytes, content: bytes) -> bool:
    """Report whether the text occurs where a plain scalar can be. A regular expression would take much longer."""
    position = content.find(scalar)
    while position >= 0:
        end = position + len(scalar)
        if (not position or content[position - 1] in _BEFORE_PLAIN) and (content[end : end + 1] in _AFTER_PLAIN):
            return True
        position = content.find(scalar, position + 1)
    return False
