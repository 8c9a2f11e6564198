"""The rules of catalogs, on values."""

from __future__ import annotations

import json

import pytest

from opmkit.index.catalog import Catalog, CatalogBundle, Channel, Package, Property, check_catalog
from opmkit.index.catalog.blobs import EntryBlob
from opmkit.index.errors import InvalidCatalog


def entry(name: str, replaces: str = "", *skips: str) -> EntryBlob:
    return EntryBlob(name, replaces, skips)


def bundle(name: str, image: str = "r/demo", *, value: str | None = None) -> CatalogBundle:
    package = json.dumps({"packageName": "demo", "version": "1.0.0"})
    return CatalogBundle(name, image, properties=(Property("olm.package", package if value is None else value),))


def faults(*entries: EntryBlob, bundles: tuple[CatalogBundle, ...] = (), channel: str = "alpha") -> list[str]:
    """What is wrong with a catalog of one channel: the leaves of the tree."""
    found = {known.name: known for known in (*(bundle(known.name) for known in entries), *bundles)}
    channels = {channel: Channel(channel, {known.name: known for known in entries})}
    try:
        check_catalog(Catalog({"demo": Package("demo", channel, channels, found)}))
    except InvalidCatalog as error:
        lines = [line.lstrip("│├└─ ") for line in error.message.splitlines()]
        return [line for line in lines if not line.endswith(":")]
    return []


@pytest.mark.parametrize(
    "entries",
    [
        [entry("v1")],
        [entry("v1"), entry("v2", "v1")],
        [entry("v2", "v1")],
        [entry("v1"), entry("v2"), entry("v3", "v2"), entry("v4", "v3", "v1")],
    ],
)
def test_channels_that_keep_the_rules(entries: list[EntryBlob]) -> None:
    assert faults(*entries) == []


@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        ([], "channel must contain at least one bundle"),
        ([entry("v1"), entry("v2")], "multiple channel heads found in graph: v1, v2"),
        ([entry("v1", "v2"), entry("v2", "v1")], "no channel head found in graph"),
        (
            [entry("v1", "v2"), entry("v2", "v1"), entry("v3", "v2")],
            "detected cycle in replaces chain of upgrade graph: v2 -> v1 -> v2",
        ),
        (
            [entry("v1"), entry("v2", "v1"), entry("v3", "v0", "v2")],
            "channel contains one or more stranded bundles: v1",
        ),
        ([entry("v1", "", "")], "skip[0] is empty"),
    ],
)
def test_channels_that_break_a_rule(entries: list[EntryBlob], fault: str) -> None:
    assert faults(*entries) == [fault]


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        (bundle("v1", ""), "bundle image must be set"),
        (bundle("v1", value="{"), 'parse property[0] of type "olm.package"'),
        (CatalogBundle("v1", "r/demo"), 'must be exactly one property with type "olm.package"'),
        (bundle("v1", value="[]"), 'package "demo" does not match "olm.package" property ""'),
        (
            bundle("v1", value='{"packageName": "demo", "version": "1.0"}'),
            '"olm.package" property has version "1.0", which is not a semantic version',
        ),
    ],
)
def test_bundles_that_break_a_rule(broken: CatalogBundle, fault: str) -> None:
    assert faults(entry("v1"), bundles=(broken,))[0].startswith(fault)


def test_names_must_not_be_empty() -> None:
    assert faults(entry(""), channel="", bundles=(bundle(""),)) == [
        "channel name must not be empty",
        "name must be set",
    ]


def test_a_package_needs_a_name_a_channel_and_a_default_channel() -> None:
    with pytest.raises(InvalidCatalog) as failure:
        check_catalog(Catalog({"": Package("", "", {}, {})}))
    assert failure.value.message.splitlines() == [
        "invalid index:",
        '└── invalid package "":',
        "    ├── package name must not be empty",
        "    ├── default channel must be set",
        "    └── package must contain at least one channel",
    ]
