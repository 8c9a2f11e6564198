"""Directories of bundles: manifests, metadata and tests, and the package manifest format."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.errors import BundleError, InvalidBundle, NotABundle
from opmkit.bundle.hint_terms import BundleSetting
from opmkit.bundle.kinds import CSV_KIND
from opmkit.core.files import disk_errors
from opmkit.core.hints import Hint
from opmkit.documents import MAX_BYTES, fields
from opmkit.documents.errors import DocumentError, InvalidDocument
from opmkit.imagetools.store.layout_files import is_layout, layout_hint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from opmkit.bundle.model import BundleAnnotations, ClusterServiceVersion
    from opmkit.documents.json_value import JsonValue


DIRECTORIES = ("manifests", "metadata")
MAX_TOTAL_BYTES = 64 << 20
"""Maximum size of all files of a bundle; real bundles have a few megabytes."""


def reject_layout(directory: Path, name: str) -> None:
    """Raise NotABundle if a directory, which is called ``name`` in the error, is an OCI image layout."""
    if not (directory / "manifests").is_dir() and is_layout(directory):
        raise NotABundle(f"{name}: an OCI image layout, not a bundle directory", hint=layout_hint(name))


def bundle_root(directory: Path) -> Path:
    """Return the real path of the bundle that a directory of manifests, metadata or tests belongs to: its parent."""
    return Path(os.path.realpath(os.path.dirname(os.path.abspath(directory))))  # noqa: PTH100, PTH120 - see is_below


def is_bundle_file(path: os.DirEntry[str] | Path, root: Path) -> bool:
    """Return whether a path in a bundle is a file, or a symbolic link to a file of the bundle; False for directories.

    Everything that reads, validates or builds a bundle directory asks here, so that an image contains what was
    validated.

    Raises:
        InvalidBundle: A link leads out of ``root``, the real path of the bundle, or the path is another kind of file.
    """
    is_link = path.is_symlink()
    if not is_link and path.is_file():
        return True
    if is_link and not Path(os.path.realpath(path)).is_relative_to(root):
        problem, hint = f"refusing to follow a symbolic link that leads out of {root}", "replace it by a copy"
        raise InvalidBundle(f"{os.fspath(path)}: {problem}", hint=hint)
    if os.path.isdir(path):  # noqa: PTH112 - also for entries
        return False
    if not os.path.isfile(path):  # noqa: PTH113
        problem = "not a regular file" if os.path.exists(path) else "broken symbolic link"  # noqa: PTH110
        raise InvalidBundle(f"{os.fspath(path)}: {problem}", hint="remove it from the bundle")
    return True


def walk(
    directory: Path | str, prefix: str = "", *, linked: Collection[str] = ()
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the entries at any depth below a directory with their relative paths, ordered by name.

    Linked directories are not followed, except those that are directly in the directory and named in ``linked``.
    """
    for entry in _entries(directory):
        path = f"{prefix}{entry.name}"
        yield path, entry
        if entry.is_dir(follow_symlinks=False) or (entry.name in linked and entry.is_dir()):
            yield from walk(entry.path, f"{path}/")


def read_files(directory: Path, *, skip_others: bool = False) -> dict[str, bytes]:
    """Read the files directly in a directory, by name; an empty mapping if it does not exist.

    Args:
        directory: The directory.
        skip_others: Whether to skip what a bundle may not contain, see `is_bundle_file`: the directory may be another.

    Raises:
        InvalidBundle: A file, or the sum of all files, is too large, or the directory contains no files of a bundle.
        DiskError: A file cannot be read.
    """
    files: dict[str, bytes] = {}
    remaining = MAX_TOTAL_BYTES
    root = bundle_root(directory)
    with disk_errors(directory):
        if not skip_others and directory.exists():
            is_bundle_file(directory, root)
        for entry in _entries(directory):
            try:
                is_file = is_bundle_file(entry, root)
            except InvalidBundle:
                if not skip_others:
                    raise
                continue
            if not is_file:
                continue
            size = entry.stat().st_size
            remaining -= size
            if size > MAX_BYTES or remaining < 0:
                subject, limit = (entry.path, MAX_BYTES) if size > MAX_BYTES else (directory, MAX_TOTAL_BYTES)
                raise InvalidBundle(f"{subject} is larger than {limit} bytes", hint="keep only manifests there")
            with open(entry.path, "rb", buffering=0) as file:  # noqa: PTH123 - a Path takes longer than the file
                files[entry.name] = file.readall()
    return files


def _entries(directory: Path | str) -> list[os.DirEntry[str]]:
    """Return the entries of a directory, sorted by name; an empty list if it does not exist."""
    if not os.path.isdir(directory):  # noqa: PTH112 - creating a Path takes longer
        return []
    with os.scandir(directory) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def infer_annotations(directory: Path) -> BundleAnnotations:
    """Return package, channels and default channel of the version in ``directory``.

    The parent directory must contain a package manifest. The version is in each channel from whose head it can be
    reached through ``replaces`` and ``skips`` of the versions.

    Raises:
        InvalidBundle: A file is missing or invalid, or the version is in no channel.
    """
    try:
        version = _only_csv(directory, skip_others=False)
        if version is None:
            raise InvalidBundle(f"no ClusterServiceVersion found in {directory}")
        siblings = [csv for path in sorted(directory.parent.iterdir()) if path.is_dir() and (csv := _only_csv(path))]
        package = _package_manifest(directory.parent)
        edges = {csv.name: (*csv.skips, csv.replaces) for csv in siblings}
        return _annotations(package, version.name, edges)
    except (BundleError, DocumentError) as error:
        raise InvalidBundle(
            f"{directory}: package and channels are unknown: {error.message}",
            hint=Hint("pass {} and {}", BundleSetting.PACKAGE, BundleSetting.CHANNELS),
        ) from error


def is_package_directory(directory: Path) -> bool:
    """Return whether a directory contains a package manifest, subdirectories and no bundle."""
    try:
        has_bundle = any((directory / name).is_dir() for name in DIRECTORIES)
        return not has_bundle and any(map(Path.is_dir, directory.iterdir())) and bool(_package_manifest(directory))
    except (BundleError, DocumentError, OSError):
        return False


def _only_csv(directory: Path, *, skip_others: bool = True) -> ClusterServiceVersion | None:
    """Return the ClusterServiceVersion in a directory, or None. Hidden files are included."""
    from opmkit.bundle.cluster_service_version import read_csv  # slow to import: the model of bundles
    from opmkit.bundle.manifest import read_manifest

    found: list[tuple[str, bytes]] = []
    for name, content in read_files(directory, skip_others=skip_others).items():
        with suppress(InvalidDocument):
            manifest = read_manifest(content)
            if manifest and manifest.kind == CSV_KIND:
                found.append((name, manifest.json))
    if len(found) > 1:
        raise InvalidBundle(
            f"more than one ClusterServiceVersion in {directory}: {', '.join(name for name, _ in found)}"
        )
    return read_csv(found[0][1]) if found else None


def _package_manifest(directory: Path) -> Mapping[str, JsonValue]:
    """Return the first file with a packageName."""
    from opmkit.documents.document import read_document  # slow to import: not needed for other directories

    for content in read_files(directory, skip_others=True).values():
        with suppress(BundleError, DocumentError):
            manifest = fields.mapping(read_document(content).value, "the document")
            if fields.text(manifest.get("packageName"), "packageName"):
                return manifest
    raise InvalidBundle(f"no package manifest (a file with a packageName) found in {directory}")


def _annotations(
    package: Mapping[str, JsonValue], name: str, edges: Mapping[str, tuple[str, ...]]
) -> BundleAnnotations:
    from opmkit.bundle.model import BundleAnnotations

    heads: dict[str, str] = {}
    for entry in fields.items(package.get("channels"), "channels"):
        channel = fields.mapping(entry, "an entry of channels")
        heads[fields.text(channel.get("name"), "a channel's name")] = fields.text(
            channel.get("currentCSV"), "currentCSV"
        )
    channels = tuple(sorted(channel for channel, head in heads.items() if name in _reachable(head, edges)))
    if not channels:
        raise InvalidBundle(f"no channel contains {name}")
    default = fields.text(package.get("defaultChannel"), "defaultChannel")
    if not default and len(heads) == 1:
        (default,) = heads
    return BundleAnnotations(fields.text(package.get("packageName"), "packageName"), channels, default)


def _reachable(head: str, edges: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Return the names that are reachable from a head, including itself."""
    reached: set[str] = set()
    pending = [head]
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += edges.get(name, ())
    return reached
