"""Encoding of file-based catalogs: reproducible, as a stream or as a directory per package."""

from __future__ import annotations

import math
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from opmkit.core.files import check_output, disk_errors
from opmkit.core.scratch import ScratchDirectory
from opmkit.documents.json_value import UINT64, go_float
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import (
    Blob,
    BlobProperty,
    Blobs,
    BundleBlob,
    ChannelBlob,
    DeprecationsBlob,
    EntryBlob,
    OtherBlob,
    PackageBlob,
)
from opmkit.index.fbc.fields import normalize_base64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blob, Blobs


_TYPE_ORDER = (PackageBlob, ChannelBlob, BundleBlob, OtherBlob, DeprecationsBlob)
"""The order of the blobs of a package."""

_LINE_SEPARATORS = (("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))


def to_json(blobs: Iterable[Blob]) -> bytes:
    """Encode blobs as a stream of JSON documents, in the given order."""
    return b"".join(map(_indented_json, blobs))


def to_yaml(blobs: Iterable[Blob]) -> bytes:
    """Encode blobs as a stream of YAML documents, in the given order."""
    from opmkit.documents.yaml_writer import dump_yaml  # imported late: JSON does not need the YAML library

    return b"".join(b"---\n" + dump_yaml(blob_to_dict(blob)) for blob in blobs)


def sort_blobs(blobs: Blobs) -> Iterator[Blob]:
    """Yield blobs in the order in which they are written: by package, schema and name, then others without a package.

    Blobs of OLM's schemas without a package are omitted, as in Go opm.
    """
    yield from sorted((blob for blob in blobs if blob.package), key=_sort_key)
    yield from (blob for blob in blobs.others if not blob.package)


def _sort_key(blob: Blob) -> tuple[str, int, str]:
    return blob.package, _TYPE_ORDER.index(type(blob)), blob.schema if isinstance(blob, OtherBlob) else blob.name


def _indented_json(blob: Blob) -> bytes:
    return msgspec.json.format(_escape_separators(_dumps(blob, 0)), indent=4) + b"\n"  # orjson indents by 2 only


def _escape_separators(text: bytes) -> bytes:
    for separator, escape in _LINE_SEPARATORS:
        text = text.replace(separator, escape)
    return text


def compact_json(blob: Blob) -> bytes:
    """Encode a blob as one line of JSON with sorted keys, as Go opm's loader normalizes it."""
    return _escape_separators(_dumps(blob, orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE))


def json_line(document: dict[str, JsonValue]) -> bytes:
    """Encode a document as it is, like `compact_json`.

    Raises:
        ValueError: For infinite numbers and NaN.
        TypeError: For strings with lone surrogates.
    """
    option = orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    return _escape_separators(orjson.dumps(with_go_numbers(document), option=option))


def canonical_json(blob: Blob) -> bytes:
    """Return JSON that is equal for equal blobs; comparing blobs is not enough, since 1 equals true in Python."""
    return _dumps(blob, orjson.OPT_SORT_KEYS)


def _dumps(blob: Blob, option: int) -> bytes:
    return orjson.dumps(with_go_numbers(blob_to_dict(blob)), option=option)


def with_go_numbers(value: Any) -> Any:
    """Return the value with numbers formatted as in Go; the same object if nothing changes."""
    if isinstance(value, dict):
        members = {key: with_go_numbers(member) for key, member in value.items()}
        return members if any(members[key] is not value[key] for key in value) else value
    if isinstance(value, list):
        items = [with_go_numbers(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, float) or (type(value) is int and value not in UINT64):
        sign = "-" if value == 0 and math.copysign(1, value) < 0 else ""
        return orjson.Fragment(f"{sign}{go_float(float(value))}".encode())
    return value


def blob_to_dict(blob: Blob) -> dict[str, Any]:
    """Return a blob as a JSON document with fields in the order of its schema and without empty optional fields."""
    if isinstance(blob, OtherBlob):
        return dict(blob.content)
    if isinstance(blob, PackageBlob):
        return _package(blob)
    if isinstance(blob, ChannelBlob):
        return _channel(blob)
    return _bundle(blob) if isinstance(blob, BundleBlob) else _deprecations(blob)


def _package(blob: PackageBlob) -> dict[str, Any]:
    icon = {"base64data": normalize_base64(blob.icon.data), "mediatype": blob.icon.media_type} if blob.icon else None
    return {
        "schema": blob.schema,
        "name": blob.name,
        "defaultChannel": blob.default_channel,
        **_non_empty(icon=icon, description=blob.description, properties=_properties(blob.properties)),
    }


def _channel(blob: ChannelBlob) -> dict[str, Any]:
    return {
        "schema": blob.schema,
        "name": blob.name,
        "package": blob.package,
        "entries": [_entry(entry) for entry in blob.entries] if blob.has_list else None,
        **_non_empty(properties=_properties(blob.properties)),
    }


def _entry(entry: EntryBlob) -> dict[str, Any]:
    edges = _non_empty(replaces=entry.replaces, skips=list(entry.skips), skipRange=entry.skip_range)
    return {"name": entry.name, **edges}


def _bundle(blob: BundleBlob) -> dict[str, Any]:
    images = [{"name": related.name, "image": related.image} for related in blob.related_images]
    return {
        "schema": blob.schema,
        **_non_empty(name=blob.name, package=blob.package),
        "image": blob.image,
        **_non_empty(properties=_properties(blob.properties), relatedImages=images),
    }


def _deprecations(blob: DeprecationsBlob) -> dict[str, Any]:
    entries = [
        {"reference": {"schema": entry.schema, **_non_empty(name=entry.name)}, "message": entry.message}
        for entry in blob.entries
    ]
    return {"schema": blob.schema, "package": blob.package, "entries": entries if blob.has_list else None}


def _properties(properties: Iterable[BlobProperty]) -> list[dict[str, JsonValue]]:
    return [{"type": prop.type, "value": prop.value} for prop in properties]


def _non_empty(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def require_empty(directory: Path) -> None:
    """Check that a directory is empty or does not exist.

    Raises:
        CatalogError: The directory is not empty, or the path is not a directory.
        DiskError: The directory can't be read.
    """
    with disk_errors(directory):
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise CatalogError(
                f"{directory}: already exists and is not an empty directory",
                hint="Choose another directory, or remove this one.",
            )


def write_catalog(blobs: Blobs, directory: Path, extension: str, encode: Callable[[Iterable[Blob]], bytes]) -> None:
    """Write each package to ``PACKAGE/catalog.EXTENSION``, and blobs without a package to ``catalog.EXTENSION``.

    The directory is created only after everything is written to a temporary one.

    Args:
        blobs: The blobs of the catalog.
        directory: A directory that is empty or does not exist.
        extension: The extension of the files, without a dot.
        encode: `to_json` or `to_yaml`.

    Raises:
        CatalogError: The directory is not empty, or the name of a package is not a valid directory name.
        DiskError: A file can't be written.
    """
    require_empty(directory)
    directory = directory.absolute()
    with disk_errors(directory):
        check_output(directory)
        nearest = next(path for path in (directory, *directory.parents) if path.exists())
        with _scratch_directory(nearest, directory) as scratch:
            for package, group in groupby(sort_blobs(blobs), key=lambda blob: blob.package):
                path = Path(scratch, package_directory_name(package), f"catalog.{extension}")
                path.parent.mkdir(exist_ok=True)
                with path.open("wb") as file:
                    file.writelines(encode([blob]) for blob in group)
            directory.mkdir(parents=True, exist_ok=True)
            for path in sorted(Path(scratch).iterdir()):
                path.replace(directory / path.name)


def _scratch_directory(parent: Path, directory: Path) -> ScratchDirectory:
    """Create a temporary directory on the file system of ``directory``; errors name the latter."""
    try:
        return ScratchDirectory(".opm-catalog-", parent)
    except OSError as error:
        error.filename = str(directory)
        raise


def package_directory_name(package: str) -> str:
    """Return the name of a package's directory, which is the name of the package.

    Raises:
        CatalogError: It is not a valid directory name.
    """
    if package in (".", "..") or "/" in package or "\0" in package:
        raise CatalogError(f"package name {package!r}: not a valid directory name", hint="Rename the package.")
    return package
