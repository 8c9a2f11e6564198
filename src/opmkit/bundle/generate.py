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

from opmkit.bundle import fields
from opmkit.bundle.cluster_service_version import CSV_KIND
from opmkit.bundle.document import read_document
from opmkit.bundle.errors import BundleError, InvalidBundle, InvalidDocument
from opmkit.bundle.labels import CHANNELS, DEFAULT_CHANNEL, MANIFESTS, MEDIA_TYPE, METADATA, PACKAGE
from opmkit.bundle.load import read_files
from opmkit.bundle.manifest import read_manifest
from opmkit.bundle.metadata import read_labels
from opmkit.bundle.package_directory import infer_annotations
from opmkit.imagetools.hints import Hint, Setting
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DOCKERFILE = "bundle.Dockerfile"
_ANNOTATIONS = "annotations.yaml"
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_DOCKERFILE_ORDER = (MEDIA_TYPE, MANIFESTS, METADATA, PACKAGE, CHANNELS, DEFAULT_CHANNEL)
_PLAIN = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.+/, -]*[A-Za-z0-9_.+/-])?")
_SPECIAL = re.compile(r'(["\\$])')
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
    What ``place`` leaves open comes from the package directory around, or else from the existing annotations file,
    whose further annotations are retained. Without ``overwrite`` files that are there stay, and annotations that are
    there must agree. Where nobody ``needs_dockerfile``, a working directory that can't be written gets none, with a
    warning.

    Raises:
        InvalidBundle: if there are no manifests, the place can't be told, or the annotations disagree.
        StoreError: if the disk says no.
    """
    directory, working_directory = _absolute(directory), working_directory or Path.cwd()
    if not directory.is_dir():
        raise InvalidBundle(f"there is no directory {directory}", hint="Give the directory of the manifests.")
    media_type, warnings = _media_type(directory)
    parent = _absolute(output) if output else directory.parent
    existing = [root / "metadata" / _ANNOTATIONS for root in (parent, directory.parent)]
    place, further = _complete(place, directory, existing)
    annotations = {**bundle_annotations(media_type, place), **(further or {})}
    manifests = parent / "manifests" if output else directory
    if directory in manifests.parents:
        raise InvalidBundle(f"{manifests} is within {directory}, which it is a copy of", hint="Give an output outside.")
    metadata = parent / "metadata"
    writes_annotations = _needs_writing(metadata / _ANNOTATIONS, annotations, overwrite=overwrite)
    if further is not None and _read_annotations(metadata / _ANNOTATIONS) == annotations:
        writes_annotations = False  # the file already has these annotations; rewriting it would drop its comments
    with disk_errors(parent):
        if output and not (manifests.exists() and manifests.samefile(directory)):
            _copy(directory, manifests, overwrite=overwrite)
        if writes_annotations:
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
            raise InvalidBundle(f"{value!r} has control characters", hint="Leave them out of package and channels.")
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
    labels = "".join(
        f"LABEL {key}={value}\n" if key in _DOCKERFILE_ORDER else f'LABEL "{_escaped(key)}"="{_escaped(value)}"\n'
        for key, value in annotations.items()
    )
    gap = "\n" if DEFAULT_CHANNEL in annotations else ""
    return f"FROM {base_image}\n\n{labels}{gap}COPY {manifests} /manifests/\nCOPY {metadata} /metadata/\n"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _absolute(path: Path) -> Path:
    return Path(os.path.normpath(path.absolute()))


def _yaml_text(value: str) -> str:
    """Write a text so that every reader of YAML gets a text back."""
    from opmkit.bundle.go_yaml import resolve

    plain = _PLAIN.fullmatch(value) and not _DATE.match(value) and resolve(value) == value
    return value if plain else json.dumps(value, ensure_ascii=False)


def _media_type(directory: Path) -> tuple[str, tuple[str, ...]]:
    """Tell what kind of bundle the files of a directory make, and which of them couldn't be read."""
    files = read_files(directory)
    if not files:
        raise InvalidBundle(f"there are no files in {directory}", hint="Give the directory that holds the manifests.")
    if "Chart.yaml" in files and _is_chart(files["Chart.yaml"]):
        return "helm", ()
    unreadable = []
    for name, content in files.items():
        try:
            manifest = read_manifest(content)
        except InvalidDocument as error:
            unreadable.append(f"left out: {error.located(str(directory / name))}")
            continue
        if manifest and manifest.kind == CSV_KIND:
            return "registry+v1", ()
    return "plain", ("no ClusterServiceVersion was found, so the media type is plain", *unreadable)


def _is_chart(content: bytes) -> bool:
    with suppress(BundleError):
        return fields.mapping(read_document(content).value, "the chart").get("name") not in (None, "")
    return False


def _complete(place: Place, directory: Path, files: Sequence[Path]) -> tuple[Place, Mapping[str, str] | None]:
    """Fill in what is not given; return it with the further annotations of the file that was used, None without one."""
    if place.package and place.channels:
        return place, None
    try:
        inferred = infer_annotations(directory)
    except InvalidBundle:
        found = ((path, _read_annotations(path)) for path in files)
        path, annotations = next(((path, one) for path, one in found if one is not None), (None, {}))
        if path is None:
            raise
        return _place_from_file(place, path, annotations), _further(annotations)
    completed = Place(
        package=place.package or inferred.package,
        channels=place.channels or ",".join(inferred.channels),
        default_channel=place.default_channel or inferred.default_channel,
    )
    return completed, None


def _further(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """Return the annotations that are not about the bundle's place; raises InvalidBundle if no label can have one."""
    further = {key: value for key, value in annotations.items() if key not in _DOCKERFILE_ORDER}
    for key, value in further.items():
        if not f"{key}{value}".isprintable():
            raise InvalidBundle(f"the annotation {key!r} has control characters", hint="Write it on one line.")
    return further


def _place_from_file(place: Place, path: Path, annotations: Mapping[str, str]) -> Place:
    """Fill in what is not given from an annotations file; raises InvalidBundle if the file lacks it."""
    package, channels = place.package or annotations.get(PACKAGE), place.channels or annotations.get(CHANNELS)
    for value, label, setting in ((package, PACKAGE, Setting.PACKAGE), (channels, CHANNELS, Setting.CHANNELS)):
        if not value:
            hint = Hint.any_of("add it to the file", Hint("pass {}", setting))
            raise InvalidBundle(f"{path}: the annotation {label} is missing", hint=hint)
    default = annotations.get(DEFAULT_CHANNEL, "")
    if place.channels and default not in place.channels.split(","):
        default = ""
    return Place(package or "", channels or "", place.default_channel or default)


def _read_annotations(path: Path) -> Mapping[str, str] | None:
    """Read an annotations file, None if there is none; raises InvalidBundle if it can't be read."""
    content = read_files(path.parent).get(path.name)
    if content is None:
        return None
    try:
        return read_labels(read_document(content))
    except InvalidDocument as error:
        raise InvalidBundle(error.located(str(path)), hint="Correct the file, or remove it.") from error
    except InvalidBundle as error:
        raise InvalidBundle(f"{path}: {error.message}", hint=error.hint) from error


def _needs_writing(path: Path, wanted: Mapping[str, str], *, overwrite: bool) -> bool:
    """Return whether an annotations file is missing or to be replaced.

    Raises:
        InvalidBundle: if the file lacks or contradicts what is wanted, and ``overwrite`` is not set.
    """
    found = None if overwrite else _read_annotations(path)
    if found is None:
        return True
    differences = [
        f"{key} is {found[key]!r}, not {value!r}" if key in found else f"{key} is missing"
        for key, value in wanted.items()
        if found.get(key) != value
    ]
    if differences:
        hint = Hint.any_of("correct it", Hint("use {}", Setting.OVERWRITE))
        raise InvalidBundle(f"{path} disagrees: {'; '.join(differences)}", hint=hint)
    return False


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
