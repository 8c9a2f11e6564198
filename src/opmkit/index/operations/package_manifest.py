"""The package manifest format: a directory per version of an operator, and a file with the channels of the package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from opmkit.bundle.cluster_service_version import read_csv
from opmkit.bundle.errors import BundleError, InvalidBundle
from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.model import Bundle, BundleAnnotations
from opmkit.bundle.properties import gvk_value
from opmkit.documents import fields
from opmkit.documents.document import MAX_BYTES, read_document
from opmkit.documents.errors import DocumentError, InvalidDocument
from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from opmkit.bundle.manifest import ManifestCache, ObjectManifest
    from opmkit.bundle.model import ClusterServiceVersion
    from opmkit.core.errors import OpmkitError
    from opmkit.documents.json_value import JsonValue


@dataclass(frozen=True, slots=True)
class PackageManifest:
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
        """Return the content of the package file."""
        channels = [{"currentCSV": head, "name": channel} for channel, head in self.heads]
        content = {"channels": channels, "defaultChannel": self.default_channel, "packageName": self.name}
        return yaml.safe_dump(content, allow_unicode=True).encode()


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


def walk(directory: Path) -> Iterator[Path]:
    """Yield the files below a directory, ordered by path, without hidden ones."""
    for path in sorted(directory.iterdir()):
        if not _is_visible(path):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from walk(path)
        elif path.is_file():
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
