"""The first document of a file-based catalog: what a package is."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from opmkit.bundle.icons import media_type_of
from opmkit.imagetools.store.disk import disk_errors
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import Icon, PackageBlob

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE = 1 << 20
"""Bytes that the file of an icon or of a description may have."""


def new_package(
    name: str, default_channel: str = "", description: Path | None = None, icon: Path | None = None
) -> PackageBlob:
    """The document of a package, with the description and the icon in these files.

    Raises:
        CatalogError: if the icon is no image, the description is no text, or one of them is too large.
        StoreError: if one can't be read.
    """
    text = _text(description) if description else ""
    return PackageBlob(name, default_channel, _icon(icon) if icon else None, text)


def _text(path: Path) -> str:
    try:
        return _content(path).decode()
    except UnicodeDecodeError as error:
        raise CatalogError(f"{path} is no text in UTF-8: {error}", advice="Save it as UTF-8.") from error


def _icon(path: Path) -> Icon:
    data = _content(path)
    media_type = media_type_of(data)
    if not media_type:
        raise CatalogError(f"{path} is no image", advice="Take an SVG, PNG, JPEG or GIF file.")
    return Icon(base64.b64encode(data).decode(), media_type)


def _content(path: Path) -> bytes:
    with disk_errors(path):
        if path.stat().st_size > MAX_FILE:
            raise CatalogError(f"{path} has more than {MAX_FILE} bytes", advice="Take a smaller one.")
        return path.read_bytes()
