"""Bundles to validate: where they are, and what they look like."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle import labels as names
from opmkit.bundle.document import MAX_BYTES
from opmkit.bundle.errors import NotABundle
from opmkit.bundle.load import not_a_bundle
from opmkit.bundle.package_directory import is_package_directory
from opmkit.bundle.source import parse_place, path_or_image
from opmkit.imagetools.errors import LimitExceeded
from opmkit.imagetools.layer import MEMORY_LIMITS, Limits
from opmkit.imagetools.layer.limits import LimitTracker
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.tools import ContainerTool

    Tool: TypeAlias = Callable[[], ContainerTool]
    """Gives the tool for images; directories need none."""

_MAX_NAMED = 3
_LIST_MARK = "@"
_ALL_TAGS = ":*"
_LIST_BYTES = 16 << 20
_LIMITS = Limits(
    total_bytes=MEMORY_LIMITS.total_bytes,
    extracted_bytes=128 << 20,
    file_bytes=MAX_BYTES,
    entries=10_000,
    path_depth=32,
)
_DIRECTORIES = ("manifests", "metadata", "tests")
_DIRECTORY_LABELS = (names.MANIFESTS, names.METADATA)


@dataclass(frozen=True, slots=True)
class Source:
    """A bundle's directory, or its image, as it was named."""

    target: str
    place: ImageReference | Path


@dataclass(frozen=True, slots=True)
class BundleFiles:
    """All that is looked at of a bundle. ``labels`` are its image's, None for a directory."""

    files: Mapping[str, bytes]
    directories: frozenset[str]
    labels: Mapping[str, str] | None = None

    @property
    def bare(self) -> bool:
        """Whether the root itself holds the manifests."""
        return not self.directories & {"manifests", "metadata"} and names.MANIFESTS not in (self.labels or {})


def expand(targets: Iterable[str], tags: Callable[[Reference], Iterable[str]]) -> Iterator[Source]:
    """The bundles that targets name: directories, images, repositories (all their ``tags``), lists of these.

    A target is ``DIR``, an image reference with a tag or digest, ``REGISTRY/REPO`` or ``REGISTRY/REPO:*``, or
    ``@FILE`` with one target a line (``#`` begins a comment). A directory with a package manifest stands for itself
    and for those of its versions. Raises InvalidReference, NotABundle, StoreError, and what listing tags raises.
    """
    for target in targets:
        if target.startswith(_LIST_MARK):
            yield from expand(_listed(Path(target.removeprefix(_LIST_MARK))), tags)
        elif Path(target).is_dir():
            yield from _directories(Path(target), _readable(target))
        elif Path(target).is_file():
            hint = f"Give the directory that manifests/ is in; for a list of references write {_LIST_MARK}{target}."
            raise NotABundle(f"{target} is a file, not a bundle", hint=hint)
        else:
            yield from _images(target, tags)


def _directories(path: Path, target: str) -> Iterator[Source]:
    """The directory of a bundle, or that of a package in the package manifest format and those of its versions."""
    yield Source(target, path)
    if is_package_directory(path):
        for version in sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith(".")):
            yield Source(_readable(str(Path(target, version.name))), version)


def _listed(path: Path) -> list[str]:
    with disk_errors(path):
        if path.stat().st_size > _LIST_BYTES:
            raise NotABundle(f"{path} has more than {_LIST_BYTES} bytes", hint="Give a file with a reference a line.")
        lines = path.read_bytes().decode("utf-8", "replace").splitlines()
    targets = [line.partition("#")[0].strip() for line in lines]
    if any(target.startswith(_LIST_MARK) for target in targets):
        raise NotABundle(f"{path} names another list", hint="Name all lists on the command line.")
    return [target for target in targets if target]


def _images(target: str, tags: Callable[[Reference], Iterable[str]]) -> Iterator[Source]:
    place = parse_place(target.removesuffix(_ALL_TAGS))
    if isinstance(place, Path):
        raise NotABundle(f"{target}: no such directory", hint="Give the directory that manifests/ is in.")
    if isinstance(place, Reference) and not place.tag and not place.digest:
        repository = target.removesuffix(_ALL_TAGS)
        with path_or_image(target):
            found = sorted(tags(place))
        for tag in found:  # in an order that is not the registry's whim
            yield Source(f"{repository}:{tag}", place.with_tag(tag))
    else:
        yield Source(target, place)


def read_files(tool: Tool, source: Source) -> BundleFiles:
    """Read all that is looked at of a bundle.

    Raises:
        NotABundle: for a directory or an image that holds none.
        ImageToolsError: where it can't be read, or exceeds a bound.
    """
    if isinstance(source.place, Path):
        return _read_directory(source.place)
    labels = tool().inspect(source.place).labels
    named = (labels.get(label, "").strip("/") for label in _DIRECTORY_LABELS)
    files = tool().read_tree(source.place, sorted({*_DIRECTORIES, *filter(None, named)}), _LIMITS)
    if not files:
        raise not_a_bundle(source.target, tool().inspect(source.place))
    files = {_readable(path): raw for path, raw in files.items()}
    return BundleFiles(files, _parents(files), labels)


def read_labels(tool: Tool, source: Source) -> BundleFiles:
    """Read the labels of a bundle's image and nothing else; raises NotABundle and ImageToolsError."""
    if isinstance(source.place, Path):
        raise NotABundle(f"{source.target} is a directory, which has no labels", hint="Validate it as a whole.")
    return BundleFiles({}, frozenset(), tool().inspect(source.place).labels)


def _read_directory(root: Path) -> BundleFiles:
    """Read the files below a directory; links that lead out of it are passed over."""
    tracker = LimitTracker(_LIMITS)
    files: dict[str, bytes] = {}
    directories: set[str] = set()
    with disk_errors(root):
        inside = os.path.realpath(root)
        for path, entry in _walk(str(root)):
            tracker.add("entries", 1, str(root))
            tracker.check("path_depth", path.count("/"), str(root))
            if entry.is_symlink() and not _leads_into(inside, entry.path):
                continue
            if entry.is_dir():
                directories.add(_readable(path))
            elif entry.is_file():
                tracker.add("extracted_bytes", entry.stat().st_size, str(root))
                files[_readable(path)] = _read_file(entry)
    if (nested := _nested_bundles(files)) and not is_package_directory(root):
        paths = ", ".join(str(root / path) for path in nested[:_MAX_NAMED])
        more = f" and {len(nested) - _MAX_NAMED} more" if len(nested) > _MAX_NAMED else ""
        raise NotABundle(
            f"{root}: no manifests directory: there are bundles in subdirectories: {paths}{more}",
            hint=f"Name their directories instead, such as {root / nested[0]}.",
        )
    if not any(name.startswith(("manifests/", "metadata/")) or "/" not in name for name in files):
        raise NotABundle(f"{root} holds no bundle", hint="Give the directory that manifests/ and metadata/ are in.")
    return BundleFiles(files, frozenset(directories))


def _nested_bundles(files: Mapping[str, bytes]) -> list[str]:
    """Return the subdirectories that hold bundles, none if the directory itself holds the manifests of one."""
    if any(path.startswith(("manifests/", "metadata/")) for path in files):
        return []
    if any("/" not in path and b"ClusterServiceVersion" in content for path, content in files.items()):
        return []
    return sorted({path.partition("/manifests/")[0] for path in files if "/manifests/" in path})


def _leads_into(directory: str, link: str) -> bool:
    """Whether a link leads to something below the directory; one that leads nowhere, or to itself, does not."""
    return Path(link).exists() and Path(os.path.realpath(link)).is_relative_to(directory)


def _read_file(entry: os.DirEntry[str]) -> bytes:
    size = entry.stat().st_size
    if size > MAX_BYTES:
        raise LimitExceeded(f"{entry.path} has more than {MAX_BYTES} bytes", hint="keep nothing but a bundle there")
    with open(entry.path, "rb") as file:  # noqa: PTH123 - a Path for each file takes longer than reading it
        return file.read(size)


def _walk(directory: str, prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """All below a directory, with its path from there; what a linked directory holds is not followed."""
    with os.scandir(directory) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        path = f"{prefix}{entry.name}"
        yield path, entry
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, f"{path}/")


def _readable(name: str) -> str:
    """The name with escapes for bytes that are no UTF-8, which no report could tell."""
    return name.encode(errors="backslashreplace").decode()


def _parents(files: Iterable[str]) -> frozenset[str]:
    return frozenset(path.rsplit("/", depth)[0] for path in files for depth in range(1, path.count("/") + 1))
