"""Generate a bundle from manifests: read them, generate, pin their images, and write the bundle."""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from opmkit.author.generate.bundle import BundleSettings, encode_csv, generate_manifests
from opmkit.author.generate.input import read_path, read_stream
from opmkit.author.generate.metadata import SCORECARD_FILE, BundleLabels, annotations_yaml, dockerfile, is_generated
from opmkit.author.pin.pin import RelatedImagesMode, pin_files, read_manifests
from opmkit.author.pin.resolve import PinOptions, resolve_images
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.generate import (
    DOCKERFILE,
    AnnotationsInput,
    ExistingAnnotations,
    read_annotations,
    read_existing_annotations,
)
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND
from opmkit.bundle.labels import CHANNELS, DEFAULT_CHANNEL
from opmkit.core.environment import rfc3339, source_date_epoch
from opmkit.core.files import disk_errors, write_trees
from opmkit.core.progress import NO_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opmkit.author.generate.bundle import GeneratedManifests
    from opmkit.author.generate.input import InputObject
    from opmkit.core.progress import Progress
    from opmkit.imagetools.reference import Reference


STDIN = Path("-")
BUNDLE_DIRECTORY = Path("bundle")
_CHANNELS = "alpha"


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """Options of the generation of a bundle from the manifests that install an operator.

    Attributes:
        package: Name of the package.
        version: Version of the operator, by default that of the base.
        layout: Plugins of the operator project, "" for none.
        extra_accounts: Service accounts of the operator that none of its Deployments use.
        manifests: File or directory of the manifests, ``-`` for standard input.
        crds: File or directory of the CRDs, by default those in ``manifests``.
        base: File with a ClusterServiceVersion to fill in.
        kustomize: Directory with the base ``bases/PACKAGE.clusterserviceversion.yaml``, unless ``manifests`` has one.
        directory: Directory of the bundle; None to return the manifests instead of writing them.
        channels: Comma-separated list of channels, by default those of an existing bundle, or ``alpha``.
        default_channel: Default channel.
        base_image: Image in the FROM instruction of the Dockerfile.
        with_manifests: Whether to generate the manifests.
        with_metadata: Whether to generate the annotations and the Dockerfile.
        overwrite: Whether to change existing annotations and the Dockerfile that belongs to them.
        retain: Whether other annotations in an existing file are retained.
        pin_images: Whether to replace tags of images by digests, and to list all related images.
    """

    package: str
    version: str = ""
    layout: str = ""
    extra_accounts: tuple[str, ...] = ()
    manifests: Path = STDIN
    crds: Path | None = None
    base: Path | None = None
    kustomize: Path | None = None
    directory: Path | None = BUNDLE_DIRECTORY
    channels: str | None = None
    default_channel: str = ""
    base_image: str = "scratch"
    with_manifests: bool = True
    with_metadata: bool = True
    overwrite: bool = True
    retain: bool = True
    pin_images: bool = False


@dataclass(frozen=True, slots=True)
class GeneratedBundle:
    """A bundle that was generated.

    Attributes:
        manifests: Content of the manifests by file name, unless they were written.
        written: The files of the manifests, and those of the metadata, as far as they were generated.
        warnings: Warnings about the input.
        has_placeholders: Whether there was no base, so that the ClusterServiceVersion has placeholders.
    """

    manifests: Mapping[str, bytes] = field(default_factory=dict)
    written: tuple[WrittenFiles, ...] = ()
    warnings: tuple[str, ...] = ()
    has_placeholders: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the bundle in JSON types."""
        return {
            "manifests": {name: content.decode() for name, content in self.manifests.items()},
            "written": [{key: [*map(str, paths)] for key, paths in asdict(files).items()} for files in self.written],
            "warnings": list(self.warnings),
            "hasPlaceholders": self.has_placeholders,
        }


def generate_bundle(
    options: GenerationOptions, digest: Callable[[Reference], str], progress: Progress = NO_PROGRESS
) -> GeneratedBundle:
    """Generate a bundle.

    Args:
        options: What to generate.
        digest: Returns the digest of an image in its registry.
        progress: Reports the number of images.

    Raises:
        InvalidBundle: Objects are invalid or missing, or the ClusterServiceVersion or an annotation is invalid.
        UnresolvedImages: An image has no digest.
        DiskError: A file cannot be read or written.
    """
    generated = _generate(options) if options.with_manifests else None
    channels, default = options.channels, options.default_channel
    if options.with_metadata and channels is None and options.directory:
        existing, existing_default = existing_channels(options.directory)
        channels, default = existing or _CHANNELS, default or existing_default
    given = AnnotationsInput(options.package, _CHANNELS if channels is None else channels, default).unquoted()
    warnings = list(generated.warnings) if generated else []

    def transform(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
        if not options.pin_images:
            return files
        pinned, found = _pin_images(files, digest, progress)
        warnings.extend(found)
        return pinned

    manifests: Mapping[str, bytes] = {}
    staged = []
    if generated and options.directory is None:
        manifests = transform(encode_manifests(generated))
    elif generated and options.directory:
        staged.append(stage_manifests(generated, options.directory, transform))
    if options.with_metadata:
        labels = BundleLabels(options.package, given.channels, given.default_channel, options.layout)
        metadata = stage_metadata(
            replace(labels, has_scorecard=bool(generated and options.directory and generated.scorecard)),
            options.directory or BUNDLE_DIRECTORY,
            base_image=options.base_image,
            overwrite=options.overwrite,
            retain=options.retain,
        )
        staged.append(metadata)
    write_trees(_merge(each.trees for each in staged))
    written = tuple(each.result for each in staged)
    return GeneratedBundle(manifests, written, tuple(warnings), bool(generated and generated.has_placeholders))


def _generate(options: GenerationOptions) -> GeneratedManifests:
    settings = BundleSettings(options.package, options.version, options.layout, options.extra_accounts)
    objects = _read_objects(options.manifests)
    if options.crds:
        crds = [item for item in _read_objects(options.crds) if item.kind == CRD_KIND]
        objects = [*(item for item in objects if item.kind != CRD_KIND), *crds]
    return generate_manifests(objects, settings, _read_base(options, objects))


def _read_objects(path: Path) -> list[InputObject]:
    """Return the objects in a file, in the files of a directory, or in standard input for ``-``."""
    return list(read_stream(sys.stdin.buffer) if path == STDIN else read_path(path))


def _read_base(options: GenerationOptions, objects: list[InputObject]) -> list[InputObject]:
    """Return the objects of the file with the base, none if there is no such file."""
    path = options.base
    if path is None and options.kustomize and all(item.kind != CSV_KIND for item in objects):
        found = options.kustomize / "bases" / f"{options.package}.clusterserviceversion.yaml"
        path = found if found.is_file() else None
    if path is None:
        return []
    base = _read_objects(path)
    if all(item.kind != CSV_KIND for item in base):
        raise InvalidBundle(f"{path}: no {CSV_KIND} found", hint="pass the file of a ClusterServiceVersion")
    return base


def _pin_images(
    files: Mapping[str, bytes], digest: Callable[[Reference], str], progress: Progress
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return manifests with digests instead of the tags of images, and warnings.

    As in operator-sdk, images in the JSON of ``alm-examples`` are pinned, too: they can be those of operands.
    """
    manifests = read_manifests(files, in_json=True)
    uses = [use for manifest in manifests for use in manifest.uses()]
    images = resolve_images(uses, PinOptions(), digest, progress)
    pinned = pin_files(manifests, images, RelatedImagesMode.COMPLETE)
    return {**files, **pinned.files}, pinned.warnings


MANIFESTS = "manifests"
ANNOTATIONS_FILE = "metadata/annotations.yaml"
_CREATED_AT = re.compile(rb"^    createdAt: .*$", re.MULTILINE)


class WrittenFiles(Struct, frozen=True):
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


class StagedFiles(Struct, frozen=True):
    """Files to write, see `write_trees`, and the result of that."""

    trees: Mapping[Path, Mapping[str, bytes]]
    result: WrittenFiles


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


def stage_manifests(
    generated: GeneratedManifests,
    directory: Path,
    transform: Callable[[Mapping[str, bytes]], Mapping[str, bytes]] = dict,
) -> StagedFiles:
    """Return the manifests and the scorecard configuration of a bundle, to be written.

    A ClusterServiceVersion that differs from the existing one only in the time of its creation is not written.

    Args:
        generated: The manifests.
        directory: Directory of the bundle.
        transform: Applied to all manifests, by file name.

    Raises:
        DiskError: An existing file cannot be read.
    """
    manifests = directory / MANIFESTS
    files = {manifests / name: content for name, content in transform(encode_manifests(generated)).items()}
    if generated.scorecard:
        files[directory / SCORECARD_FILE] = generated.scorecard
    with disk_errors(directory):
        existing = set(manifests.iterdir()) if manifests.is_dir() else set()
        staged = _stage(files, directory)
    leftover = tuple(sorted(existing - files.keys()))
    return StagedFiles(staged.trees, replace(staged.result, leftover=leftover))


def stage_metadata(
    labels: BundleLabels,
    directory: Path,
    *,
    base_image: str = "scratch",
    overwrite: bool = True,
    retain: bool = True,
    working_directory: Path | None = None,
) -> StagedFiles:
    """Return the annotations and the Dockerfile of a bundle, to be written.

    Args:
        labels: Annotations. A scorecard configuration that the directory has counts as well.
        directory: Directory of the bundle.
        base_image: Image in the FROM instruction of the Dockerfile.
        overwrite: Whether to change existing annotations and the Dockerfile that belongs to them.
        retain: Whether other annotations in an existing file are retained.
        working_directory: Directory of the Dockerfile; by default the current one.

    Raises:
        InvalidBundle: An annotation or the existing file is invalid.
        DiskError: An existing file cannot be read.
    """
    path, working_directory = directory / ANNOTATIONS_FILE, working_directory or Path()
    existing = read_existing_annotations(path) or ExistingAnnotations({}, ())
    if existing.values and not overwrite:
        return StagedFiles({}, WrittenFiles(unchanged=(path,)))
    others = {key: value for key, value in existing.values.items() if retain and not is_generated(key)}
    has_scorecard = labels.has_scorecard or (directory / SCORECARD_FILE).is_file()
    labels = replace(labels, has_scorecard=has_scorecard, others=others)
    wanted = labels.all()
    source = Path(os.path.relpath(directory, working_directory)).as_posix()
    files = {working_directory / DOCKERFILE: dockerfile(labels, source, base_image).encode()}
    if existing.values != wanted or existing.duplicates:
        files[path] = annotations_yaml(labels).encode()
    with disk_errors(directory):
        staged = _stage(files, directory)
    unchanged = staged.result.unchanged if path in files else (*staged.result.unchanged, path)
    warnings = [
        f"{path}:{key.line}: duplicate key {key.key!r}: retained the last value"
        for key in existing.duplicates
        if key.key in others
    ]
    return StagedFiles(staged.trees, replace(staged.result, unchanged=unchanged, warnings=tuple(warnings)))


def existing_channels(directory: Path) -> tuple[str, str]:
    """Return the channels and the default channel in the annotations of an existing bundle, or "" if there are none.

    Raises:
        InvalidBundle: The file is invalid.
        DiskError: It cannot be read.
    """
    existing = read_annotations(directory / ANNOTATIONS_FILE) or {}
    return existing.get(CHANNELS, ""), existing.get(DEFAULT_CHANNEL, "")


def _stage(files: Mapping[Path, bytes], bundle: Path) -> StagedFiles:
    """Return the files that are not up to date, below the bundle or else their own directories."""
    unchanged = [path for path, content in files.items() if path.is_file() and _equal(path.read_bytes(), content)]
    written = [path for path in files if path not in unchanged]
    trees: dict[Path, dict[str, bytes]] = defaultdict(dict)
    for path in written:
        root = bundle if bundle in path.parents else path.parent
        trees[root][str(path.relative_to(root))] = files[path]
    return StagedFiles(trees, WrittenFiles(tuple(written), tuple(unchanged)))


def _merge(trees: Iterable[Mapping[Path, Mapping[str, bytes]]]) -> dict[Path, dict[str, bytes]]:
    merged: dict[Path, dict[str, bytes]] = defaultdict(dict)
    for each in trees:
        for root, files in each.items():
            merged[root].update(files)
    return merged


def _equal(existing: bytes, content: bytes) -> bool:
    """Return whether a file is up to date, except for the time of its creation unless it is prescribed."""
    if existing == content or os.environ.get("SOURCE_DATE_EPOCH"):
        return existing == content
    return _CREATED_AT.sub(b"", existing, count=1) == _CREATED_AT.sub(b"", content, count=1)
