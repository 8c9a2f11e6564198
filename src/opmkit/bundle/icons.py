"""Check that icons of operators are images of their media type."""

from __future__ import annotations

import base64
import binascii
from typing import Final

MAX_BYTES: Final = 1024 * 1024
"""Maximum size of an icon that is parsed."""
SVG: Final = "image/svg+xml"

_SIGNATURES: Final = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
}
_OTHER_SIGNATURES: Final = {
    "image/webp": (b"RIFF",),
    "image/bmp": (b"BM",),
    "image/tiff": (b"II*\0", b"MM\0*"),
    "image/vnd.microsoft.icon": (b"\0\0\1\0",),
}
"""Signatures of image types that consoles are not required to support."""


def media_type_of(data: bytes) -> str:
    """Return the media type of an image by its signature or XML root, or "" if it is unknown."""
    for media_type, signatures in {**_SIGNATURES, **_OTHER_SIGNATURES}.items():
        if data.startswith(signatures):
            return media_type
    return "" if _svg_problem(data) else SVG


def icon_data(text: str) -> bytes:
    """Decode the base64 data of an icon, which may contain line breaks.

    Raises:
        ValueError: The data is invalid or empty; the error names the reason.
    """
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"is not valid base64: {error}") from error
    if not data:
        raise ValueError("is empty")
    return data


def image_problem(data: bytes, media_type: str) -> str:
    """Return why the data is not an image of the media type, or "" if it is one or the media type is unknown."""
    if media_type == SVG:
        return _svg_problem(data)
    if media_type in _SIGNATURES and not data.startswith(_SIGNATURES[media_type]):
        return f"the data does not start like {media_type}{_similar_type(data)}"
    return ""


def _similar_type(data: bytes) -> str:
    types = [media_type for media_type, signatures in _SIGNATURES.items() if data.startswith(signatures)]
    types += [SVG] if not types and b"<svg" in data[:4096] else []
    return f", but like {types[0]}" if types else ""


class _EntitiesDeclared(Exception):
    """The document declares entities, which could expand to any size."""


def _svg_problem(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        return f"{len(data)} bytes exceed the limit of {MAX_BYTES} bytes for an icon"
    from xml.parsers import expat  # does not resolve external entities; parsing stops at declared ones

    names: list[str] = []
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = lambda name, _attributes: names.append(name.rpartition(" ")[2])
    parser.EntityDeclHandler = _stop
    try:
        parser.Parse(data, True)
    except _EntitiesDeclared:
        return ""
    except (expat.ExpatError, ValueError, LookupError) as error:  # ValueError and LookupError: unknown encodings
        return f"the data is not XML: {error}{_similar_type(data)}"
    return "" if names[0] == "svg" else f"the data is XML with the root {names[0]!r}, not svg"


def _stop(*_: object) -> None:
    raise _EntitiesDeclared
