"""``annotations.yaml`` and ``bundle.Dockerfile`` for a directory of manifests."""

from __future__ import annotations

import errno
import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle import fields, serviceversion
from opmkit.bundle.document import read_document
from opmkit.bundle.errors import BundleError, InvalidBundle, InvalidDocument
from opmkit.bundle.labels import CHANNELS, DEFAULT_CHANNEL, MANIFESTS, MEDIA_TYPE, METADATA, PACKAGE
from opmkit.bundle.load import read_files
from opmkit.bundle.manifest import read_manifest
from opmkit.bundle.metadata import read_labels
from opmkit.bundle.packagedir import infer_annotations
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

DOCKERFILE = "bundle.Dockerfile"
_ANNOTATIONS = "annotations.yaml"
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_DOCKERFILE_ORDER = (MEDIA_TYPE, MANIFESTS, METADATA, PACKAGE, CHANNELS, DEFAULT_CHANNEL)
_PLAIN = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.+/, -]*[A-Za-z0-9_.+/-])?")
_DATE = re.compile(r"\d{4}-\d")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a bundle belongs, as given on the command line: ``channels`` separated by commas, "" what is not given."""

    package: str = ""
    channels: str = ""
    default_channel: str = ""


@dataclass(frozen=True, slots=True)
class Generated:
    """The directories that make up the bundle now, the annotations generated, and remarks on the manifests."""

    manifests: Path
    metadata: Path
    annotations: Mapping[str, str]
    warnings: tuple[str, ...]


def generate(
    directory: Path,
    place: Place,
    *,
    output: Path | None = None,
    base_image: str = "scratch",
    overwrite: bool = True,
    needs_dockerfile: bool = True,
    working_directory: Path | None = None,
) -> Generated:
    """Write the annotations and the Dockerfile of the bundle whose manifests are in ``directory``.

    The annotations go to ``metadata/`` beside the manifests; with ``output`` the manifests are copied to
    ``output/manifests`` and the annotations go to ``output/metadata``. The Dockerfile goes to the working directory.
    What ``place`` leaves open is told from the package directory around. Without ``overwrite`` files that are there
    stay, and annotations that are there must agree. Where nobody ``needs_dockerfile``, a working directory that can't
    be written gets none, with a warning.

    Raises:
        InvalidBundle: if there are no manifests, the place can't be told, or the annotations disagree.
        StoreError: if the disk says no.
    """
    directory, working_directory = _absolute(directory), working_directory or Path.cwd()
    if not directory.is_dir():
        raise InvalidBundle(f"there is no directory {directory}", advice="Give the directory of the manifests.")
    media_type, warnings = _media_type(directory)
    annotations = bundle_annotations(media_type, _complete(place, directory))
    parent = _absolute(output) if output else directory.parent
    manifests = parent / "manifests" if output else directory
    if directory in manifests.parents:
        raise InvalidBundle(
            f"{manifests} is within {directory}, which it is a copy of", advice="Give an output outside."
        )
    metadata = parent / "metadata"
    kept = None if overwrite else _existing(metadata / _ANNOTATIONS, annotations)
    with disk_errors(parent):
        if output and not (manifests.exists() and manifests.samefile(directory)):
            _copy(directory, manifests, overwrite=overwrite)
        if kept is None:
            _write(metadata / _ANNOTATIONS, annotations_yaml(annotations))
        if overwrite or not (working_directory / DOCKERFILE).exists():
            sources = [Path(os.path.relpath(path, working_directory)).as_posix() for path in (manifests, metadata)]
            text = dockerfile(annotations, base_image, *sources)
            warnings += _write_dockerfile(working_directory / DOCKERFILE, text, needed=needs_dockerfile)
    return Generated(manifests, metadata, annotations, warnings)


def bundle_annotations(media_type: str, place: Place) -> dict[str, str]:
    """Give the annotations of a bundle, which are its image's labels as well, in the order of a Dockerfile.

    Raises:
        InvalidBundle: if a value has control characters, which no label can have.
    """
    values = (media_type, "manifests/", "metadata/", place.package, place.channels, place.default_channel)
    for value in values:
        if not value.isprintable():
            raise InvalidBundle(f"{value!r} has control characters", advice="Leave them out of package and channels.")
    annotations = dict(zip(_DOCKERFILE_ORDER, values, strict=True))
    if not place.default_channel:
        del annotations[DEFAULT_CHANNEL]
    return annotations


def annotations_yaml(annotations: Mapping[str, str]) -> str:
    """Give the text of an annotations file; the same annotations give the same text."""
    lines = (f"  {key}: {_yaml_text(value)}\n" for key, value in sorted(annotations.items()))
    return f"annotations:\n{''.join(lines)}"


def dockerfile(annotations: Mapping[str, str], base_image: str, manifests: str, metadata: str) -> str:
    """Give the text of a Dockerfile that builds the bundle from the two directories, to the byte as the Go tool."""
    labels = "".join(f"LABEL {key}={value}\n" for key, value in annotations.items())
    gap = "\n" if DEFAULT_CHANNEL in annotations else ""
    return f"FROM {base_image}\n\n{labels}{gap}COPY {manifests} /manifests/\nCOPY {metadata} /metadata/\n"


def _absolute(path: Path) -> Path:
    return Path(os.path.normpath(path.absolute()))


def _yaml_text(value: str) -> str:
    """Write a text so that every reader of YAML gets a text back."""
    from opmkit.bundle.goyaml import resolve

    plain = _PLAIN.fullmatch(value) and not _DATE.match(value) and resolve(value) == value
    return value if plain else json.dumps(value, ensure_ascii=False)


def _media_type(directory: Path) -> tuple[str, tuple[str, ...]]:
    """Tell what kind of bundle the files of a directory make, and which of them couldn't be read."""
    files = read_files(directory)
    if not files:
        raise InvalidBundle(f"there are no files in {directory}", advice="Give the directory that holds the manifests.")
    if "Chart.yaml" in files and _is_chart(files["Chart.yaml"]):
        return "helm", ()
    unreadable = []
    for name, content in files.items():
        try:
            manifest = read_manifest(content)
        except InvalidDocument as error:
            unreadable.append(f"left out: {error.located(str(directory / name))}")
            continue
        if manifest and manifest.kind == serviceversion.KIND:
            return "registry+v1", ()
    return "plain", ("no ClusterServiceVersion was found, so the media type is plain", *unreadable)


def _is_chart(content: bytes) -> bool:
    with suppress(BundleError):
        return fields.mapping(read_document(content).value, "the chart").get("name") not in (None, "")
    return False


def _complete(place: Place, directory: Path) -> Place:
    """Fill in what is not given, if it is needed."""
    if place.package and place.channels:
        return place
    told = infer_annotations(directory)
    return Place(
        package=place.package or told.package,
        channels=place.channels or ",".join(told.channels),
        default_channel=place.default_channel or told.default_channel,
    )


def _existing(path: Path, wanted: Mapping[str, str]) -> Mapping[str, str] | None:
    """Read annotations that are there, None if there are none; they must say what is wanted, and may say more."""
    content = read_files(path.parent).get(path.name)
    if content is None:
        return None
    try:
        found = read_labels(read_document(content))
    except InvalidDocument as error:
        raise InvalidBundle(error.located(str(path)), advice="Correct the file, or use --overwrite.") from error
    differences = [
        f"{key} is {found[key]!r}, not {value!r}" if key in found else f"{key} is missing"
        for key, value in wanted.items()
        if found.get(key) != value
    ]
    if differences:
        raise InvalidBundle(f"{path} disagrees: {'; '.join(differences)}", advice="Correct it, or use --overwrite.")
    return found


def _copy(source: Path, target: Path, *, overwrite: bool) -> None:
    """Copy a directory; what is nested goes, as with the Go tool, below a directory named like the one it is in."""
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.is_dir() and not path.is_symlink():
            _copy(path, target / source.name, overwrite=overwrite)
        elif overwrite or not (target / path.name).exists():
            _write(target / path.name, path.read_bytes(), mode=path.stat().st_mode & 0o777)


def _write_dockerfile(path: Path, text: str, *, needed: bool) -> tuple[str, ...]:
    """Write it, or give the warning that its directory can't be written."""
    try:
        _write(path, text)
    except OSError as error:
        if needed or error.errno not in _CLOSED:
            raise
        return (f"{path} is not written: {error.strerror}",)
    return ()


def _write(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Put a file in place whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content.encode() if isinstance(content, str) else content)
    part.chmod(mode)
    part.replace(path)
