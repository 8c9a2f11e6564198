"""Warnings about images that OLM does not accept as bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.errors import BundleError, InvalidBundle
from opmkit.bundle.labels import CHANNELS, DEFAULT_CHANNEL, MANIFESTS, MEDIA_TYPE, METADATA, PACKAGE
from opmkit.bundle.metadata import read_metadata
from opmkit.core.files import disk_errors
from opmkit.documents.errors import DocumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from opmkit.imagetools.layer import LayerFile

_REQUIRED_LABELS = (MEDIA_TYPE, MANIFESTS, METADATA, PACKAGE, CHANNELS)
_ANNOTATED_LABELS = (*_REQUIRED_LABELS, DEFAULT_CHANNEL)
_MAX_METADATA_SIZE = 1 << 20


def check_bundle(
    dockerfile: Path, files: Iterable[LayerFile], labels: Mapping[str, str], *, has_base: bool
) -> list[str]:
    """Return warnings about missing labels, and about labels that differ from the annotations.

    Args:
        dockerfile: Path of the Dockerfile.
        files: Files of the image.
        labels: Labels of the image.
        has_base: Whether a base image may contain more files and labels, which are not checked.

    Raises:
        InvalidBundle: If there are no manifests.
        DiskError: If a file cannot be read.
    """
    if has_base:
        return []
    paths = {file.path: file for file in files}
    if not any(path.startswith("manifests/") for path in paths):
        raise InvalidBundle(
            f"{dockerfile}: the image has no files in /manifests/",
            hint="copy the manifests of the bundle to /manifests/",
        )
    warnings = [f"{dockerfile}: the label {name} is missing" for name in _REQUIRED_LABELS if not labels.get(name)]
    metadata = {path: _read(file) for path, file in paths.items() if path.startswith("metadata/")}
    try:
        annotations = read_metadata(metadata).labels
    except (BundleError, DocumentError) as error:
        return [*warnings, f"{dockerfile}: {error.message}"]
    differences = [
        f"{dockerfile}: the label {name} is {labels[name]!r}, but the annotation is {annotations.get(name, '')!r}"
        for name in _ANNOTATED_LABELS
        if name in labels and labels[name] != annotations.get(name, "")
    ]
    return warnings + differences


def _read(file: LayerFile) -> bytes:
    """Return the content of a file, which is truncated if it is too large for metadata."""
    if isinstance(file.source, bytes):
        return file.source
    with disk_errors(file.source), file.source.open("rb") as content:
        return content.read(_MAX_METADATA_SIZE)
