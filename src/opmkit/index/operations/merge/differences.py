"""Comparison of a package in two indexes, independent of the order of documents and of lists without an order."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson
from msgspec import Struct

from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE, ChannelBlob, DeprecationsBlob
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.fbc.write import blob_to_dict, with_go_numbers
from opmkit.index.suggestions import join_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opmkit.index.fbc.blobs import Blob, Blobs

_ABSENT = "absent"
_UNORDERED = ("entries", "properties", "relatedImages", "skips")
_NOUNS = {PACKAGE: "package", CHANNEL: "channel", BUNDLE: "bundle", DEPRECATIONS: "deprecations"}
_SHORT_FIELDS = ("defaultChannel", "image")
"""Fields of OLM's schemas whose values are shown."""
_MAX_VALUE = 200
"""Characters of the value of a property that is shown."""
_LABELS = {"defaultChannel": "default channel", "relatedImages": "related images"}

_Key: TypeAlias = "tuple[int, str, str]"
"""The position of the schema in reports, the schema and the name of documents."""


class MergeDifference(Struct, frozen=True):
    """A part of a package that differs: its name, and its state on both sides, or "" if it is too long to show."""

    subject: str
    left: str = ""
    right: str = ""


def fingerprint(package: Blobs) -> tuple[bytes, ...]:
    """Return a value that is equal for packages with equal content."""
    return tuple(sorted(map(document_key, package)))


def document_key(blob: Blob) -> bytes:
    """Return a value that is equal for documents with equal content."""
    return _encode(_document(blob))


def package_differences(left: Blobs, right: Blobs) -> tuple[MergeDifference, ...]:
    """Return what differs between two versions of a package: the package, channels, bundles, then other documents."""
    before, after = _by_key(left), _by_key(right)
    return tuple(
        difference
        for key in sorted({*before, *after})
        for difference in _differences(key, before.get(key, []), after.get(key, []))
    )


def _by_key(package: Blobs) -> dict[_Key, list[Blob]]:
    documents: defaultdict[_Key, list[Blob]] = defaultdict(list)
    order = list(_NOUNS)
    for blob in package:
        position = order.index(blob.schema) if blob.schema in order else len(order)
        documents[position, blob.schema, blob.name].append(blob)
    return documents


def _differences(key: _Key, left: Sequence[Blob], right: Sequence[Blob]) -> Iterator[MergeDifference]:
    _, schema, name = key
    noun = f"{_NOUNS.get(schema, schema)} {name}".strip()
    if sorted(map(document_key, left)) == sorted(map(document_key, right)):
        return
    if len(left) != 1 or len(right) != 1:
        yield MergeDifference(noun, _presence(left), _presence(right))
        return
    (before,), (after,) = left, right
    if isinstance(before, DeprecationsBlob) and isinstance(after, DeprecationsBlob):
        yield from _deprecations(before, after)
        return
    fields = _changed_fields(_document(before), _document(after))
    if isinstance(before, ChannelBlob) and isinstance(after, ChannelBlob) and "entries" in fields:
        del fields["entries"]
        yield MergeDifference(noun, *_entries(before, after))
    for field in [field for field in _SHORT_FIELDS if field in fields and schema in _NOUNS]:
        label = _LABELS.get(field, field)
        subject = label if schema == PACKAGE else f"{noun}: {label}"
        yield MergeDifference(subject, *(str(value or "none") for value in fields.pop(field)))
    for field in [field for field in _DESCRIPTIONS if field in fields and schema in _NOUNS]:
        if sides := _only_on_each_side(field, *fields[field]):
            del fields[field]
            yield MergeDifference(f"{noun}: {_LABELS.get(field, field)}", *sides)
    if fields:
        yield MergeDifference(f"{noun}: {', '.join(_LABELS.get(field, field) for field in fields)}")


def _describe_image(item: Mapping[str, Any]) -> str:
    name, image = str(item.get("name") or ""), str(item.get("image") or "")
    return f"{name}={image}" if name else image


def _describe_property(item: Mapping[str, Any]) -> str:
    value = _encode(item.get("value")).decode()
    return f"{item.get('type')}={value}" if len(value) <= _MAX_VALUE else str(item.get("type"))


_DESCRIPTIONS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "properties": _describe_property,
    "relatedImages": _describe_image,
}
"""Descriptions of the items of lists."""


def _only_on_each_side(field: str, before: Any, after: Any) -> tuple[str, str] | None:
    """Describe the items of a list that only one side has; None if they are described alike."""
    left, right = ({_encode(item): item for item in side or ()} for side in (before, after))
    only_left = [_DESCRIPTIONS[field](item) for key, item in left.items() if key not in right]
    only_right = [_DESCRIPTIONS[field](item) for key, item in right.items() if key not in left]
    if only_left == only_right:
        return None
    return join_names(only_left), join_names(only_right)


def _changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the values of the fields that differ."""
    pairs = {field: (before.get(field), after.get(field)) for field in {**before, **after}}
    return {field: pair for field, pair in pairs.items() if _encode(pair[0]) != _encode(pair[1])}


def _presence(blobs: Sequence[Blob]) -> str:
    if len(blobs) > 1:
        return f"{len(blobs)} documents"
    return (getattr(blobs[0], "image", "") or "present") if blobs else _ABSENT


def _deprecations(left: DeprecationsBlob, right: DeprecationsBlob) -> Iterator[MergeDifference]:
    before, after = (
        {f"{entry.schema} {entry.name}".strip(): entry.message for entry in blob.entries} for blob in (left, right)
    )
    for subject in sorted({*before, *after}):
        if before.get(subject) != after.get(subject):
            sides = (side.get(subject, _ABSENT) for side in (before, after))
            yield MergeDifference(f"deprecation of {subject}", *sides)


def _entries(left: ChannelBlob, right: ChannelBlob) -> tuple[str, str]:
    """Describe the heads of a channel on both sides, and the entries that the other side lacks or has otherwise."""
    before = {entry.name: entry for entry in left.entries}
    after = {entry.name: entry for entry in right.entries}
    changed = sorted(
        name
        for name in before.keys() & after.keys()
        if (before[name].replaces, sorted(before[name].skips), before[name].skip_range)
        != (after[name].replaces, sorted(after[name].skips), after[name].skip_range)
    )
    edges = f"other edges of {join_names(changed)}" if changed else ""
    return (
        _entries_of(left, sorted(before.keys() - after.keys()), edges),
        _entries_of(right, sorted(after.keys() - before.keys()), edges),
    )


def _entries_of(channel: ChannelBlob, only: Sequence[str], edges: str) -> str:
    head = f"head {join_names(sorted(channel_heads(channel.entries)))}"
    return "; ".join(filter(None, (head, f"only here: {join_names(only)}" if only else "", edges)))


def _document(blob: Blob) -> dict[str, Any]:
    """Return a document with lists in a fixed order if their order has no meaning in OLM's schemas."""
    document = blob_to_dict(blob)
    return {name: _sorted(name, value) for name, value in document.items()} if blob.schema in _NOUNS else document


def _sorted(name: str, value: Any) -> Any:
    if name not in _UNORDERED or not isinstance(value, list):
        return value
    if name == "entries":
        value = [{key: _sorted(key, member) for key, member in entry.items()} for entry in value]
    return sorted(value, key=_encode)


def _encode(value: Any) -> bytes:
    return orjson.dumps(with_go_numbers(value), option=orjson.OPT_SORT_KEYS)
