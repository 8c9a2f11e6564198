"""Serialization of bundles: manifests, APIs, properties and dependencies."""

from __future__ import annotations

from typing import Any

import pytest

from opmkit.index.grpc_api import message_class
from opmkit.index.sqlite.serving import ListedBundle, PropertyValue, ServedBundle
from opmkit.server.database_backend import bundle_fields, find_csv, listed_bundle_fields, listed_channel_fields
from opmkit.server.settings import QueryFailed

CSV = '{"kind":"ClusterServiceVersion","metadata":{"name":"a.v1"}}'


def stored(**changed: Any) -> ServedBundle:
    return ServedBundle("a.v1", "1.0.0", "quay.io/a", "", None, [], [])._replace(**changed)


def read(data: bytes | None) -> Any:
    assert data is not None
    return message_class("Bundle").FromString(data)


def gvk(value: str, kind: str | None = "olm.gvk") -> PropertyValue:
    return PropertyValue(kind, value, "1.0.0", "quay.io/a")


def no_plural(group: str, version: str, kind: str) -> str:
    return ""


@pytest.mark.parametrize(
    "text",
    [
        f'{{"kind":"A"}}\n{CSV}\n',
        f'{{"kind":"A"}}{CSV}',
        f' {{"kind":"A"}}\r\n\n{CSV}',
        f'{{"kind":"A"}}\n\n{CSV}\n\n',
    ],
)
def test_manifests_are_split(text: str) -> None:
    assert find_csv(text.encode()) == (['{"kind":"A"}', CSV], CSV)


def test_manifests_on_several_lines() -> None:
    pretty = '{\n  "kind": "A",\n  "list": [\n{},\n{}\n]}'
    assert find_csv(f"{pretty}\n{CSV}".encode()) == ([pretty, CSV], CSV)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"kind":"A"}', "no csv in bundle"),
        ('{"kind":"ClusterServiceVersion","metadata":{}}', "no csv in bundle"),
        ('{"kind":"ClusterServiceVersion","metadata":null}', "no csv in bundle"),
        ("[1]\n2", "no csv in bundle"),
        (f"{CSV} x", "invalid manifests in bundle"),
        ('{"kind"', "invalid manifests in bundle"),
        ("[" * 100_000, "invalid manifests in bundle"),
    ],
)
def test_invalid_manifests(text: str, message: str) -> None:
    with pytest.raises(QueryFailed, match=message):
        find_csv(text.encode())


def test_invalid_utf8_is_replaced() -> None:
    (objects, _) = find_csv(b'{"kind":"A","x":"\xff"}\n' + CSV.encode())
    assert objects[0] == '{"kind":"A","x":"\ufffd"}'


@pytest.mark.parametrize(
    ("value", "api"),
    [
        ('{"group":"g","version":"v1","kind":"K"}', ("g", "v1", "K")),
        ('{"Group":"g","VERSION":"v1","kind":"K","more":1}', ("g", "v1", "K")),
        ('{"kind":"K","group":null}', ("", "", "K")),
        ("null", ("", "", "")),
    ],
)
def test_apis_are_parsed_as_in_go(value: str, api: tuple[str, str, str]) -> None:
    (parsed,) = read(bundle_fields(stored(properties=[gvk(value)]), no_plural)).providedApis
    assert (parsed.group, parsed.version, parsed.kind) == api


@pytest.mark.parametrize("value", ["", "x", "[]", '"x"', '{"kind":1}', '{"group":[]}'])
def test_invalid_apis_are_omitted_and_end_those_in_lists(value: str) -> None:
    good = '{"group":"g","version":"v1","kind":"K"}'
    bundle = stored(properties=[gvk(good), gvk(value), gvk(good)], dependencies=[gvk(value), gvk(good)])
    single, listed = read(bundle_fields(bundle, no_plural)), read(listed_bundle_fields(bundle))
    assert (len(single.providedApis), len(single.requiredApis)) == (2, 1)
    assert (len(listed.providedApis), len(listed.requiredApis)) == (1, 0)
    assert len(single.properties) == len(listed.properties) == 2


def test_single_bundles_have_only_values_of_their_version_and_image() -> None:
    values = [
        PropertyValue("a", "1", None, None),
        PropertyValue("b", "1", "1.0.0", "quay.io/a"),
        PropertyValue("c", "1", "2.0.0", None),
    ]
    bundle = stored(properties=values)
    assert [each.type for each in read(bundle_fields(bundle, no_plural)).properties] == ["a", "b"]
    assert [each.type for each in read(listed_bundle_fields(bundle)).properties] == ["a", "b", "c"]


def test_null_value_omits_all_values_of_a_single_bundle() -> None:
    bundle = stored(properties=[PropertyValue("a", "1", None, None), PropertyValue("b", None, None, None)])
    assert list(read(bundle_fields(bundle, no_plural)).properties) == []
    assert [(each.type, each.value) for each in read(listed_bundle_fields(bundle)).properties] == [
        ("a", "1"),
        ("b", ""),
    ]


@pytest.mark.parametrize("missing", ["version", "image"])
def test_bundles_without_version_or_image_are_omitted_from_lists(missing: str) -> None:
    bundle = stored(**{missing: None})
    assert listed_bundle_fields(bundle) is None
    assert read(bundle_fields(bundle, no_plural)).csvName == "a.v1"


def test_skips_are_sorted() -> None:
    message = read(listed_channel_fields(ListedBundle("p", "c", 1, "a.v0", "b,a,c")))
    assert (message.packageName, message.channelName, message.replaces, list(message.skips)) == (
        "p",
        "c",
        "a.v0",
        ["a", "b", "c"],
    )
    assert list(read(listed_channel_fields(ListedBundle("p", "c", 1, "", None))).skips) == []
