"""The ``olm.package`` blob of a new package."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from opmkit.bundle.icons import media_type_of
from opmkit.core.files import disk_errors, read_limited
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import Icon, PackageBlob

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE = 1 << 20
"""Bytes of an icon or a description."""


def create_package(
    name: str, default_channel: str = "", description: Path | None = None, icon: Path | None = None
) -> PackageBlob:
    """Create the blob of a package, with its description and icon from files.

    Raises:
        CatalogError: The icon is not an image, the description is not UTF-8, or a file is larger than `MAX_FILE`.
        DiskError: A file can't be read.
    """
    text = _read_text(description) if description else ""
    return PackageBlob(name, default_channel, _read_icon(icon) if icon else None, text)


def _read_text(path: Path) -> str:
    try:
        return _read(path).decode()
    except UnicodeDecodeError as error:
        raise CatalogError(f"{path}: not valid UTF-8: {error}", hint="Save it as UTF-8.") from error


def _read_icon(path: Path) -> Icon:
    data = _read(path)
    media_type = media_type_of(data)
    if not media_type:
        raise CatalogError(f"{path}: unsupported image format", hint="Use an SVG, PNG, JPEG or GIF file.")
    return Icon(base64.b64encode(data).decode(), media_type)


def _read(path: Path) -> bytes:
    with disk_errors(path):
        return read_limited(path, MAX_FILE)
