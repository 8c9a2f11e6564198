"""Generate ``annotations.yaml`` and ``bundle.Dockerfile`` for a directory of manifests."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opmkit.bundle.directory import bundle_root, infer_annotations, is_bundle_file, read_files
from opmkit.bundle.errors import BundleError, InvalidBundle
from opmkit.bundle.hint_terms import BundleSetting
from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.labels import CHANNELS, DEFAULT_CHANNEL, MANIFESTS, MEDIA_TYPE, METADATA, PACKAGE
from opmkit.bundle.manifest import read_manifest
from opmkit.bundle.metadata import read_labels
from opmkit.core.files import disk_errors, require_regular, write_trees
from opmkit.core.hints import Hint
from opmkit.core.json_types import JsonResult
from opmkit.documents import fields
from opmkit.documents.document import read_document
from opmkit.documents.errors import DocumentError, FieldTypeError, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.documents.errors import DuplicateKey

DOCKERFILE = "bundle.Dockerfile"
_ANNOTATIONS = "annotations.yaml"
_DOCKERFILE_ORDER = (MEDIA_TYPE, MANIFESTS, METADATA, PACKAGE, CHANNELS, DEFAULT_CHANNEL)
_PLAIN_SCALAR = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.+/, -]*[A-Za-z0-9_.+/-])?")
_SPECIAL = re.compile(r'(["\\$])')
_QUOTES = ('"', "'")
_DATE = re.compile(r"\d{4}-\d")


class AnnotationsInput(Struct, frozen=True):
    """Package and channels of a bundle; ``channels`` is a comma-separated list. "" means not given."""

    package: str = ""
    channels: str = ""
    default_channel: str = ""

    def unquoted(self) -> AnnotationsInput:
        """Return the input without quotes around channels, which Makefiles pass so that YAML reads 1.31 as a string.

        Raises:
            InvalidBundle: The name of a channel contains quotes.
        """
        return replace(
            self, channels=_unquote_channels(self.channels), default_channel=_unquote_channels(self.default_channel)
        )


@dataclass(frozen=True, slots=True)
class GeneratedMetadata(JsonResult):
    """Directories of a bundle, its annotations, and warnings about the manifests."""

    manifests: Path
    metadata: Path
    annotations: Mapping[str, str]
    warnings: tuple[str, ...]


def _unquote_channels(channels: str) -> str:
    names = _unquote(channels).split(",")
    if any(quote in name for name in names for quote in _QUOTES):
        names = [_unquote(name) for name in channels.split(",")]
    if quoted := next((name for name in names for quote in _QUOTES if quote in name), ""):
        raise InvalidBundle(f"invalid channel {quoted}: quotes", hint=Hint("correct {}", BundleSetting.CHANNELS))
    return ",".join(names)


def _unquote(text: str) -> str:
    """Return a text without the pair of quotes around it, if there is one."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES
    return text[1:-1] if is_quoted else text


class ExistingAnnotations(Struct, frozen=True):
    """The annotations in a file, and the keys that it has more than once, of which the last value counts."""

    values: Mapping[str, str]
    duplicates: tuple[DuplicateKey, ...]


def generate(
    directory: Path,
    given: AnnotationsInput,
    *,
    output: Path | None = None,
    base_image: str = "scratch",
    overwrite: bool = True,
    needs_dockerfile: bool = True,
    write_dockerfile: bool = True,
    working_directory: Path | None = None,
) -> GeneratedMetadata:
    """Write the annotations and the Dockerfile of a bundle.

    Args:
        directory: Directory that contains the manifests.
        given: Package and channels. Missing values are taken from the package manifest in the parent directory,
            otherwise from the existing annotations file, whose other annotations are retained.
        output: Directory to which the manifests are copied, as ``manifests/``. The annotations are written to
            ``metadata/`` next to the manifests.
        base_image: Image in the FROM instruction of the Dockerfile.
        overwrite: Whether to replace existing files; otherwise existing annotations must be equal.
        needs_dockerfile: Whether it is an error, not a warning, if the working directory is not writable.
        write_dockerfile: Whether to write the Dockerfile.
        working_directory: Directory of the Dockerfile; by default the current one.

    Raises:
        InvalidBundle: There are no manifests, package or channels are unknown, or existing annotations differ.
        DiskError: A file cannot be read or written.
    """
    directory, working_directory = _absolute(directory), working_directory or Path.cwd()
    if not directory.is_dir():
        raise InvalidBundle(f"{directory}: no such directory", hint="pass the directory that contains the manifests")
    media_type, warnings = _media_type(directory)
    parent = _absolute(output) if output else directory.parent
    existing = [root / "metadata" / _ANNOTATIONS for root in (parent, directory.parent)]
    given, others = _complete(given.unquoted(), directory, existing)
    annotations = {**bundle_annotations(media_type, given), **(others or {})}
    manifests = parent / "manifests" if output else directory
    if directory in manifests.parents:
        raise InvalidBundle(
            f"{manifests}: cannot copy {directory} into itself", hint="pass an output directory outside of it"
        )
    metadata = parent / "metadata"
    writes_annotations = _needs_writing(metadata / _ANNOTATIONS, annotations, overwrite=overwrite)
    if others is not None and read_annotations(metadata / _ANNOTATIONS) == annotations:
        writes_annotations = False  # the file already has these annotations; rewriting it would drop its comments
    trees: dict[Path, dict[str, bytes | Path]] = defaultdict(dict)
    with disk_errors(parent):
        if output and not (manifests.exists() and manifests.samefile(directory)):
            copies = dict(_copies(directory, manifests, bundle_root(directory)))
            trees[parent].update(
                {str(each.relative_to(parent)): file for each, file in copies.items() if overwrite or not each.exists()}
            )
        if writes_annotations:
            trees[parent][f"metadata/{_ANNOTATIONS}"] = annotations_yaml(annotations).encode(errors="surrogateescape")
        if write_dockerfile and (overwrite or not (working_directory / DOCKERFILE).exists()):
            sources = [Path(os.path.relpath(path, working_directory)).as_posix() for path in (manifests, metadata)]
            text = dockerfile(annotations, base_image, *sources)
            if needs_dockerfile or os.access(working_directory, os.W_OK):
                trees[working_directory][DOCKERFILE] = text.encode(errors="surrogateescape")
            else:
                warnings += (f"{working_directory / DOCKERFILE}: not written: the directory is not writable",)
        write_trees(trees)
    return GeneratedMetadata(manifests, metadata, annotations, warnings)


def bundle_annotations(media_type: str, given: AnnotationsInput) -> dict[str, str]:
    """Return the annotations of a bundle, which are also the labels of its image, in the order of the Dockerfile.

    Raises:
        InvalidBundle: A value has control characters, which are invalid in labels.
    """
    values = (media_type, "manifests/", "metadata/", given.package, given.channels, given.default_channel)
    for value in values:
        if not value.isprintable():
            raise InvalidBundle(
                f"invalid annotation {value!r}: control characters", hint="remove them from package and channels"
            )
    annotations = dict(zip(_DOCKERFILE_ORDER, values, strict=True))
    if not given.default_channel:
        del annotations[DEFAULT_CHANNEL]
    return annotations


def annotations_yaml(annotations: Mapping[str, str]) -> str:
    """Return the text of an annotations file; it depends only on the annotations."""
    lines = (f"  {key}: {yaml_scalar(value)}\n" for key, value in sorted(annotations.items()))
    return f"annotations:\n{''.join(lines)}"


def dockerfile(annotations: Mapping[str, str], base_image: str, manifests: str, metadata: str) -> str:
    """Return the text of a Dockerfile for a bundle in two directories, byte for byte as Go opm generates it."""
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


def yaml_scalar(value: str) -> str:
    """Quote a value if a YAML parser could read it as another type."""
    from opmkit.documents.go_yaml import resolve

    plain = _PLAIN_SCALAR.fullmatch(value) and not _DATE.match(value) and resolve(value) == value
    return value if plain else json.dumps(value, ensure_ascii=False)


def _media_type(directory: Path) -> tuple[str, tuple[str, ...]]:
    """Return the media type for the files of a directory, and warnings about files that cannot be decoded."""
    files = read_files(directory)
    if not files:
        raise InvalidBundle(f"{directory}: no files found", hint="pass the directory that contains the manifests")
    if "Chart.yaml" in files and _is_chart(files["Chart.yaml"]):
        return "helm", ()
    ignored = []
    for name, content in files.items():
        try:
            manifest = read_manifest(content)
        except InvalidDocument as error:
            ignored.append(f"ignored {error.located(str(directory / name))}")
            continue
        if manifest and manifest.kind == CSV_KIND:
            return "registry+v1", ()
    return "plain", ("no ClusterServiceVersion found: the media type is plain", *ignored)


def _is_chart(content: bytes) -> bool:
    with suppress(BundleError, DocumentError):
        return fields.mapping(read_document(content).value, "the chart").get("name") not in (None, "")
    return False


def _complete(
    given: AnnotationsInput, directory: Path, files: Sequence[Path]
) -> tuple[AnnotationsInput, Mapping[str, str] | None]:
    """Add missing values; return them with the other annotations of the annotations file, None if it was not read."""
    if given.package and given.channels:
        return given, None
    try:
        inferred = infer_annotations(directory)
    except (InvalidBundle, FieldTypeError):
        found = ((path, read_annotations(path)) for path in files)
        path, annotations = next(((path, one) for path, one in found if one is not None), (None, {}))
        if path is None:
            raise
        return _from_annotations(given, path, annotations), _other_annotations(path, annotations)
    completed = AnnotationsInput(
        package=given.package or inferred.package,
        channels=given.channels or ",".join(inferred.channels),
        default_channel=given.default_channel or inferred.default_channel,
    )
    return completed, None


def _other_annotations(path: Path, annotations: Mapping[str, str]) -> Mapping[str, str]:
    """Return the annotations that are not generated; raise InvalidBundle for those that are invalid as labels."""
    others = {key: value for key, value in annotations.items() if key not in _DOCKERFILE_ORDER}
    for key, value in others.items():
        if not f"{key}{value}".isprintable():
            raise InvalidBundle(f"{path}: invalid annotation {key!r}: control characters", hint="write it on one line")
    return others


def _from_annotations(given: AnnotationsInput, path: Path, annotations: Mapping[str, str]) -> AnnotationsInput:
    """Add missing values from an annotations file; raise InvalidBundle if the file lacks one."""
    package, channels = given.package or annotations.get(PACKAGE), given.channels or annotations.get(CHANNELS)
    for value, label, setting in (
        (package, PACKAGE, BundleSetting.PACKAGE),
        (channels, CHANNELS, BundleSetting.CHANNELS),
    ):
        if not value:
            hint = Hint.any_of("add it to the file", Hint("pass {}", setting))
            raise InvalidBundle(f"{path}: the annotation {label} is missing", hint=hint)
    default = annotations.get(DEFAULT_CHANNEL, "")
    if given.channels and default not in given.channels.split(","):
        default = ""
    return AnnotationsInput(package or "", channels or "", given.default_channel or default)


def read_annotations(path: Path) -> Mapping[str, str] | None:
    """Parse an annotations file; return None if it does not exist, raise InvalidBundle if it is invalid."""
    existing = read_existing_annotations(path)
    return None if existing is None else existing.values


def read_existing_annotations(path: Path) -> ExistingAnnotations | None:
    """Parse an annotations file; return None if it does not exist, raise InvalidBundle if it is invalid."""
    content = read_files(path.parent).get(path.name)
    if content is None:
        return None
    try:
        document = read_document(content)
        return ExistingAnnotations(read_labels(document), document.duplicates)
    except InvalidDocument as error:
        raise InvalidBundle(error.located(str(path)), hint="correct or remove the file") from error
    except (InvalidBundle, FieldTypeError) as error:
        raise InvalidBundle(f"{path}: {error.message}", hint=error.hint) from error


def _needs_writing(path: Path, wanted: Mapping[str, str], *, overwrite: bool) -> bool:
    """Return whether an annotations file does not exist or must be replaced.

    Raises:
        InvalidBundle: The file has other annotations and ``overwrite`` is not set.
    """
    existing = None if overwrite else read_annotations(path)
    if existing is None:
        return True
    differences = [
        f"{key} is {existing[key]!r}, not {value!r}" if key in existing else f"{key} is missing"
        for key, value in wanted.items()
        if existing.get(key) != value
    ]
    if differences:
        hint = Hint.any_of("correct it", Hint("use {}", BundleSetting.OVERWRITE))
        raise InvalidBundle(f"{path}: conflicting annotations: {'; '.join(differences)}", hint=hint)
    return False


def _copies(source: Path, target: Path, root: Path) -> Iterator[tuple[Path, Path]]:
    """Yield targets and sources of a copy of a directory of the bundle ``root``.

    As in Go opm, the content of a subdirectory goes into a directory named like its parent.
    """
    for path in sorted(source.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _copies(path, target / source.name, root)
        elif is_bundle_file(path, root):
            require_regular(path)
            yield target / path.name, path
