"""Encoding of catalogs: order, format, and no loss of content."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from opmkit.bundle import go_yaml
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
from opmkit.index.fbc.yaml_writer import dump_yaml

from .test_load import CATALOG

STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e15, 1e15) | STRINGS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
    max_leaves=12,
)


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


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("yes", '"yes"'),
        ("1.0", '"1.0"'),
        ("", '""'),
        ("12:30", '"12:30"'),
        ("2024-01-01", '"2024-01-01"'),
        ("2024-13-01", "2024-13-01"),
        ("@at", "'@at'"),
        ("a: b", "'a: b'"),
        ("=", "="),
        ("it's", "it's"),
        ("two\nlines\n", "|\n  two\n  lines"),
        ("ends in blanks \n", '"ends in blanks \\n"'),
        ("x" * 50 + " " + "y" * 50, "x" * 50 + " " + "y" * 50),
        ("word " * 20 + "end", "word " * 15 + "word\n  " + "word " * 4 + "end"),
    ],
)
def test_yaml_strings(text: str, written: str) -> None:
    assert dump_yaml({"k": text}).decode() == f"k: {written}\n"


def test_yaml_keys_are_in_natural_order() -> None:
    keys = ["v10", "v9", "a", "B", "1", "", "true", "v2a", "v2-", "a01", "a1"]
    written = dump_yaml(dict.fromkeys(keys, 0)).decode()
    assert [line.partition(":")[0].strip('"') for line in written.splitlines()] == [
        "", "1", "B", "a", "a1", "a01", "true", "v2-", "v2a", "v9", "v10",
    ]  # fmt: skip


@pytest.mark.slow
@given(VALUES)
def test_yaml_round_trip(value: Any) -> None:
    assert go_yaml.load(dump_yaml({"value": value})) == {"value": value}


def test_line_separators_are_escaped_in_json() -> None:
    blob = OtherBlob("s", "", "", {"schema": "s", "text": "a\u2028b\u2029c  <&>\n   d"})
    raw = to_json([blob])
    assert b"\\u2028" in raw
    assert parse_blobs(raw, "x").others[0].content == blob.content
    assert yaml.safe_load(raw) == dict(blob.content)
