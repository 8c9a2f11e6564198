"""Find the bundles to validate, in directories, images and the tags of repositories, and read them."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from opmkit.bundle.directory import DIRECTORIES, bundle_root, is_bundle_file, is_package_directory, reject_layout, walk
from opmkit.bundle.errors import InvalidBundle, NoMatchingTag, NotABundle
from opmkit.bundle.hint_terms import BundleOperation, BundleSetting
from opmkit.bundle.labels import MANIFESTS, labelled_directories
from opmkit.bundle.validation.cache_key import MAX_ENTRIES
from opmkit.bundle.validation.operator_directory import (
    bundle_directories,
    config_file,
    operator_directories,
    operator_files,
    template_names,
)
from opmkit.bundle.validation.pipeline_yaml import blank_preamble
from opmkit.core.cache import files_digest
from opmkit.core.errors import LimitExceeded
from opmkit.core.files import disk_errors, read_limited
from opmkit.core.hints import Hint
from opmkit.documents import MAX_BYTES
from opmkit.imagetools.layer import MEMORY_LIMITS, Limits
from opmkit.imagetools.layer.limits import LimitTracker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opmkit.imagetools.reference import ImageReference, Reference
    from opmkit.imagetools.tools.tool import ContainerTool

    GetTool: TypeAlias = Callable[[], ContainerTool]
    """Returns the tool that reads images; not called for directories."""


_MAX_LISTED = 3
_PART_OF_IMAGE = frozenset(":@.")
"""Characters in names that are certain to be those of images: of a tag, a digest or a host."""
LIST_PREFIX = "@"
"""Start of a target that is the path of a list of targets."""
_ALL_TAGS_SUFFIX = ":*"
_MAX_LIST_BYTES = 16 << 20
_LIMITS = Limits(
    total_bytes=MEMORY_LIMITS.total_bytes,
    extracted_bytes=128 << 20,
    file_bytes=MAX_BYTES,
    entries=MAX_ENTRIES,
    path_depth=32,
)
_CATALOG_SCHEMA = re.compile(rb"""^[\s{]*["']?schema["']?\s*:\s*["']?olm\.(?:package|channel|bundle)\b""", re.MULTILINE)
_KIND = re.compile(rb"""^["']?kind["']?\s*:""", re.MULTILINE)
_CSV = re.compile(rb"""["']?kind["']?\s*:\s*["']?ClusterServiceVersion\b""")
_DIRECTORIES = ("manifests", "metadata", "tests")


class Source(Struct, frozen=True):
    """A bundle to validate: its name on the command line, and its directory or image.

    ``operator`` is whether the directory is that of an operator, ``of_operator`` whether it is of one of its versions.
    """

    target: str
    location: ImageReference | Path
    operator: bool = False
    of_operator: bool = False

    @property
    def lacks_annotations(self) -> bool:
        """Whether it is the manifests directory itself, not of a version in the package manifest format."""
        if self.operator or not isinstance(self.location, Path):
            return False
        directories = (self.location, self.location.absolute().parent)
        return _is_bare(self.location) and not any(map(is_package_directory, directories))


class BundleFiles(Struct, frozen=True):
    """The files of a bundle that rules read.

    Attributes:
        files: Content by path from the root of the bundle.
        directories: Paths of all directories.
        labels: Labels of the image, None for a directory.
        operator: Name of the operator if the directory is that of an operator, otherwise "".
        operator_config: Content of the operator's ci.yaml if the directory is that of a version, otherwise "".
    """

    files: Mapping[str, bytes]
    directories: frozenset[str]
    labels: Mapping[str, str] | None = None
    operator: str = ""
    operator_config: bytes = b""

    @property
    def digest(self) -> str:
        """Digest of all that rules depend on."""
        contents = {**self.files, **{f"{path}/": b"" for path in self.directories - _parents(self.files)}}
        config = files_digest({"": self.operator_config}) if self.operator_config else ""
        return ":".join(filter(None, (files_digest(contents), self.operator, config)))

    @property
    def bare(self) -> bool:
        """Whether the root itself is a manifests directory."""
        return not self.directories & {"manifests", "metadata"} and MANIFESTS not in (self.labels or {})


def expand_targets(targets: Iterable[str], tags: Callable[[Reference], Iterable[str]]) -> Iterator[Source]:
    """Yield the bundles that targets name: directories, images, repositories and lists of these.

    A target is ``DIR``, an image reference with a tag or digest, ``REGISTRY/REPO`` or ``REGISTRY/REPO:*`` for the
    result of ``tags``, or ``@FILE`` with one target per line and comments after ``#``. A directory in the package
    manifest format, and that of an operator, stands for itself and the directories of its versions; a repository of
    operators stands for all of them.

    Raises:
        InvalidReference: For an invalid image reference.
        NotABundle: For a target that names no bundle.
        DiskError: A file cannot be read.
    """
    for target in targets:
        if target.startswith(LIST_PREFIX):
            yield from expand_targets(read_list(Path(target.removeprefix(LIST_PREFIX))), tags)
        elif (path := _existing_path(target)) and path.is_dir():
            yield from _directories(path, _printable(target))
        elif path and path.is_file():
            raise NotABundle(f"{target} is a file, not a bundle", hint=_file_hint(path, target))
        else:
            yield from _images(target, tags)


def _file_hint(path: Path, target: str) -> str:
    from opmkit.imagetools.reference import archive_hint  # slow to import: not needed for directories

    directory = "pass the directory that contains manifests/"
    if path.suffix in (".yaml", ".yml", ".json"):
        return directory
    return archive_hint(path) or f"{directory}; for a list of references write {LIST_PREFIX}{target}"


def _existing_path(target: str) -> Path | None:
    """Return the file or directory that a target names, see `named_path`."""
    if target.startswith((".", "/")) or _PART_OF_IMAGE.isdisjoint(target):
        return path if (path := Path(target)).exists() else None
    from opmkit.imagetools.reference import named_path  # slow to import: not needed for most directories

    return named_path(target)


def _directories(path: Path, target: str) -> Iterator[Source]:
    """Yield a directory, and the directories of its versions if it holds package manifests or an operator."""
    reject_layout(path, target)
    with disk_errors(path):
        operators = [(operator, bundle_directories(operator)) for operator in operator_directories(path)]
    for operator, versions in operators:
        name = target if operator == path else _printable(str(Path(target, operator.relative_to(path))))
        yield Source(name, operator, operator=True)
        for version in versions:
            yield Source(_printable(str(Path(name, version.name))), version, of_operator=True)
    if operators:
        return
    yield Source(target, path)
    if is_package_directory(path):
        for version in sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith(".")):
            yield Source(_printable(str(Path(target, version.name))), version)


def read_list(path: Path) -> list[str]:
    """Return the targets in a file, one per line with comments after ``#``.

    Raises:
        LimitExceeded: The file is too large.
        NotABundle: It lists nothing, perhaps because what wrote it has failed, or another list.
        DiskError: It cannot be read.
    """
    with disk_errors(path):
        lines = read_limited(path, _MAX_LIST_BYTES).decode("utf-8", "replace").splitlines()
    targets = [line.partition("#")[0].strip() for line in lines]
    if any(target.startswith(LIST_PREFIX) for target in targets):
        raise NotABundle(f"{path}: nested list", hint="name all lists on the command line")
    if not any(targets):
        raise NotABundle(f"{path}: empty list", hint="write one target per line")
    return [target for target in targets if target]


def _images(target: str, tags: Callable[[Reference], Iterable[str]]) -> Iterator[Source]:
    from opmkit.bundle.source import parse_location, path_or_image  # slow to import: not needed for directories
    from opmkit.imagetools.reference import Reference, parse_image_reference

    parse = parse_image_reference if target.endswith(_ALL_TAGS_SUFFIX) else parse_location
    location = parse(target.removesuffix(_ALL_TAGS_SUFFIX))
    if isinstance(location, Path):
        raise NotABundle(f"{target}: no such directory", hint="pass the directory that contains manifests/")
    if isinstance(location, Reference) and not location.tag and not location.digest:
        repository = target.removesuffix(_ALL_TAGS_SUFFIX)
        with path_or_image(target):
            names = sorted(tags(location))  # registries list them in no particular order
        for tag in names:
            yield Source(f"{repository}:{tag}", location.with_tag(tag))
    else:
        yield Source(target, location)


def read_files(get_tool: GetTool, source: Source) -> BundleFiles:
    """Read the files of a bundle.

    Raises:
        NotABundle: The directory or image contains no bundle.
        ImageToolsError: A file or the image cannot be read, or exceeds a limit.
    """
    if isinstance(source.location, Path):
        return _read_operator(source.location) if source.operator else _read_directory(source.location)
    from opmkit.bundle.source import require_equal_platforms  # slow to import: not needed for directories

    image = require_equal_platforms(get_tool(), source.location)
    labels = get_tool().inspect(image).labels
    files = get_tool().read_tree(image, sorted({*_DIRECTORIES, *labelled_directories(labels)}), _LIMITS)
    if not files:
        from opmkit.bundle.load import not_a_bundle

        raise not_a_bundle(source.target, get_tool().inspect(image))
    files = {_printable(path): raw for path, raw in files.items()}
    return BundleFiles(files, _parents(files), labels)


def read_definitions(get_tool: GetTool, target: str) -> tuple[bytes, ...]:
    """Return the files with CustomResourceDefinitions of one bundle: a directory, or an image with a tag or digest.

    Raises:
        NotABundle: The target is not exactly one bundle.
        DiskError, ImageToolsError: The bundle cannot be read.
    """
    from opmkit.bundle.validation.bundle_view import BundleView  # slow to import: only needed for upgrades

    sources = list(expand_targets([target], _reject_repository))
    if len(sources) != 1:
        raise NotABundle(f"{target}: contains several bundles", hint="name the directory of one version")
    bundle = read_files(get_tool, sources[0])
    view = BundleView(target, bundle.files, bundle.directories, bundle.labels, bundle.bare)
    return tuple(manifest.content.raw for manifest in view.crds)


def _reject_repository(repository: Reference) -> Iterable[str]:
    raise NotABundle(
        f"{repository}: not one bundle", hint="name an existing directory, or add the tag or digest of an image"
    )


def read_labels(get_tool: GetTool, source: Source) -> BundleFiles:
    """Read only the labels of a bundle image.

    Raises:
        NotABundle: For a directory.
        ImageToolsError: The image cannot be read.
    """
    if isinstance(source.location, Path):
        raise NotABundle(f"{source.target} is a directory and has no labels", hint="validate its files")
    from opmkit.bundle.source import require_equal_platforms  # slow to import: not needed for directories

    image = require_equal_platforms(get_tool(), source.location)
    return BundleFiles({}, frozenset(), get_tool().inspect(image).labels)


def _read_directory(root: Path) -> BundleFiles:
    """Read the files below a directory that is a bundle, or the manifests of one.

    Files that are not built into an image are ignored if no bundle could contain them, see `is_bundle_file`.
    """
    tracker = LimitTracker(_LIMITS)
    files: dict[str, bytes] = {}
    directories: set[str] = set()
    invalid: InvalidBundle | None = None
    with disk_errors(root):
        bare = _is_bare(root)
        real_root = bundle_root(root) if bare else Path(os.path.realpath(root))
        for path, entry in walk(root, linked=() if bare else _DIRECTORIES):
            tracker.add("entries", 1, str(root))
            tracker.check("path_depth", path.count("/"), str(root))
            try:
                is_file = is_bundle_file(entry, real_root)
            except InvalidBundle as error:
                if path.partition("/")[0] in _DIRECTORIES:
                    raise
                invalid = invalid or error
                continue
            if not is_file:
                directories.add(_printable(path))
            else:
                tracker.add("extracted_bytes", entry.stat().st_size, str(root))
                files[_printable(path)] = _read_file(entry, entry.stat().st_size)
    if bare and _is_catalog(files):
        hint = Hint("validate the catalog with {}", BundleOperation.VALIDATE_INDEX.with_arguments(str(root)))
        raise NotABundle(f"{root}: a file-based catalog, not a bundle", hint=hint)
    if (nested := _nested_bundles(files)) and not is_package_directory(root):
        paths = ", ".join(str(root / path) for path in nested[:_MAX_LISTED])
        more = f" and {len(nested) - _MAX_LISTED} more" if len(nested) > _MAX_LISTED else ""
        raise NotABundle(
            f"{root}: no manifests directory: there are bundles in subdirectories: {paths}{more}",
            hint=f"pass their directories, such as {root / nested[0]}",
        )
    if not any(name.startswith(("manifests/", "metadata/")) or "/" not in name for name in files):
        raise NotABundle(f"{root}: no bundle found", hint="pass the directory that contains manifests/ and metadata/")
    if bare and invalid:
        raise invalid
    return BundleFiles(files, frozenset(directories), operator_config=_operator_config(root))


def _is_catalog(files: Mapping[str, bytes]) -> bool:
    """Return whether documents of a file-based catalog are among the files, and no manifest of Kubernetes."""
    return any(map(_CATALOG_SCHEMA.search, files.values())) and not any(map(_KIND.search, files.values()))


def _is_bare(root: Path) -> bool:
    """Return whether a directory is not that of a bundle, but perhaps of its manifests."""
    return root.is_dir() and not any((root / name).is_dir() for name in DIRECTORIES)


def _operator_config(root: Path) -> bytes:
    """Return the ci.yaml of the operator that a directory in a repository is a version of, "" if there is none."""
    with disk_errors(root):
        operator = Path(os.path.realpath(root)).parent
        path = config_file(operator)
        if path is None or (path.is_symlink() and not _links_into(str(operator), str(path))):
            return b""
    with disk_errors(path):
        return blank_preamble(_read_file(path, path.stat().st_size))


def _read_operator(root: Path) -> BundleFiles:
    """Read the files of an operator directory that rules about operators need."""
    tracker = LimitTracker(_LIMITS)
    files: dict[str, bytes] = {}
    with disk_errors(root):
        real_root = os.path.realpath(root)
        for name, path in operator_files(root):
            if path.is_symlink() and not _links_into(real_root, str(path)):
                if "/" in name and not name.startswith(".."):  # the rules would count a manifest as absent
                    is_bundle_file(path, Path(real_root))
                continue
            tracker.add("entries", 1, str(root))
            tracker.add("extracted_bytes", path.stat().st_size, str(root))
            raw = _read_file(path, path.stat().st_size)
            files[_printable(name)] = raw if path.parent.name == "manifests" else blank_preamble(raw)
        files |= {_printable(name): b"" for name in template_names(root)}
        return BundleFiles(files, _parents(files), operator=_printable(root.resolve().name))


def _nested_bundles(files: Mapping[str, bytes]) -> list[str]:
    """Return the subdirectories that contain bundles, none if the directory itself contains manifests."""
    if any(path.startswith(("manifests/", "metadata/")) for path in files):
        return []
    if any("/" not in path and _CSV.search(content) for path, content in files.items()):
        return []
    return sorted({path.partition("/manifests/")[0] for path in files if "/manifests/" in path})


def _links_into(directory: str, link: str) -> bool:
    """Return whether the target of a link exists and is below the directory."""
    return Path(link).exists() and Path(os.path.realpath(link)).is_relative_to(directory)


def _read_file(path: os.PathLike[str], size: int) -> bytes:
    if size > MAX_BYTES:
        raise LimitExceeded(f"{os.fspath(path)} is larger than {MAX_BYTES} bytes", hint="keep only the bundle there")
    with open(path, "rb") as file:  # noqa: PTH123 - creating a Path takes longer than reading the file
        return file.read(size)


def _printable(name: str) -> str:
    """Escape the bytes of a name that are not UTF-8, so that reports can contain it."""
    return name.encode(errors="backslashreplace").decode()


def _parents(files: Iterable[str]) -> frozenset[str]:
    return frozenset(path.rsplit("/", depth)[0] for path in files for depth in range(1, path.count("/") + 1))


_ATTACHMENT = re.compile(r"(?:sha256|sha512)-[0-9a-f]{64,128}(?:\..+)?")
"""The OCI referrers fallback tag ``ALGORITHM-HEX``, and cosign's ``ALGORITHM-HEX.sig``, ``.att`` and ``.sbom``."""
_MAX_SHOWN = 5


def is_attachment(tag: str) -> bool:
    """Return whether a tag names a signature, attestation or SBOM of another image."""
    return _ATTACHMENT.fullmatch(tag) is not None


class SkippedTags(Struct, frozen=True):
    """Numbers of tags that are not validated: those of signatures, attestations and SBOMs, and excluded ones."""

    attachments: int = 0
    excluded: int = 0

    @property
    def total(self) -> int:
        """Number of all skipped tags."""
        return self.attachments + self.excluded

    def __add__(self, other: SkippedTags) -> SkippedTags:
        return SkippedTags(self.attachments + other.attachments, self.excluded + other.excluded)

    def __str__(self) -> str:
        counts = (
            (self.attachments, "of signatures, attestations or SBOMs"),
            (self.excluded, "excluded by patterns"),
        )
        return " and ".join(f"{count} tag{'s' * (count != 1)} {reason}" for count, reason in counts if count)


class TagSelector:
    """Lists the tags of repositories to validate, and counts those it skips.

    Without ``include`` patterns, tags of attachments are skipped. With them, exactly the tags that match one are
    selected. Tags that match an ``exclude`` pattern are never selected. Patterns are globs: ``*``, ``?``, ``[...]``.
    """

    def __init__(
        self,
        list_tags: Callable[[Reference], Iterable[str]],
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> None:
        """Create a selector; no tags are listed yet."""
        self.skipped = SkippedTags()
        self._list_tags = list_tags
        self._include = tuple(include)
        self._exclude = tuple(exclude)
        self._unmatched = dict.fromkeys(self._include)
        self._listed: dict[str, list[str]] = {}

    def __call__(self, repository: Reference) -> list[str]:
        """Return the selected tags of ``repository``, sorted.

        Raises:
            NoMatchingTag: The repository has tags, but all of them are skipped.
        """
        tags = sorted(self._list_tags(repository))  # registries list them in no particular order
        self._listed[repository.name] = tags
        for pattern in [pattern for pattern in self._unmatched if _matching([pattern], tags)]:
            del self._unmatched[pattern]
        candidates = [tag for tag in tags if self._is_candidate(tag)]
        excluded = set(_matching(self._exclude, candidates))
        selected = [tag for tag in candidates if tag not in excluded]
        attachments = sum(is_attachment(tag) for tag in set(tags).difference(candidates))
        skipped = SkippedTags(attachments, len(tags) - len(selected) - attachments)
        if tags and not selected and (candidates or not self._include):
            raise NoMatchingTag(
                f"{repository.name}: no bundles found: skipped {skipped}",
                hint=Hint("select at least one tag with {} and {}", BundleSetting.TAGS, BundleSetting.EXCLUDE_TAGS),
            )
        self.skipped += skipped
        return selected

    def _is_candidate(self, tag: str) -> bool:
        return bool(_matching(self._include, [tag])) if self._include else not is_attachment(tag)

    def check_patterns(self) -> None:
        """Raise NoMatchingTag if an ``include`` pattern matched no tag of any repository."""
        for pattern in self._unmatched:
            if not self._listed:
                raise NoMatchingTag(
                    f"tag pattern {pattern}: no matching tag: no repository to validate",
                    hint="name a repository without a tag, such as REGISTRY/REPO, to select among its tags",
                )
            tags = [tag for listed in self._listed.values() for tag in listed if not is_attachment(tag)]
            shown = ", ".join([*tags[:_MAX_SHOWN], *(["..."] if len(tags) > _MAX_SHOWN else [])])
            raise NoMatchingTag(
                f"tag pattern {pattern}: no matching tag in {', '.join(self._listed)}",
                hint=f"choose a pattern for tags that exist, such as {shown}" if tags else "",
            )


def _matching(patterns: Iterable[str], tags: Iterable[str]) -> list[str]:
    return [tag for tag in tags if any(fnmatchcase(tag, pattern) for pattern in patterns)]


def select_sources(
    targets: Iterable[str],
    list_tags: Callable[[Reference], Iterable[str]],
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> tuple[tuple[Source, ...], SkippedTags]:
    """Return the bundles that targets name, and the counts of skipped tags, see `expand_targets` and `TagSelector`.

    Raises:
        NoMatchingTag: A pattern matches no tag.
    """
    selector = TagSelector(list_tags, include, exclude)
    sources = tuple(expand_targets(targets, selector))
    selector.check_patterns()
    return sources, selector.skipped
