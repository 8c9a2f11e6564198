"""Bundles as messages, from what an index database holds of them.

A message is the concatenation of its parts: what is said of a bundle itself is serialised once, and put behind the few
fields that tell its place in a channel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from opmkit.index.api.messages import message_class
from opmkit.index.server.errors import QueryFailed
from opmkit.index.sqlite.manifests import split_manifests
from opmkit.index.sqlite.serving_queries import GVK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.index.sqlite.serving import ListedBundle, PropertyValue, ServedBundle

    Plural = Callable[[str, str, str], str]

_BUNDLE, _API = message_class("Bundle"), message_class("GroupVersionKind")
_PROPERTY, _DEPENDENCY = message_class("Property"), message_class("Dependency")
_CSV_KIND = "ClusterServiceVersion"


def head_of_channel(name: str, csv: bytes) -> bytes:
    """The message for the head of a channel, which has its name and its ClusterServiceVersion alone."""
    return _serialised(csvName=name, csvJson=_text(csv))


def place(package: str, channel: str) -> bytes:
    """The part that tells where a bundle is."""
    return _serialised(packageName=package, channelName=channel)


def listed_place(listed: ListedBundle) -> bytes:
    """The part that tells where a bundle is, and what it replaces and skips there."""
    skips = [] if listed.skips is None else sorted(listed.skips.split(","))
    return _serialised(packageName=listed.package, channelName=listed.channel, replaces=listed.replaces, skips=skips)


def content(stored: ServedBundle, plural: Plural) -> bytes:
    """The part that tells of the bundle itself, for answers of a single one; ``plural`` gives that of an API.

    Raises QueryFailed for manifests that can't be read.
    """
    required = dict.fromkeys(value.value for value in stored.dependencies if value.type == GVK)
    provided = [value.value for value in stored.properties if value.type == GVK]
    return _serialised(
        **_own_fields(stored),
        providedApis=[_API(group=g, version=v, kind=k, plural=plural(g, v, k)) for g, v, k in _readable(provided)],
        requiredApis=[_API(group=g, version=v, kind=k, plural=plural(g, v, k)) for g, v, k in _readable(required)],
        dependencies=[_DEPENDENCY(type=kind, value=value) for kind, value in _of_bundle(stored, stored.dependencies)],
        properties=[_PROPERTY(type=kind, value=value) for kind, value in _of_bundle(stored, stored.properties)],
    )


def listed_content(stored: ServedBundle) -> bytes | None:
    """The part that tells of the bundle itself, in the list of all; None where it is left out of that.

    Raises QueryFailed for manifests that can't be read.
    """
    if stored.version is None or stored.image is None:
        return None
    dependencies, properties = _pairs(stored.dependencies), _pairs(stored.properties)
    return _serialised(
        **_own_fields(stored),
        providedApis=[_API(group=g, version=v, kind=k) for g, v, k in _leading(properties)],
        requiredApis=[_API(group=g, version=v, kind=k) for g, v, k in _leading(dependencies)],
        dependencies=[_DEPENDENCY(type=kind, value=value) for kind, value in dict.fromkeys(dependencies)],
        properties=[_PROPERTY(type=kind, value=value) for kind, value in dict.fromkeys(properties)],
    )


def _serialised(**fields: Any) -> bytes:
    message: bytes = _BUNDLE(**fields).SerializeToString()
    return message


def _own_fields(stored: ServedBundle) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "csvName": stored.name,
        "bundlePath": stored.image or "",
        "version": stored.version or "",
        "skipRange": stored.skip_range,
    }
    if stored.manifests:
        objects, csv = manifests(stored.manifests)
        fields |= {"csvJson": csv, "object": objects}
    return fields


def manifests(documents: bytes) -> tuple[list[str], str]:
    """The JSON documents of a bundle, and the first ClusterServiceVersion among them.

    Raises:
        QueryFailed: what is no JSON, or has no ClusterServiceVersion with a name.
    """
    try:
        cut = split_manifests(documents)
    except (ValueError, RecursionError) as error:
        raise QueryFailed(f"invalid manifests in bundle: {error}") from error
    for text, document in cut:
        if isinstance(document, dict) and document.get("kind") == _CSV_KIND:
            metadata = document.get("metadata")
            if not isinstance(metadata, dict) or not metadata.get("name"):
                break
            return [text for text, _ in cut], text
    raise QueryFailed("no csv in bundle")


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _of_bundle(stored: ServedBundle, values: Iterable[PropertyValue]) -> list[tuple[str, str]]:
    """The values that say they are of this version and image, or don't say; none where one of them has no content."""
    pairs = dict.fromkeys(
        (value.type, value.value)
        for value in values
        if value.version in (None, stored.version or "") and value.image in (None, stored.image or "")
    )
    found = [(kind, text) for kind, text in pairs if kind is not None and text is not None]
    return found if len(found) == len(pairs) else []


def _pairs(values: Iterable[PropertyValue]) -> list[tuple[str, str]]:
    return [(value.type or "", value.value or "") for value in values]


def _readable(values: Iterable[str | None]) -> Iterator[tuple[str, str, str]]:
    """The APIs that values name; others are passed over."""
    for value in values:
        api = None if value is None else _api(value)
        if api is not None:
            yield api


def _leading(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """The APIs that values name, up to the first that names none."""
    for kind, value in pairs:
        if kind == GVK:
            api = _api(value)
            if api is None:
                return
            yield api


def _api(value: str) -> tuple[str, str, str] | None:
    """Group, version and kind in the value of a property or dependency, read as Go reads it into texts."""
    try:
        members = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    if members is None:
        return "", "", ""
    if not isinstance(members, dict):
        return None
    found = {name.lower(): member for name, member in members.items() if member is not None}
    group, version, kind = (found.get(name, "") for name in ("group", "version", "kind"))
    texts = isinstance(group, str) and isinstance(version, str) and isinstance(kind, str)
    return (group, version, kind) if texts else None
