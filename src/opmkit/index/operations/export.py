"""Packages of an index as directories of manifests, by pulling their bundles (index semantics, section 12)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.load import fetch_bundle_files
from opmkit.bundle.source import BundleSource
from opmkit.imagetools.progress import NO_PROGRESS, Progress
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.store.disk import disk_errors
from opmkit.imagetools.workers import WorkerPool
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.model import Catalog, Package
from opmkit.index.files import put_files
from opmkit.index.operations.packagemanifest import PackageManifest
from opmkit.index.sqlite.channels import ChannelBundle, channel_bundles, channel_heads
from opmkit.index.sqlite.packages import default_channel
from opmkit.index.sqlite.removal import package_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opmkit.imagetools.tools import ContainerTool
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.sqlite import IndexDatabase

WORKERS = 10
"""How many bundles are pulled at a time."""
_MANIFESTS = "manifests/"


@dataclass(frozen=True, slots=True)
class ExportedPackage:
    """A package: its manifest, and the bundles that its channels have entries for, by name."""

    manifest: PackageManifest
    bundles: Sequence[ChannelBundle]


def packages_in_database(database: IndexDatabase, names: Sequence[str]) -> Iterator[ExportedPackage]:
    """The packages of these names, all if there are none; one that the index lacks is without channels."""
    for name in dict.fromkeys(names) or package_names(database):
        heads = tuple((head.channel, head.bundle) for head in channel_heads(database, name))
        manifest = PackageManifest(name, default_channel(database, name), heads)
        yield ExportedPackage(manifest, channel_bundles(database, name))


def packages_in_catalog(blobs: Blobs, names: Sequence[str]) -> Iterator[ExportedPackage]:
    """The same of a file-based catalog, which has to be valid; raises InvalidCatalog."""
    packages = Catalog.from_blobs(blobs).packages
    for name in dict.fromkeys(names) or sorted(packages):
        package = packages.get(name) or Package(name, "", {}, {})
        heads = tuple((channel, package.channels[channel].heads[0]) for channel in sorted(package.channels))
        bundles = [
            ChannelBundle(one.name, bundle_version(one), one.image) for _, one in sorted(package.bundles.items())
        ]
        yield ExportedPackage(PackageManifest(name, package.default_channel, heads), bundles)


def export_packages(
    packages: Iterable[ExportedPackage], destination: Path, tool: ContainerTool, *, progress: Progress = NO_PROGRESS
) -> None:
    """Write packages in the package manifest format below ``destination``, beside what is there.

    That is ``PACKAGE/VERSION/`` with the manifests of each bundle that a channel has an entry for, and
    ``PACKAGE/package.yaml``. A bundle without a version, or with one that another has too, goes by its name.

    Nothing is written if anything goes wrong.

    Raises:
        CatalogError: a bundle without an image, a name that is no file name.
        BundleError: an image that is no bundle.
        ImageToolsError: an image that can't be read, or the disk says no.
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
        put_files(destination, files)


def _directories(bundles: Sequence[ChannelBundle]) -> Iterable[tuple[ChannelBundle, str]]:
    """The bundles of a package with the name of the directory that each goes to."""
    versions = Counter(bundle.version for bundle in bundles)
    for bundle in bundles:
        if not bundle.image:
            raise CatalogError(
                f"bundle {bundle.name} can't be exported: the index does not name an image for it",
                advice="Its manifests came from a directory, and are to be found there.",
            )
        unique = bundle.version and versions[bundle.version] == 1
        yield bundle, _file_name(bundle.version if unique else bundle.name, "bundle")


def _pull(tool: ContainerTool, pulls: Sequence[tuple[str, str]], scratch: Path, progress: Progress) -> dict[str, Path]:
    """Keep the manifests of each (image, directory) below ``scratch``, by the paths they are to have."""
    progress.begin("Pulling bundles", len(pulls), unit="bundles")
    pool = WorkerPool(WORKERS, "export")
    try:
        found: dict[str, Path] = {}
        for files in pool.map(partial(_pull_one, tool, scratch), pulls):
            found |= files
            progress.advance(1)
        return found
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        progress.end()


def _pull_one(tool: ContainerTool, scratch: Path, pull: tuple[str, str]) -> dict[str, Path]:
    image, directory = pull
    files = fetch_bundle_files(tool, BundleSource.from_image(image))
    found = {
        f"{directory}/{path.removeprefix(_MANIFESTS)}": content
        for path, content in files.items()
        if path.startswith(_MANIFESTS)
    }
    with disk_errors(scratch):
        for path, content in found.items():
            (scratch / path).parent.mkdir(parents=True, exist_ok=True)
            (scratch / path).write_bytes(content)
    return {path: scratch / path for path in found}


def _file_name(text: str, what: str) -> str:
    """The text, if it can name a file, and no other place than one right here."""
    if text in ("", ".", "..") or "/" in text or "\0" in text:
        raise CatalogError(
            f"the {what} {text!r} can't be exported: that is no name for a directory",
            advice="Export other packages, or build the index without it.",
        )
    return text
