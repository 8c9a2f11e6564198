"""Icons of operators: whether data is the image that it claims to be."""

from __future__ import annotations

import base64
import binascii
from typing import Final
from xml.parsers import expat  # it resolves no external entities, and declared ones end the reading here

MAX_BYTES: Final = 1024 * 1024
"""Size of an icon that is looked into."""
_STARTS: Final = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
}
SVG: Final = "image/svg+xml"


_OTHER_STARTS: Final = {
    "image/webp": (b"RIFF",),
    "image/bmp": (b"BM",),
    "image/tiff": (b"II*\0", b"MM\0*"),
    "image/vnd.microsoft.icon": (b"\0\0\1\0",),
}
"""Images that consoles need not show."""


def media_type_of(data: bytes) -> str:
    """The media type of an image, told by how it begins, or by its XML; "" for what is none."""
    for kind, starts in {**_STARTS, **_OTHER_STARTS}.items():
        if data.startswith(starts):
            return kind
    return "" if _svg_problem(data) else SVG


def icon_data(text: str) -> bytes:
    """Decode the data of an icon, whose base64 text may be broken into lines.

    Raises:
        ValueError: with the reason, if it is none or empty.
    """
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"is no base64 text: {error}") from error
    if not data:
        raise ValueError("is empty")
    return data


def image_problem(data: bytes, media_type: str) -> str:
    """Say why data is no image of a media type; "" if it may be one, or the type is none that icons have."""
    if media_type == SVG:
        return _svg_problem(data)
    if media_type in _STARTS and not data.startswith(_STARTS[media_type]):
        return f"the data does not begin as {media_type} does{_looks_like(data)}"
    return ""


def _looks_like(data: bytes) -> str:
    kinds = [kind for kind, starts in _STARTS.items() if data.startswith(starts)]
    kinds += [SVG] if not kinds and b"<svg" in data[:4096] else []
    return f", but as {kinds[0]}" if kinds else ""


class _EntitiesDeclared(Exception):
    """The document declares entities, which could make it as big as it likes: it is read no further."""


def _svg_problem(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        return f"{len(data)} bytes are more than the {MAX_BYTES} that an icon may have"
    names: list[str] = []
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = lambda name, _attributes: names.append(name.rpartition(" ")[2])
    parser.EntityDeclHandler = _stop
    try:
        parser.Parse(data, True)
    except _EntitiesDeclared:
        return ""
    except (expat.ExpatError, ValueError, LookupError) as error:  # encodings that do not exist are of the last two
        return f"the data is no XML: {error}{_looks_like(data)}"
    return "" if names[0] == "svg" else f"the data is XML, but its root is {names[0]!r}"


def _stop(*_: object) -> None:
    raise _EntitiesDeclared
