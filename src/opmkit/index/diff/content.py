"""Content of bundles, without large values, and the differences between the contents of two bundles."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import orjson
from msgspec import Struct

from opmkit.index.diff.model import BundleDetail, ChangeKind
from opmkit.index.fbc.blobs import CSV_METADATA
from opmkit.index.fbc.digests import value_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import BlobProperty, BundleBlob

MAX_SHOWN = 120
"""Characters of the longest value that a difference shows; of larger ones only a digest is stored."""

_Value = str | bytes
Part = tuple[str, _Value]


class BundleContent(Struct, frozen=True):
    """The properties and related images of a bundle: the name of each part, and its value or the digest of that."""

    parts: tuple[Part, ...]

    @classmethod
    def from_blob(cls, blob: BundleBlob, shared: dict[Part, Part]) -> BundleContent:
        """Return the content of a blob, which need not be valid; most bundles have parts that others have, too."""
        images = ((f"related image {each.name}".rstrip(), each.image) for each in blob.related_images)
        parts = (*(part for each in blob.properties for part in _property_parts(each)), *images)
        return cls(tuple(shared.setdefault(part, part) for part in parts))


def _property_parts(each: BlobProperty) -> Iterator[Part]:
    """Yield a property; of the metadata of a ClusterServiceVersion, each field."""
    if each.type == CSV_METADATA and isinstance(each.value, dict):
        yield from ((f"metadata {name}", _value(value)) for name, value in each.value.items())
    else:
        yield f"property {each.type}", _value(each.value)


def _value(value: JsonValue) -> _Value:
    """Return a value as text, or its digest if it is long."""
    try:
        text = value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # integers of more than 64 bits, unpaired surrogates, deep nesting
        return value_digest(value)
    return text if len(text) <= MAX_SHOWN else value_digest(value)


def content_details(before: BundleContent, after: BundleContent) -> Iterator[BundleDetail]:
    """Yield the differences between the contents of two versions of a bundle, by the name of the part."""
    if before == after:
        return
    old, new = Counter(before.parts), Counter(after.parts)
    removed, added = _by_name((old - new).elements()), _by_name((new - old).elements())
    for name in sorted({*removed, *added}):
        ours, theirs = removed.get(name, []), added.get(name, [])
        if len(ours) == len(theirs) == 1:
            yield BundleDetail(ChangeKind.CHANGED, name, _text(ours[0]), _text(theirs[0]))
        else:
            yield from (BundleDetail(ChangeKind.REMOVED, name, before=_text(value)) for value in ours)
            yield from (BundleDetail(ChangeKind.ADDED, name, after=_text(value)) for value in theirs)
    if not removed and not added:
        yield BundleDetail(ChangeKind.CHANGED, "order of properties or related images")


def _by_name(parts: Iterable[Part]) -> dict[str, list[_Value]]:
    values: dict[str, list[_Value]] = {}
    for name, value in parts:
        values.setdefault(name, []).append(value)
    return values


def _text(value: _Value) -> str:
    return value if isinstance(value, str) else ""
