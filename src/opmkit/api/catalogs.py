"""Operations that convert indexes to file-based catalogs, and list their contents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.api.session import Session, ignore_warning
from opmkit.core.progress import NO_PROGRESS
from opmkit.index.fbc.compat import CatalogCompat, ReleaseChange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from opmkit.core.progress import Progress
    from opmkit.imagetools.worker_options import WorkerExecutor
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.fbc.model import Catalog
    from opmkit.index.migrate import MigratedCatalog, MigrateOptions
    from opmkit.index.operations.list import BundleListing, ChannelListing, PackageListing
    from opmkit.index.render import RenderOptions


class CatalogOperations(Session):
    """Operations that read indexes of all kinds as file-based catalogs."""

    def render(
        self,
        references: Sequence[str],
        options: RenderOptions | None = None,
        *,
        use_cache: bool = True,
        executor: WorkerExecutor | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> Blobs:
        """Return bundles and indexes as one file-based catalog.

        Args:
            references: Bundle directories and images, catalog directories, index images, and database files.
            options: Format of the bundles, and the receiver of warnings.
            use_cache: Use earlier results for bundle images, which the embedded store contains.
            executor: Workers that render the references, instead of this process.
            progress: Receiver of progress reports.

        Raises:
            InvalidCatalog: A catalog cannot be read; the error lists each finding with its file and line.
            CatalogError, BundleError, ImageToolsError: Another reference cannot be read.
            ExecutorError: The executor cannot be used.
        """
        from opmkit.index.render import RenderOptions, render, render_by_workers

        options = options or RenderOptions()
        if executor:
            return render_by_workers(executor, references, options, use_cache=use_cache, progress=progress)
        options = replace(options, cache=self._render_cache) if use_cache else options
        return render(lambda: self._registry_tool, references, options, progress=progress)

    def migrate_index(
        self,
        index: str,
        directory: Path,
        options: MigrateOptions | None = None,
        *,
        progress: Progress = NO_PROGRESS,
    ) -> MigratedCatalog:
        """Convert an index to a directory with a file-based catalog, one file per package, which is created atomically.

        Args:
            index: Index image, catalog directory or database file.
            directory: New or empty directory for the catalog.
            options: Format of the catalog.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: The directory is not empty, or the index is invalid.
            ImageToolsError: An image cannot be read.
            DiskError: A file cannot be written.
        """
        from opmkit.index.migrate import MigrateOptions, migrate_index

        return migrate_index(
            lambda: self._registry_tool, index, directory, options or MigrateOptions(), progress=progress
        )

    def create_package(
        self,
        name: str,
        default_channel: str = "",
        *,
        description: Path | None = None,
        icon: Path | None = None,
        warn: Callable[[str], None] = ignore_warning,
    ) -> Blobs:
        """Return a catalog with the first blob of a package.

        Args:
            name: Name of the package.
            default_channel: Its default channel.
            description: File with the description of the operator, in Markdown.
            icon: File of the icon: SVG, PNG, JPEG or GIF.
            warn: Called with a warning for each reason why catalogs with this name are invalid.

        Raises:
            CatalogError: The icon is not an image, the description is not UTF-8, or a file is too large.
            DiskError: A file cannot be read.
        """
        from opmkit.bundle.kubernetes_names import dns1123_label
        from opmkit.index.fbc.blobs import Blobs
        from opmkit.index.fbc.packages import create_package

        blob = create_package(name, default_channel, description, icon)
        for problem in dns1123_label(name):
            warn(f"package name {name!r}: {problem}: catalogs with this name are invalid")
        return Blobs((blob,))

    def generate_dockerfile(
        self,
        directory: Path,
        *,
        base_image: str = "",
        builder_image: str = "",
        labels: Sequence[str] = (),
        compat: CatalogCompat = CatalogCompat.NEWEST,
    ) -> None:
        """Write ``DIRECTORY.Dockerfile`` for an index image with a catalog directory and a cache.

        Args:
            directory: The catalog directory.
            base_image: Base image; by default one with opm.
            builder_image: Image that builds the cache, in releases of Go opm with a stage for it; by default one with
                opm. In older releases, the base image builds it.
            labels: Additional labels, as ``KEY=VALUE``.
            compat: Release of Go opm whose Dockerfile to write.

        Raises:
            CatalogError: The directory does not exist, the file exists, or an image or label is invalid.
            DiskError: The file cannot be written.
            ValueError: The release has no image that builds the cache.
        """
        from opmkit.index.image.dockerfile import (
            DEFAULT_IMAGE,
            CatalogDockerfile,
            dockerfile_path,
            parse_labels,
            write_dockerfile,
        )

        has_builder = compat.has(ReleaseChange.TWO_STAGES)
        if builder_image and not has_builder:
            raise ValueError(f"builder_image: unsupported with {compat}")
        builder = (builder_image or DEFAULT_IMAGE) if has_builder else ""
        path = dockerfile_path(directory)
        name = path.name.removesuffix(".Dockerfile")
        write_dockerfile(CatalogDockerfile(name, base_image or DEFAULT_IMAGE, builder, parse_labels(labels)), path)

    def list_packages(self, index: str, *, compat: CatalogCompat = CatalogCompat.NEWEST) -> list[PackageListing]:
        """Return the packages of an index with their default channels, sorted by name.

        Args:
            index: Index image, catalog directory or database file.
            compat: Release of Go opm whose rules for valid catalogs apply.

        Raises:
            InvalidCatalog: The index is invalid.
            CatalogError, ImageToolsError: The index cannot be read.
        """
        from opmkit.index.operations.list import list_packages

        return list_packages(self._load_catalog(index, compat))

    def list_channels(
        self, index: str, package: str = "", *, compat: CatalogCompat = CatalogCompat.NEWEST
    ) -> list[ChannelListing]:
        """Return the channels of an index with their heads, sorted by package and name.

        Args:
            index: Index image, catalog directory or database file.
            package: Package to list, by default all.
            compat: Release of Go opm whose rules for valid catalogs apply.

        Raises:
            InvalidCatalog: The index is invalid.
            CatalogError, ImageToolsError: The index cannot be read, or does not have the package.
        """
        from opmkit.index.operations.list import list_channels

        return list_channels(self._load_catalog(index, compat), package)

    def list_bundles(
        self, index: str, package: str = "", *, compat: CatalogCompat = CatalogCompat.NEWEST
    ) -> list[BundleListing]:
        """Return the bundles of an index with their update edges in each channel, sorted by package, channel and name.

        Args:
            index: Index image, catalog directory or database file.
            package: Package to list, by default all.
            compat: Release of Go opm whose rules for valid catalogs apply.

        Raises:
            InvalidCatalog: The index is invalid.
            CatalogError, ImageToolsError: The index cannot be read, or does not have the package.
        """
        from opmkit.index.operations.list import list_bundles

        return list_bundles(self._load_catalog(index, compat), package)

    def _load_catalog(self, index: str, compat: CatalogCompat) -> Catalog:
        from opmkit.index.image.source import IndexSource

        return IndexSource.resolve(lambda: self._registry_tool, index).catalog(compat)
