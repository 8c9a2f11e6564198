"""Reproducible bundle images without a Dockerfile."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from opmkit.bundle.directory import DIRECTORIES, read_files
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.labels import TEST_CONFIG
from opmkit.bundle.metadata import read_metadata
from opmkit.core.files import disk_errors, is_partial
from opmkit.imagetools.build_spec import BuildSpec
from opmkit.imagetools.layer import LayerFile

if TYPE_CHECKING:
    from pathlib import Path

CREATED_BY = "opm alpha bundle build"
"""Name of the build step in the history of bundle images, with and without a Dockerfile."""


def bundle_build_spec(manifests: Path, metadata: Path, *, created: int = 0) -> BuildSpec:
    """Return the build spec of a bundle image, for any build tool.

    All files are in one layer, with normalized modes and times, because every client reads all of them and each layer
    costs a request. The labels are the bundle's annotations. The directory of tests that they name, next to the
    metadata, is included.

    Args:
        manifests: Directory whose files, at any depth, become ``manifests/``.
        metadata: Directory whose files, at any depth, become ``metadata/``.
        created: Creation time of the image in seconds since the epoch.

    Raises:
        InvalidBundle: There are no manifests or no annotations.
        ImageToolsError: A file cannot be read.
    """
    with disk_errors(manifests):
        files = [*_layer_files("manifests", manifests), *_layer_files("metadata", metadata)]
    if not any(file.path.startswith("manifests/") for file in files):
        raise InvalidBundle(f"{manifests}: no files found", hint="pass the directory that contains the manifests")
    labels = read_metadata({f"metadata/{name}": content for name, content in read_files(metadata).items()}).labels
    if tests := _tests_directory(labels.get(TEST_CONFIG, "")):
        with disk_errors(metadata):
            files += _layer_files(tests, metadata.parent / tests)
    return BuildSpec(tuple(files), labels=labels, created=created, created_by=CREATED_BY)


def _tests_directory(label: str) -> str:
    """Return the directory of tests in a label, or "" if it is not a separate directory in the bundle."""
    path = PurePosixPath(label)
    is_separate = path.parts and ".." not in path.parts and path.parts[0] not in ("/", *DIRECTORIES)
    return str(path) if is_separate else ""


def _layer_files(name: str, directory: Path) -> list[LayerFile]:
    """List the files below a directory; symbolic links are followed."""
    return [
        LayerFile(f"{name}/{path.relative_to(directory).as_posix()}", path)
        for path in directory.rglob("*")
        if not path.is_dir() and not is_partial(path)
    ]
