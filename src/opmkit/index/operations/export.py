"""``export``: write packages in the package manifest format, with the manifests of their bundle images."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.load import fetch_bundle_files
from opmkit.bundle.source import BundleSource
from opmkit.core.files import disk_errors, write_files
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.scratch import ScratchDirectory
from opmkit.core.workers import WorkerPool
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.model import Catalog, Package
from opmkit.index.image.content import DatabaseContent
from opmkit.index.operations.package_manifest import PackageManifest
from opmkit.index.sqlite.packages import ChannelBundle, channel_bundles, channel_heads, default_channel
from opmkit.index.sqlite.removal import package_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opmkit.imagetools.tools.tool import ContainerTool
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.image.source import IndexSource
    from opmkit.index.sqlite import IndexDatabase

MAX_WORKERS = 10
"""Bundles that are pulled concurrently."""
_MANIFESTS = "manifests/"


@dataclass(frozen=True, slots=True)
class ExportedPackage:
    """The manifest of a package, and the bundles in its channels, ordered by name."""

    manifest: PackageManifest
    bundles: Sequence[ChannelBundle]


def export_index(
    source: IndexSource,
    directory: Path,
    tool: ContainerTool,
    names: Sequence[str] = (),
    *,
    progress: Progress = NO_PROGRESS,
) -> None:
    """Write the named packages of an index, or all, see `export_packages`."""
    with source.open() as content:
        if isinstance(content, DatabaseContent):
            with content.open() as database:
                packages = list(packages_in_database(database, names))
        else:
            packages = list(packages_in_catalog(content.blobs(), names))
        export_packages(packages, directory, tool, progress=progress)


def packages_in_database(database: IndexDatabase, names: Sequence[str]) -> Iterator[ExportedPackage]:
    """Yield the named packages of a database, or all without names; an unknown package has no channels."""
    for name in dict.fromkeys(names) or package_names(database):
        heads = tuple((head.channel, head.bundle) for head in channel_heads(database, name))
        manifest = PackageManifest(name, default_channel(database, name), heads)
        yield ExportedPackage(manifest, channel_bundles(database, name))


def packages_in_catalog(blobs: Blobs, names: Sequence[str]) -> Iterator[ExportedPackage]:
    """Yield packages of a file-based catalog as `packages_in_database`; raise InvalidCatalog if it is invalid."""
    packages = Catalog.from_blobs(blobs).packages
    for name in dict.fromkeys(names) or sorted(packages):
        package = packages.get(name) or Package(name, "", {}, {})
        heads = tuple((channel, package.channels[channel].heads[0]) for channel in sorted(package.channels))
        bundles = [
            ChannelBundle(bundle.name, bundle_version(bundle), bundle.image)
            for _, bundle in sorted(package.bundles.items())
        ]
        yield ExportedPackage(PackageManifest(name, package.default_channel, heads), bundles)


def export_packages(
    packages: Iterable[ExportedPackage], destination: Path, tool: ContainerTool, *, progress: Progress = NO_PROGRESS
) -> None:
    """Write packages in the package manifest format to a directory, which may contain other files.

    The files are ``PACKAGE/package.yaml`` and the manifests of each bundle in ``PACKAGE/VERSION/``. The directory of a
    bundle without a version, or with the same version as another, is named after the bundle. An error leaves the
    directory unchanged.

    Raises:
        CatalogError: A bundle has no image, or a name is not a valid file name.
        BundleError: An image is not a bundle.
        ImageToolsError: An image cannot be read, or the files cannot be written.
    """
    files: dict[str, bytes | Path] = {}
    pulls: list[tuple[str, str]] = []
    for package in packages:
        directory = _file_name(package.manifest.name, "package")
        files[f"{directory}/package.yaml"] = package.manifest.to_yaml()
        for bundle, version in _directories(package.bundles):
            pulls.append((bundle.image, f"{directory}/{version}"))
    with ScratchDirectory("opm-export-") as scratch:
        files |= _pull(tool, pulls, Path(scratch), progress)
        with disk_errors(destination):
            destination.mkdir(parents=True, exist_ok=True)
        write_files(destination, files)


def _directories(bundles: Sequence[ChannelBundle]) -> Iterable[tuple[ChannelBundle, str]]:
    """Yield the bundles of a package with the names of their directories."""
    versions = Counter(bundle.version for bundle in bundles)
    for bundle in bundles:
        if not bundle.image:
            raise CatalogError(
                f"bundle {bundle.name}: cannot be exported: it has no image",
                hint="use the manifests in the directory that the bundle was loaded from",
            )
        unique = bundle.version and versions[bundle.version] == 1
        yield bundle, _file_name(bundle.version if unique else bundle.name, "bundle")


def _pull(tool: ContainerTool, pulls: Sequence[tuple[str, str]], scratch: Path, progress: Progress) -> dict[str, Path]:
    """Pull (image, directory) pairs; return the manifests, stored in ``scratch``, by their paths."""
    progress.begin("Pulling bundles", len(pulls), unit="bundles")
    manifests: dict[str, Path] = {}
    try:
        with WorkerPool(MAX_WORKERS, "export") as pool:
            for files in pool.map(partial(_pull_bundle, tool, scratch), pulls):
                manifests |= files
                progress.advance(1)
    finally:
        progress.end()
    return manifests


def _pull_bundle(tool: ContainerTool, scratch: Path, pull: tuple[str, str]) -> dict[str, Path]:
    image, directory = pull
    files = fetch_bundle_files(tool, BundleSource.from_image(image))
    manifests = {
        f"{directory}/{path.removeprefix(_MANIFESTS)}": content
        for path, content in files.items()
        if path.startswith(_MANIFESTS)
    }
    with disk_errors(scratch):
        for path, content in manifests.items():
            (scratch / path).parent.mkdir(parents=True, exist_ok=True)
            (scratch / path).write_bytes(content)
    return {path: scratch / path for path in manifests}


def _file_name(text: str, kind: str) -> str:
    """Return the text; raise CatalogError unless it is a valid file name."""
    if text in ("", ".", "..") or "/" in text or "\0" in text:
        raise CatalogError(
            f"{kind} {text!r}: cannot be exported: invalid directory name",
            hint="export other packages, or build the index without it",
        )
    return text
