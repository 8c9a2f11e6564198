"""The package manifest format: a directory for each version of an operator, and a file on the package's channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from opmkit.bundle import fields
from opmkit.bundle.cluster_service_version import CSV_KIND, read_csv
from opmkit.bundle.document import MAX_BYTES, read_document
from opmkit.bundle.errors import BundleError, InvalidBundle, InvalidDocument
from opmkit.bundle.model import Bundle, BundleAnnotations
from opmkit.bundle.properties import gvk_value
from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from opmkit.bundle.json_value import JsonValue
    from opmkit.bundle.manifest import Manifest, ManifestCache
    from opmkit.bundle.model import ClusterServiceVersion


@dataclass(frozen=True, slots=True)
class PackageManifest:
    """A package: the (name, head) pairs of its channels; the default channel is "" where none is named."""

    name: str
    default_channel: str
    heads: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, value: JsonValue) -> PackageManifest | None:
        """Read a package from what its file has; None if that is something else, which has no name of a package.

        Raises:
            BundleError: if it is no mapping, or a field that is read has the wrong type.
        """
        members = fields.mapping(value, "the document")
        name = fields.text(fields.member(members, "packageName"), "packageName")
        default = fields.text(fields.member(members, "defaultChannel"), "defaultChannel")
        heads = tuple(_head(channel) for channel in fields.items(fields.member(members, "channels"), "channels"))
        return cls(name, default, heads) if name else None

    def to_yaml(self) -> bytes:
        """The content of its file."""
        channels = [{"currentCSV": head, "name": channel} for channel, head in self.heads]
        content = {"channels": channels, "defaultChannel": self.default_channel, "packageName": self.name}
        return yaml.safe_dump(content, allow_unicode=True).encode()


def read_package(path: Path) -> PackageManifest | None:
    """The package that a file describes; None if it is a file of another kind.

    Raises:
        CatalogError: naming the file, if it can't be read or is no mapping.
    """
    content = _content(path)
    try:
        if not content:
            raise InvalidBundle("the file is empty", advice="Fill it in or remove it.")
        return PackageManifest.parse(read_document(content).value)
    except BundleError as error:
        raise located(str(path), error) from error


def read_bundle(path: Path, cache: ManifestCache) -> Bundle | None:
    """The bundle of the ClusterServiceVersion in a file and the objects in the files beside it; None if it has none.

    The CRDs that it owns may be missing, see `missing_apis`.

    Raises:
        CatalogError: naming the file, if no catalog can hold it.
    """
    manifest = _manifest(path, cache)
    if manifest is None or manifest.kind != CSV_KIND:
        return None
    try:
        csv = read_csv(manifest.json)
        objects = [
            beside
            for other in sorted(path.parent.iterdir())
            if _is_shown(other) and other.is_file() and (beside := _manifest(other, cache))
            if beside.kind != CSV_KIND or read_csv(beside.json).name == csv.name
        ]
        return assemble_bundle(csv, objects)
    except BundleError as error:
        raise located(str(path), error) from error


def assemble_bundle(csv: ClusterServiceVersion, objects: Sequence[Manifest]) -> Bundle:
    """Make a bundle of a ClusterServiceVersion and all its objects, itself among them; it belongs to no package.

    Raises:
        InvalidBundle: if the APIs of an object can't be told.
    """
    for each in objects:
        if each.crd_error:
            raise InvalidBundle(each.crd_error.message, advice=each.crd_error.advice)
    provided = dict.fromkeys([*(api for each in objects for api in each.apis), *csv.owned_services])
    required = dict.fromkeys(csv.required_crds + csv.required_services)
    return Bundle(
        annotations=BundleAnnotations("", (), ""),
        csv=csv,
        objects=tuple(each.json for each in objects),
        provided_apis=tuple(provided),
        required_apis=tuple(required),
        dependencies=tuple(map(gvk_value, required)),
        properties=tuple(dict.fromkeys([*csv.properties, *map(gvk_value, provided)])),
    )


def missing_apis(bundle: Bundle) -> list[str]:
    """The APIs that a bundle's ClusterServiceVersion owns and no CRD in the bundle provides."""
    missing = [api for api in bundle.csv.owned_crds if api not in bundle.provided_apis]
    return [f"{api.group}/{api.version}/{api.kind} ({api.plural})" for api in missing]


def walk(directory: Path) -> Iterator[Path]:
    """The files below a directory in the order of their paths, without those hidden."""
    for path in sorted(directory.iterdir()):
        if not _is_shown(path):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from walk(path)
        elif path.is_file():
            yield path


def _is_shown(path: Path) -> bool:
    return not path.name.startswith(".")


def _head(channel: JsonValue) -> tuple[str, str]:
    members = fields.mapping(channel, "an entry of channels")
    name = fields.text(fields.member(members, "name"), "a channel's name")
    return name, fields.text(fields.member(members, "currentCSV"), "currentCSV")


def _manifest(path: Path, cache: ManifestCache) -> Manifest | None:
    """The object in a file; None if it holds something else."""
    try:
        return cache.read(_content(path))
    except InvalidDocument:
        return None


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise CatalogError(f"{path} has more than {MAX_BYTES} bytes", advice="Keep nothing but manifests there.")
        return path.read_bytes()
    except OSError as error:
        raise CatalogError(f"{path}: {error.strerror}", advice="Check the permissions there.") from error


def located(where: str, error: BundleError) -> CatalogError:
    """The error of a catalog for what is wrong with a manifest at a place."""
    message = error.located(where) if isinstance(error, InvalidDocument) else f"{where}: {error.message}"
    return CatalogError(message, advice=error.advice or "Correct the file, or keep it elsewhere.")
