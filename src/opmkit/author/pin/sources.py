"""Bundles and catalogs on disk and in images, as sources of images to pin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.author.pin.directory import PinSource
from opmkit.author.pin.pin import read_manifests
from opmkit.bundle.load import fetch_bundle_files
from opmkit.bundle.source import BundleSource
from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexOperation
from opmkit.index.image.source import DATABASES, SourceKind

if TYPE_CHECKING:
    from opmkit.index.image.source import IndexSource

_MANIFESTS = "manifests/"


def read_pin_source(source: IndexSource) -> PinSource:
    """Read the files of a bundle, a catalog or a template; those in images are named by their paths in the image.

    Raises:
        CatalogError: if the source is an index with a database, or an image of another kind.
        InvalidBundle: with file and line, if a document is invalid, or a field has the wrong type.
        ImageToolsError: if a file or an image cannot be read.
    """
    if source.path is not None:
        return PinSource.read(source.path, source.text)
    if source.kind in DATABASES:
        raise CatalogError(
            f"{source.text}: unsupported: it is {source.kind}",
            hint=Hint("convert it to a file-based catalog with {}", IndexOperation.MIGRATE_INDEX),
        )
    if source.kind is not SourceKind.BUNDLE_IMAGE:
        with source.open() as content:
            return PinSource.read_catalog(content.path, "")
    files = fetch_bundle_files(source.tool(), BundleSource(source.text, source.location, source.text))
    manifests = {name: raw for name, raw in files.items() if name.startswith(_MANIFESTS)}
    return PinSource(Path(), tuple(read_manifests(manifests)), {name: name for name in manifests}, is_bundle=True)
