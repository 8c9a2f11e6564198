"""Digests of parts of catalogs, to compare catalogs without storing them."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIZE = 16
"""Bytes of a digest."""


def value_digest(*values: Any) -> bytes:
    """Return a digest of JSON values that does not depend on the order of keys."""
    try:
        return blake2b(orjson.dumps(values, option=orjson.OPT_SORT_KEYS), digest_size=_SIZE).digest()
    except TypeError:  # integers of more than 64 bits, unpaired surrogates, deep nesting
        digest = blake2b(digest_size=_SIZE)
        for token in _tokens(list(values)):
            digest.update(token)
        return digest.digest()


def _tokens(value: Any) -> Iterator[bytes]:
    """Yield an unambiguous encoding of a value, without recursion."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            yield b"{%d;" % len(item)
            pending += [part for key in sorted(item, reverse=True) for part in (item[key], key)]
        elif isinstance(item, list):
            yield b"[%d;" % len(item)
            pending += reversed(item)
        else:
            yield json.dumps(item).encode() + b";"
