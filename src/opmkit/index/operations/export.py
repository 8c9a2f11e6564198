"""``export``: write packages in the package manifest format, which has a directory per version."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.cluster_service_version import read_csv
from opmkit.bundle.directory import is_bundle_file
from opmkit.bundle.errors import BundleError, InvalidBundle
from opmkit.bundle.generate import yaml_scalar
from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.load import fetch_bundle_files
from opmkit.bundle.model import Bundle, BundleAnnotations
from opmkit.bundle.properties import gvk_value
from opmkit.bundle.source import BundleSource
from opmkit.core.escape import escape_yaml
from opmkit.core.files import disk_errors, write_files
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.scratch import ScratchDirectory
from opmkit.core.workers import WorkerPool
from opmkit.documents import MAX_BYTES, fields
from opmkit.documents.document import read_document
from opmkit.documents.errors import DocumentError, InvalidDocument
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.model import Catalog, Package
from opmkit.index.image.content import DatabaseContent
from opmkit.index.sqlite.packages import ChannelBundle, channel_bundles, channel_heads, default_channel
from opmkit.index.sqlite.removal import package_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opmkit.bundle.manifest import ManifestCache, ObjectManifest
    from opmkit.bundle.model import ClusterServiceVersion
    from opmkit.core.errors import OpmkitError
    from opmkit.documents.json_value import JsonValue
    from opmkit.imagetools.tools.tool import ContainerTool
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.image.source import IndexSource
    from opmkit.index.sqlite import IndexDatabase


MAX_WORKERS = 10
"""Bundles that are pulled concurrently."""
_MANIFESTS = "manifests/"


class ExportedPackage(Struct, frozen=True):
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


class PackageManifest(Struct, frozen=True):
    """A package with the (name, head) pairs of its channels; the default channel may be ""."""

    name: str
    default_channel: str
    heads: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, value: JsonValue) -> PackageManifest | None:
        """Parse a document; return None if it has no package name.

        Raises:
            BundleError: The document is not a mapping, or a field has the wrong type.
        """
        members = fields.mapping(value, "the document")
        name = fields.text(fields.member(members, "packageName"), "packageName")
        default = fields.text(fields.member(members, "defaultChannel"), "defaultChannel")
        heads = tuple(_head(channel) for channel in fields.items(fields.member(members, "channels"), "channels"))
        return cls(name, default, heads) if name else None

    def to_yaml(self) -> bytes:
        """Return the content of the package file, with the order and the indentation of Go opm, which scripts parse."""
        channels = [
            line
            for channel, head in self.heads
            for line in (f"    - name: {yaml_scalar(channel)}", f"      currentCSV: {yaml_scalar(head)}")
        ]
        lines = [
            f"packageName: {yaml_scalar(self.name)}",
            *(["channels:", *channels] if channels else ["channels: []"]),
            f"defaultChannel: {yaml_scalar(self.default_channel)}",
        ]
        return escape_yaml("".join(f"{line}\n" for line in lines)).encode()


def read_package(path: Path) -> PackageManifest | None:
    """Read a package file; return None for another document.

    Raises:
        CatalogError: The file cannot be read or is not a mapping.
    """
    content = _content(path)
    try:
        if not content:
            raise InvalidBundle("the file is empty", hint="fill it in or remove it")
        return PackageManifest.parse(read_document(content).value)
    except (BundleError, DocumentError) as error:
        raise locate_error(str(path), error) from error


def read_bundle(path: Path, cache: ManifestCache) -> Bundle | None:
    """Read the bundle of a ClusterServiceVersion file, with the objects in the same directory.

    Return None for another file. CRDs that the bundle owns may be missing, see `missing_apis`.

    Raises:
        CatalogError: The bundle is invalid.
    """
    manifest = _manifest(path, cache)
    if manifest is None or manifest.kind != CSV_KIND:
        return None
    try:
        csv = read_csv(manifest.json)
        objects = [
            sibling
            for other in sorted(path.parent.iterdir())
            if _is_visible(other) and other.is_file() and (sibling := _manifest(other, cache))
            if sibling.kind != CSV_KIND or read_csv(sibling.json).name == csv.name
        ]
        return assemble_bundle(csv, objects)
    except (BundleError, DocumentError) as error:
        raise locate_error(str(path), error) from error


def assemble_bundle(csv: ClusterServiceVersion, objects: Sequence[ObjectManifest]) -> Bundle:
    """Build a bundle without a package from a ClusterServiceVersion and all its objects, including itself.

    Raises:
        InvalidBundle: The APIs of an object are invalid.
    """
    for manifest in objects:
        if manifest.crd_error:
            raise InvalidBundle(manifest.crd_error.message, hint=manifest.crd_error.hint)
    provided = dict.fromkeys([*(api for manifest in objects for api in manifest.apis), *csv.owned_services])
    required = dict.fromkeys(csv.required_crds + csv.required_services)
    return Bundle(
        annotations=BundleAnnotations("", (), ""),
        csv=csv,
        objects=tuple(manifest.json for manifest in objects),
        provided_apis=tuple(provided),
        required_apis=tuple(required),
        dependencies=tuple(map(gvk_value, required)),
        properties=tuple(dict.fromkeys([*csv.properties, *map(gvk_value, provided)])),
    )


def missing_apis(bundle: Bundle) -> list[str]:
    """Return the APIs that the ClusterServiceVersion owns and no CRD in the bundle provides."""
    missing = [api for api in bundle.csv.owned_crds if api not in bundle.provided_apis]
    return [f"{api.group}/{api.version}/{api.kind} ({api.plural})" for api in missing]


def walk(directory: Path, root: Path | None = None) -> Iterator[Path]:
    """Yield the files below a directory, ordered by path, without hidden ones.

    Raises:
        InvalidBundle: A link leads out of the directory, or is broken, or a file is no regular file.
    """
    root = root or directory.resolve()
    for path in sorted(directory.iterdir()):
        if not _is_visible(path):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from walk(path, root)
        elif is_bundle_file(path, root):
            yield path


def _is_visible(path: Path) -> bool:
    return not path.name.startswith(".")


def _head(channel: JsonValue) -> tuple[str, str]:
    members = fields.mapping(channel, "an entry of channels")
    name = fields.text(fields.member(members, "name"), "a channel's name")
    return name, fields.text(fields.member(members, "currentCSV"), "currentCSV")


def _manifest(path: Path, cache: ManifestCache) -> ObjectManifest | None:
    """Return the object in a file, None for other content."""
    try:
        return cache.read(_content(path))
    except InvalidDocument:
        return None


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise CatalogError(f"{path}: larger than {MAX_BYTES} bytes", hint="keep only manifests in the directory")
        return path.read_bytes()
    except OSError as error:
        raise CatalogError(f"{path}: {error.strerror}", hint="check the permissions") from error


def locate_error(where: str, error: OpmkitError) -> CatalogError:
    """Return the error with its location."""
    message = error.located(where) if isinstance(error, InvalidDocument) else f"{where}: {error.message}"
    return CatalogError(message, hint=error.hint or "correct the file, or move it")
