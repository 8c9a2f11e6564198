"""Encoding of catalogs: order, format, and no loss of content."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from opmkit.index.fbc.blobs import (
    Blob,
    BlobProperty,
    Blobs,
    BundleBlob,
    ChannelBlob,
    DeprecationsBlob,
    OtherBlob,
    PackageBlob,
)
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.fbc.write import sort_blobs, to_json, to_yaml

from .test_load import CATALOG


def test_blobs_are_sorted_by_package() -> None:
    def package_blobs(package: str) -> list[Blob]:
        notes = [OtherBlob(schema, name, package, {}) for schema, name in (("a", "z"), ("z", "b"), ("z", "a"))]
        bundles = [BundleBlob(f"{package}.v{number}", package) for number in (1, 2)]
        channels = [ChannelBlob(name, package) for name in ("alpha", "beta")]
        return [PackageBlob(package), *channels, *bundles, *notes, DeprecationsBlob(package)]

    without_package: list[Blob] = [OtherBlob("z", "", "", {}), OtherBlob("a", "", "", {})]
    omitted: list[Blob] = [ChannelBlob("alpha", ""), BundleBlob("b.v1", "")]
    ordered = [*package_blobs("a"), *package_blobs("b"), *without_package]
    notes = [blob for blob in ordered if isinstance(blob, OtherBlob)]  # of one schema, they keep their order
    others = [blob for blob in reversed(ordered) if not isinstance(blob, OtherBlob)]
    assert list(sort_blobs(Blobs.from_blobs([*others, *notes, *omitted]))) == ordered


def test_json_order_and_format() -> None:
    bundle = BundleBlob("b.v1", "b", properties=(BlobProperty("x", {"z": [1.0, 1e21, []], "a": {}}),))
    blobs = Blobs.from_blobs(
        [OtherBlob("note", "", "", {"schema": "note"}), bundle, PackageBlob("b", "c"), PackageBlob("a")]
    )
    assert (
        to_json(sort_blobs(blobs)).decode()
        == """\
{
    "schema": "olm.package",
    "name": "a",
    "defaultChannel": ""
}
{
    "schema": "olm.package",
    "name": "b",
    "defaultChannel": "c"
}
{
    "schema": "olm.bundle",
    "name": "b.v1",
    "package": "b",
    "image": "",
    "properties": [
        {
            "type": "x",
            "value": {
                "z": [
                    1,
                    1e+21,
                    []
                ],
                "a": {}
            }
        }
    ]
}
{
    "schema": "note"
}
"""
    )


@pytest.mark.parametrize("write", [to_json, to_yaml])
def test_encoded_catalogs_are_read_back_unchanged(write: Any) -> None:
    blobs = parse_blobs(CATALOG, "catalog.yaml")
    assert parse_blobs(write(sort_blobs(blobs)), "again") == blobs


def test_line_separators_are_escaped_in_json() -> None:
    blob = OtherBlob("s", "", "", {"schema": "s", "text": "a\u2028b\u2029c  <&>\n   d"})
    raw = to_json([blob])
    assert b"\\u2028" in raw
    assert parse_blobs(raw, "x").others[0].content == blob.content
    assert yaml.safe_load(raw) == dict(blob.content)
