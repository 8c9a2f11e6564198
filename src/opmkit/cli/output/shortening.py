"""Labels and digests that are shortened where nobody copies them."""

from __future__ import annotations

import re

_DIGEST = re.compile(r"(sha\d{3}:[0-9a-f]{12})[0-9a-f]{20,}")
_ELLIPSIS = "…"
_IMAGE = re.compile(rf"(.+)@(sha\d{{3}}:[0-9a-f]{{12}}){_ELLIPSIS}")
_OMITTED_DIGITS = 5
_MIN_IMAGE = 22
"""Width in which a part of the name fits next to seven digits of the digest."""
_READABLE = 28
"""Width of a name that is readable next to all digits of a short digest."""


def shorten_digests(text: str) -> str:
    """Return ``text`` with at most 12 hexadecimal digits in each digest."""
    return _DIGEST.sub(rf"\1{_ELLIPSIS}", text)


def shorten_digest(text: str) -> str:
    """Return a text with 12 hexadecimal digits if it is a digest; images are unchanged."""
    return shorten_digests(text) if _DIGEST.fullmatch(text) else text


def shorten(text: str, width: int) -> str:
    """Return ``text`` shortened in its first half: the ends of images and names differ most."""
    if len(text) <= width:
        return text
    if width >= _MIN_IMAGE and (image := _IMAGE.fullmatch(text)):
        return _shorten_image(image[1], image[2], width)
    head = (width - 1) // 3
    return text[:head] + _ELLIPSIS + text[len(text) - (width - 1 - head) :]


def _shorten_image(name: str, digest: str, width: int) -> str:
    """Return an image with the start of its digest, and as much of its name as fits: the end, then the registry."""
    remaining = width - len(digest) - len("@…")
    if remaining >= _READABLE:
        return f"{shorten(name, remaining)}@{digest}{_ELLIPSIS}"
    digest = digest[:-_OMITTED_DIGITS]
    remaining += _OMITTED_DIGITS
    return f"{name if len(name) <= remaining else _ELLIPSIS + name[1 - remaining :]}@{digest}{_ELLIPSIS}"
