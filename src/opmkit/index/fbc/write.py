"""Writing file-based catalogs: blobs in the order and form of the reference, the same for the same blobs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from opmkit.bundle.json_value import UINT64, go_float
from opmkit.index.fbc.base64text import normalize_base64
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.bundle.json_value import JsonValue

_KINDS = (PackageBlob, ChannelBlob, BundleBlob, OtherBlob, DeprecationsBlob)
"""In the order in which a package has them."""

_INDENT = re.compile(rb"^ +", re.MULTILINE)
_SEPARATORS = (("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))


def to_json(blobs: Iterable[Blob]) -> bytes:
    """Write blobs as a stream of JSON documents, in the order in which they come."""
    return b"".join(map(_json, blobs))


def to_yaml(blobs: Iterable[Blob]) -> bytes:
    """Write blobs as a stream of YAML documents, in the order in which they come."""
    from opmkit.index.fbc.yaml_writer import dump_yaml  # a catalog in JSON does without the YAML library

    return b"".join(b"---\n" + dump_yaml(blob_to_dict(blob)) for blob in blobs)


def sort_blobs(blobs: Blobs) -> Iterator[Blob]:
    """The blobs as they are written: package by package, in each by schema and name, then others without a package.

    Packages, channels, bundles and deprecations that name no package are left out, for there is no place for them.
    """
    yield from sorted((blob for blob in blobs if blob.package), key=_place)
    yield from (blob for blob in blobs.others if not blob.package)


def _place(blob: Blob) -> tuple[str, int, str]:
    """What blobs are ordered by; those alike in it stay as they were read."""
    return blob.package, _KINDS.index(type(blob)), blob.schema if isinstance(blob, OtherBlob) else blob.name


def _json(blob: Blob) -> bytes:
    text = _escaped(
        orjson.dumps(with_go_numbers(blob_to_dict(blob)), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    )
    return _INDENT.sub(lambda match: match.group() * 2, text)  # lines are broken between values alone


def _escaped(text: bytes) -> bytes:
    for separator, escape in _SEPARATORS:
        text = text.replace(separator, escape)
    return text


def compact_json(blob: Blob) -> bytes:
    """Write a blob as one line of JSON with sorted keys, as Go's loader of catalogs rewrites it."""
    return _escaped(
        orjson.dumps(with_go_numbers(blob_to_dict(blob)), option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    )


def canonical_json(blob: Blob) -> bytes:
    """What a blob says, the same for any order of keys; to compare blobs is not enough, for 1 and true are equal."""
    return orjson.dumps(with_go_numbers(blob_to_dict(blob)), option=orjson.OPT_SORT_KEYS)


def with_go_numbers(value: Any) -> Any:
    """The value with numbers in the form in which Go writes them; itself, where there are none to change."""
    if isinstance(value, dict):
        members = {key: with_go_numbers(member) for key, member in value.items()}
        return members if any(members[key] is not value[key] for key in value) else value
    if isinstance(value, list):
        items = [with_go_numbers(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, float) or (type(value) is int and value not in UINT64):
        return orjson.Fragment(go_float(float(value)).encode())
    return value


def blob_to_dict(blob: Blob) -> dict[str, Any]:
    """What a blob says, with its fields in the order of its schema; optional ones that are empty are left out."""
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
        **_given(name=blob.name),
        "defaultChannel": blob.default_channel,
        **_given(icon=icon, description=blob.description, properties=_properties(blob.properties)),
    }


def _channel(blob: ChannelBlob) -> dict[str, Any]:
    return {
        "schema": blob.schema,
        **_given(name=blob.name, package=blob.package),
        "entries": [_entry(entry) for entry in blob.entries] or None,
        **_given(properties=_properties(blob.properties)),
    }


def _entry(entry: EntryBlob) -> dict[str, Any]:
    edges = _given(replaces=entry.replaces, skips=list(entry.skips), skipRange=entry.skip_range)
    return {"name": entry.name, **edges}


def _bundle(blob: BundleBlob) -> dict[str, Any]:
    images = [{"name": one.name, "image": one.image} for one in blob.related_images]
    return {
        "schema": blob.schema,
        **_given(name=blob.name, package=blob.package),
        "image": blob.image,
        **_given(properties=_properties(blob.properties), relatedImages=images),
    }


def _deprecations(blob: DeprecationsBlob) -> dict[str, Any]:
    entries = [
        {"reference": {"schema": one.schema, **_given(name=one.name)}, "message": one.message} for one in blob.entries
    ]
    return {"schema": blob.schema, **_given(package=blob.package), "entries": entries or None}


def _properties(properties: Iterable[BlobProperty]) -> list[dict[str, JsonValue]]:
    return [{"type": one.type, "value": one.value} for one in properties]


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}
