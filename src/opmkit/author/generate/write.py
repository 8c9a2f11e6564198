"""Write a generated bundle to a directory, without changes to files that are up to date."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.author.generate.bundle import encode_csv
from opmkit.author.generate.metadata import SCORECARD_FILE, BundleLabels, annotations_yaml, dockerfile, is_generated
from opmkit.bundle.generate import DOCKERFILE, ExistingAnnotations, read_annotations, read_existing_annotations
from opmkit.bundle.labels import CHANNELS, DEFAULT_CHANNEL
from opmkit.core.epoch import rfc3339, source_date_epoch
from opmkit.core.files import disk_errors, write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opmkit.author.generate.bundle import GeneratedManifests

MANIFESTS = "manifests"
ANNOTATIONS_FILE = "metadata/annotations.yaml"
_CREATED_AT = re.compile(rb"^    createdAt: .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files of a bundle.

    Attributes:
        written: New and changed files.
        unchanged: Files that were up to date.
        leftover: Other files next to the manifests, which become part of the bundle as well.
        warnings: Warnings about existing files.
    """

    written: tuple[Path, ...] = ()
    unchanged: tuple[Path, ...] = ()
    leftover: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()


def encode_manifests(generated: GeneratedManifests) -> dict[str, bytes]:
    """Return all manifests by file name; the time in the ClusterServiceVersion is SOURCE_DATE_EPOCH or now.

    Raises:
        ImageToolsError: SOURCE_DATE_EPOCH is invalid.
    """
    if os.environ.get("SOURCE_DATE_EPOCH"):
        created_at = rfc3339(source_date_epoch())
    else:
        created_at = rfc3339(int(datetime.now(UTC).timestamp()))
    return {generated.csv_file: encode_csv(generated.csv, created_at), **generated.files}


def write_manifests(
    generated: GeneratedManifests,
    directory: Path,
    transform: Callable[[Mapping[str, bytes]], Mapping[str, bytes]] = dict,
) -> WrittenFiles:
    """Write the manifests and the scorecard configuration of a bundle.

    A ClusterServiceVersion that differs from the existing one only in the time of its creation is not written.

    Args:
        generated: The manifests.
        directory: Directory of the bundle.
        transform: Applied to all manifests, by file name.

    Raises:
        DiskError: A file cannot be written.
    """
    manifests = directory / MANIFESTS
    files = {manifests / name: content for name, content in transform(encode_manifests(generated)).items()}
    if generated.scorecard:
        files[directory / SCORECARD_FILE] = generated.scorecard
    with disk_errors(directory):
        existing = set(manifests.iterdir()) if manifests.is_dir() else set()
        result = _write_all(files)
    return WrittenFiles(result.written, result.unchanged, tuple(sorted(existing - files.keys())))


def write_metadata(
    labels: BundleLabels,
    directory: Path,
    *,
    base_image: str = "scratch",
    overwrite: bool = True,
    retain: bool = True,
    working_directory: Path | None = None,
) -> WrittenFiles:
    """Write the annotations and the Dockerfile of a bundle.

    Args:
        labels: Annotations; whether there is a scorecard configuration is determined by the directory.
        directory: Directory of the bundle.
        base_image: Image in the FROM instruction of the Dockerfile.
        overwrite: Whether to change existing annotations and the Dockerfile that belongs to them.
        retain: Whether other annotations in an existing file are retained.
        working_directory: Directory of the Dockerfile; by default the current one.

    Raises:
        InvalidBundle: An annotation or the existing file is invalid.
        DiskError: A file cannot be written.
    """
    path, working_directory = directory / ANNOTATIONS_FILE, working_directory or Path()
    existing = read_existing_annotations(path) or ExistingAnnotations({}, ())
    if existing.values and not overwrite:
        return WrittenFiles(unchanged=(path,))
    others = {key: value for key, value in existing.values.items() if retain and not is_generated(key)}
    labels = replace(labels, has_scorecard=(directory / SCORECARD_FILE).is_file(), others=others)
    wanted = labels.all()
    source = Path(os.path.relpath(directory, working_directory)).as_posix()
    files = {working_directory / DOCKERFILE: dockerfile(labels, source, base_image).encode()}
    if existing.values != wanted or existing.duplicates:
        files[path] = annotations_yaml(labels).encode()
    with disk_errors(directory):
        result = _write_all(files)
    unchanged = result.unchanged if path in files else (*result.unchanged, path)
    warnings = [
        f"{path}:{key.line}: duplicate key {key.key!r}: retained the last value"
        for key in existing.duplicates
        if key.key in others
    ]
    return WrittenFiles(result.written, unchanged, warnings=tuple(warnings))


def existing_channels(directory: Path) -> tuple[str, str]:
    """Return the channels and the default channel in the annotations of an existing bundle, or "" if there are none.

    Raises:
        InvalidBundle: The file is invalid.
        DiskError: It cannot be read.
    """
    existing = read_annotations(directory / ANNOTATIONS_FILE) or {}
    return existing.get(CHANNELS, ""), existing.get(DEFAULT_CHANNEL, "")


def _write_all(files: Mapping[Path, bytes]) -> WrittenFiles:
    written, unchanged = [], []
    for path, content in files.items():
        if path.is_file() and _equal(path.read_bytes(), content):
            unchanged.append(path)
        else:
            write_file(path, content)
            written.append(path)
    return WrittenFiles(tuple(written), tuple(unchanged))


def _equal(existing: bytes, content: bytes) -> bool:
    """Return whether a file is up to date, except for the time of its creation unless it is prescribed."""
    if existing == content or os.environ.get("SOURCE_DATE_EPOCH"):
        return existing == content
    return _CREATED_AT.sub(b"", existing, count=1) == _CREATED_AT.sub(b"", content, count=1)
