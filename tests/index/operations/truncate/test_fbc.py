"""Tests of deprecatetruncate in file-based catalogs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opmkit.index.errors import CatalogError, GraphError, InvalidCatalog
from opmkit.index.fbc.blobs import BlobProperty, Blobs
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.fbc.write import sort_blobs, to_json
from opmkit.index.operations.truncate.fbc import truncate_bundles
from tests.kit.edits import catalog, shown

ALPHA = [
    "demo.v1.0.0",
    "demo.v1.1.0 > demo.v1.0.0 < <1.1.0",
    "demo.v1.2.0 > demo.v1.1.0, demo.v1.0.0",
    "demo.v1.3.0 > demo.v1.2.0",
]
DEPRECATIONS = {
    "schema": "olm.deprecations",
    "package": "demo",
    "entries": [
        {"reference": {"schema": "olm.bundle", "name": "demo.v1.0.0"}, "message": "old"},
        {"reference": {"schema": "olm.channel", "name": "beta"}, "message": "old"},
        {"reference": {"schema": "olm.bundle", "name": "demo.v1.1.0"}, "message": "old"},
    ],
}
CATALOG = catalog(
    {
        "demo": {"alpha": ALPHA, "beta": ALPHA[:2], "gamma": ["demo.v1.3.0 > demo.v1.1.0"]},
        "other": {"alpha": ["other.v1.0.0"]},
    },
    DEPRECATIONS,
)
LONG = catalog({"demo": {"alpha": ALPHA, "beta": ALPHA[:2]}, "other": {"alpha": ["other.v1.0.0"]}})


def image(version: str) -> str:
    return f"registry.example.com/demo:{version}"


def names(blobs: Blobs) -> list[str]:
    return [bundle.name for bundle in blobs.bundles if bundle.package == "demo"]


def test_removes_bundles_below_and_headed_channels() -> None:
    result = truncate_bundles(CATALOG, [image("1.1.0")]).blobs
    assert shown(result, "demo") == {
        "alpha": ["demo.v1.1.0 < <1.1.0", "demo.v1.2.0 > demo.v1.1.0", "demo.v1.3.0 > demo.v1.2.0"],
        "gamma": ["demo.v1.3.0 > demo.v1.1.0"],
    }
    assert names(result) == ["demo.v1.1.0", "demo.v1.2.0", "demo.v1.3.0"]
    assert BlobProperty("olm.deprecated", {}) in result.bundles[0].properties
    assert [entry.name for entry in result.deprecations[0].entries] == ["demo.v1.1.0"]
    assert result.deprecations[0].location == CATALOG.deprecations[0].location
    assert not check_blobs(result)
    untouched = [blob for blob in CATALOG if blob.package == "other"]
    assert all(any(blob is new for new in result) for blob in untouched)


def test_bundle_of_another_channel_is_retained() -> None:
    result = truncate_bundles(LONG, [image("1.2.0")]).blobs
    assert shown(result, "demo") == {"alpha": ["demo.v1.2.0", "demo.v1.3.0 > demo.v1.2.0"], "beta": ALPHA[:2]}
    assert result.channels[1] is LONG.channels[1]
    assert names(result) == names(LONG)


def test_skips_removed_bundles() -> None:
    once = truncate_bundles(LONG, [image("1.1.0")])
    assert truncate_bundles(LONG, [image("1.1.0"), image("1.0.0"), image("1.1.0")]) == once


def test_deprecating_again_changes_nothing() -> None:
    once = truncate_bundles(LONG, [image("1.2.0")]).blobs
    assert truncate_bundles(once, [image("1.2.0")]).blobs == once


def test_property_is_inserted_before_objects() -> None:
    (old, new) = LONG.bundles[:2]
    packed = replace(old, properties=(*old.properties, BlobProperty("olm.bundle.object", {"data": "e30="})))
    result = truncate_bundles(replace(LONG, bundles=(packed, new, *LONG.bundles[2:])), [image("1.0.0")]).blobs
    assert [prop.type for prop in result.bundles[0].properties] == [
        "olm.package",
        "olm.deprecated",
        "olm.bundle.object",
    ]


@pytest.mark.parametrize("permissive", [False, True])
def test_rejects_removal_of_the_default_channel(*, permissive: bool) -> None:
    images = [image("1.3.0"), image("1.1.0"), image("9.9.9")]
    if not permissive:
        with pytest.raises(CatalogError, match="causing default channel removal: it is the head") as failure:
            truncate_bundles(CATALOG, images)
        assert f"missing from registry: [{image('9.9.9')}]" in str(failure.value)
        assert str(failure.value.hint)
    else:
        result = truncate_bundles(CATALOG, images, permissive=True)
        assert result.blobs == truncate_bundles(CATALOG, [image("1.1.0")]).blobs
        assert [isinstance(failure, GraphError) for failure in result.failures] == [False, True]


def test_rejects_default_head_below_the_target() -> None:
    blobs = catalog({"demo": {"beta": ALPHA[:2], "alpha": ALPHA}})
    with pytest.raises(GraphError, match=r"it leads to demo\.v1\.1\.0, the head"):
        truncate_bundles(blobs, [image("1.2.0")])


def test_removes_package_with_all_heads() -> None:
    result = truncate_bundles(LONG, [image("1.1.0"), image("1.3.0"), image("1.2.0")], allow_package_removal=True)
    assert {blob.package for blob in result.blobs} == {"other"}
    with pytest.raises(CatalogError, match="passed twice"):
        truncate_bundles(LONG, [image("1.3.0"), image("1.1.0"), image("1.3.0")], allow_package_removal=True)


def test_rejects_package_removal_without_all_heads() -> None:
    with pytest.raises(CatalogError, match=rf"must deprecate {image('1.1.0')}, head of channel beta"):
        truncate_bundles(LONG, [image("1.3.0")], allow_package_removal=True)
    result = truncate_bundles(LONG, [image("1.3.0"), image("1.2.0")], allow_package_removal=True, permissive=True)
    assert result.blobs == truncate_bundles(LONG, [image("1.2.0")]).blobs
    assert len(result.failures) == 2


def test_bundle_that_heads_all_its_channels_is_removed() -> None:
    blobs = catalog({"demo": {"alpha": ["demo.v1.1.0"], "beta": ["demo.v1.0.0"]}})
    result = truncate_bundles(blobs, [image("1.0.0")]).blobs
    assert (shown(result, "demo"), names(result)) == ({"alpha": ["demo.v1.1.0"]}, ["demo.v1.1.0"])


def test_tail_includes_edges_of_other_channels() -> None:
    minors = {"v1.1": ["demo.v1.1.0 > demo.v1.0.0", "demo.v1.1.1 > demo.v1.1.0"], "v1.0": ["demo.v1.0.0"]}
    result = truncate_bundles(catalog({"demo": minors}), [image("1.1.0")]).blobs
    assert shown(result, "demo") == {"v1.1": ["demo.v1.1.0", "demo.v1.1.1 > demo.v1.1.0"], "v1.0": ["demo.v1.0.0"]}


def test_rejects_package_without_default_channel() -> None:
    broken = catalog({"demo": {"": ["demo.v9.0.0"], "alpha": ALPHA}, "other": {"alpha": ["other.v1.0.0"]}})
    with pytest.raises(GraphError, match=r"bundle demo\.v1\.1\.0: it is in no package that has a default channel"):
        truncate_bundles(broken, [image("1.1.0")])


def test_warns_about_other_packages_and_rejects_invalid_changed_ones() -> None:
    two_heads = catalog({"other": {"alpha": ["other.v1.0.0", "other.v1.1.0"]}})
    demo = Blobs.from_blobs(blob for blob in LONG if blob.package == "demo")
    result = truncate_bundles(demo + two_heads, [image("1.1.0")])
    assert [text for text in result.warnings if 'package "other", channel "alpha": multiple channel heads' in text]
    stray = catalog({"demo": {"": ["copy.v1.3.0"]}})
    assert truncate_bundles(demo + stray, [image("1.3.0")], permissive=True).blobs == demo + stray
    same_version = catalog({"demo": {"alpha": [*ALPHA, "copy.v1.3.0 > demo.v1.3.0"]}})
    with pytest.raises(InvalidCatalog, match=r"duplicate versions found in bundles: 1\.3\.0"):
        truncate_bundles(same_version, [image("1.1.0")])


def test_empty_catalog() -> None:
    assert truncate_bundles(Blobs(), [image("1.0.0")]).blobs == Blobs()


def test_result_can_be_written_and_read() -> None:
    result = truncate_bundles(CATALOG, [image("1.1.0")]).blobs
    assert Blobs.from_blobs(sort_blobs(parse_blobs(to_json(sort_blobs(result)), "x"))) == Blobs.from_blobs(
        sort_blobs(result)
    )
