"""Serialization of bundles in a database to messages ``Bundle``.

A serialized message is the concatenation of its parts. The fields of a bundle are serialized once, and appended to the
few fields that depend on the channel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from opmkit.index.grpc_api import message_class
from opmkit.index.sqlite.manifests import split_manifests
from opmkit.index.sqlite.serving_queries import GVK
from opmkit.server.errors import QueryFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.index.sqlite.serving import ListedBundle, PropertyValue, ServedBundle

    FindPlural = Callable[[str, str, str], str]
    """Returns the plural of an API, given by group, version and kind."""

_BUNDLE, _API = message_class("Bundle"), message_class("GroupVersionKind")
_PROPERTY, _DEPENDENCY = message_class("Property"), message_class("Dependency")
_CSV_KIND = "ClusterServiceVersion"


def head_message(name: str, csv: bytes) -> bytes:
    """Return the message for the head of a channel, which has only its name and ClusterServiceVersion."""
    return _serialize(csvName=name, csvJson=csv.decode(errors="replace"))


def channel_fields(package: str, channel: str) -> bytes:
    """Return the fields for the channel of a bundle."""
    return _serialize(packageName=package, channelName=channel)


def listed_channel_fields(listed: ListedBundle) -> bytes:
    """Return the fields for the channel of a bundle and its update edges there, for the list of bundles."""
    skips = [] if listed.skips is None else sorted(listed.skips.split(","))
    return _serialize(packageName=listed.package, channelName=listed.channel, replaces=listed.replaces, skips=skips)


def bundle_fields(stored: ServedBundle, find_plural: FindPlural) -> bytes:
    """Return the fields of a bundle that do not depend on the channel, for responses with a single bundle.

    Raises:
        QueryFailed: the manifests of the bundle are invalid.
    """
    required = dict.fromkeys(value.value for value in stored.dependencies if value.type == GVK)
    provided = [value.value for value in stored.properties if value.type == GVK]
    return _serialize(
        **_common_fields(stored),
        providedApis=[
            _API(group=g, version=v, kind=k, plural=find_plural(g, v, k)) for g, v, k in _valid_apis(provided)
        ],
        requiredApis=[
            _API(group=g, version=v, kind=k, plural=find_plural(g, v, k)) for g, v, k in _valid_apis(required)
        ],
        dependencies=[_DEPENDENCY(type=kind, value=text) for kind, text in _own_values(stored, stored.dependencies)],
        properties=[_PROPERTY(type=kind, value=text) for kind, text in _own_values(stored, stored.properties)],
    )


def listed_bundle_fields(stored: ServedBundle) -> bytes | None:
    """Return the fields that do not depend on the channel, for the list of bundles; None if it omits the bundle.

    Raises:
        QueryFailed: the manifests of the bundle are invalid.
    """
    if stored.version is None or stored.image is None:
        return None
    dependencies, properties = _pairs(stored.dependencies), _pairs(stored.properties)
    return _serialize(
        **_common_fields(stored),
        providedApis=[_API(group=g, version=v, kind=k) for g, v, k in _leading_apis(properties)],
        requiredApis=[_API(group=g, version=v, kind=k) for g, v, k in _leading_apis(dependencies)],
        dependencies=[_DEPENDENCY(type=kind, value=text) for kind, text in dict.fromkeys(dependencies)],
        properties=[_PROPERTY(type=kind, value=text) for kind, text in dict.fromkeys(properties)],
    )


def _serialize(**fields: Any) -> bytes:
    message: bytes = _BUNDLE(**fields).SerializeToString()
    return message


def _common_fields(stored: ServedBundle) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "csvName": stored.name,
        "bundlePath": stored.image or "",
        "version": stored.version or "",
        "skipRange": stored.skip_range,
    }
    if stored.manifests:
        objects, csv = find_csv(stored.manifests)
        fields |= {"csvJson": csv, "object": objects}
    return fields


def find_csv(documents: bytes) -> tuple[list[str], str]:
    """Return the JSON documents of a bundle, and the first ClusterServiceVersion among them.

    Raises:
        QueryFailed: invalid JSON, or no ClusterServiceVersion with a name.
    """
    try:
        manifests = split_manifests(documents)
    except (ValueError, RecursionError) as error:
        raise QueryFailed(f"invalid manifests in bundle: {error}") from error
    for text, document in manifests:
        if isinstance(document, dict) and document.get("kind") == _CSV_KIND:
            metadata = document.get("metadata")
            if not isinstance(metadata, dict) or not metadata.get("name"):
                break
            return [text for text, _ in manifests], text
    raise QueryFailed("no csv in bundle")


def _own_values(stored: ServedBundle, values: Iterable[PropertyValue]) -> list[tuple[str, str]]:
    """Return the values without a version and image, or with those of the bundle; none if one of them is NULL."""
    pairs = dict.fromkeys(
        (value.type, value.value)
        for value in values
        if value.version in (None, stored.version or "") and value.image in (None, stored.image or "")
    )
    complete = [(kind, text) for kind, text in pairs if kind is not None and text is not None]
    return complete if len(complete) == len(pairs) else []


def _pairs(values: Iterable[PropertyValue]) -> list[tuple[str, str]]:
    return [(value.type or "", value.value or "") for value in values]


def _valid_apis(values: Iterable[str | None]) -> Iterator[tuple[str, str, str]]:
    """Yield the APIs in valid values."""
    for value in values:
        api = None if value is None else _parse_api(value)
        if api is not None:
            yield api


def _leading_apis(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yield the APIs in values up to the first invalid one."""
    for kind, value in pairs:
        if kind == GVK:
            api = _parse_api(value)
            if api is None:
                return
            yield api


def _parse_api(value: str) -> tuple[str, str, str] | None:
    """Return the group, version and kind in a property or dependency, parsed as Go parses JSON into strings."""
    try:
        members = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    if members is None:
        return "", "", ""
    if not isinstance(members, dict):
        return None
    by_name = {name.lower(): member for name, member in members.items() if member is not None}
    group, version, kind = (by_name.get(name, "") for name in ("group", "version", "kind"))
    are_strings = isinstance(group, str) and isinstance(version, str) and isinstance(kind, str)
    return (group, version, kind) if are_strings else None
