"""Bundle images, built without a Dockerfile and the same each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.load import read_files
from opmkit.bundle.metadata import read_metadata
from opmkit.imagetools.build_spec import BuildSpec
from opmkit.imagetools.layer import LayerFile
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from pathlib import Path


def bundle_build_spec(manifests: Path, metadata: Path, *, created: int = 0) -> BuildSpec:
    """Tell what the image of the bundle in two directories is made of, whichever tool builds it.

    One layer holds all files below both, whatever their modes and times, for every reader wants both and a layer is
    a request. The labels are the annotations. ``created`` is in seconds of Unix time.

    Raises:
        InvalidBundle: if there are no manifests, or no annotations to label the image with.
        ImageToolsError: if a file can't be read.
    """
    with disk_errors(manifests):
        files = [*_layer_files("manifests", manifests), *_layer_files("metadata", metadata)]
    if not any(file.path.startswith("manifests/") for file in files):
        raise InvalidBundle(f"there are no files in {manifests}", hint="Give the directory that holds the manifests.")
    labels = read_metadata({f"metadata/{name}": content for name, content in read_files(metadata).items()}).labels
    return BuildSpec(tuple(files), labels=labels, created=created, created_by="opm alpha bundle build")


def _layer_files(name: str, directory: Path) -> list[LayerFile]:
    """List the files below a directory; one that is linked counts as the file itself."""
    return [
        LayerFile(f"{name}/{path.relative_to(directory).as_posix()}", path)
        for path in directory.rglob("*")
        if not path.is_dir()
    ]
