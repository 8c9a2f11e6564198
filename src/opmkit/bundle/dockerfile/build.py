"""Build specs of bundle images from Dockerfiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle.build import CREATED_BY
from opmkit.bundle.dockerfile.checks import check_bundle
from opmkit.bundle.dockerfile.context import BuildContext
from opmkit.bundle.dockerfile.instructions import read_dockerfile
from opmkit.bundle.dockerfile.layout import ImageLayout
from opmkit.imagetools.build_spec import SCRATCH, BuildSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class DockerfileBuild:
    """The build spec of an image, the name of its base image, "" for none, and warnings about the Dockerfile."""

    spec: BuildSpec
    base: str
    warnings: tuple[str, ...]


def dockerfile_build_spec(
    dockerfile: Path,
    context: Path,
    *,
    arguments: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    created: int = 0,
) -> DockerfileBuild:
    """Return the build spec of a bundle image, for any build tool; the same files give the same image.

    All files are in one layer, with normalized owners and times; see `ImageLayout` for their modes.

    Args:
        dockerfile: Path of the Dockerfile.
        context: Directory that contains the files to copy.
        arguments: Build arguments, by their names.
        labels: Labels to set after those of the Dockerfile.
        created: Creation time of the image in seconds since the epoch.

    Raises:
        InvalidDockerfile: If the Dockerfile is invalid, or requires a container engine.
        InvalidBundle: If an image without a base contains no manifests.
        DiskError: If a file cannot be read.
    """
    parsed = read_dockerfile(dockerfile, arguments or {})
    build_context = BuildContext.open(context, dockerfile)
    layout = ImageLayout(has_base=parsed.base != SCRATCH)
    warnings = [f"{dockerfile}: the build argument {name} is not used" for name in parsed.unused_arguments]
    for instruction in parsed.copies:
        empty = layout.copy(instruction, build_context)
        warnings += [f"{instruction.location}: no files found in {name!r}" for name in empty]
    files = tuple(layout.files.values())
    all_labels = {**parsed.labels, **(labels or {})}
    warnings += check_bundle(dockerfile, files, all_labels, has_base=layout.has_base)
    spec = BuildSpec(files, labels=all_labels, created=created, created_by=CREATED_BY)
    return DockerfileBuild(spec, parsed.base if layout.has_base else "", tuple(warnings))
