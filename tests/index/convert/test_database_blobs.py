"""Conversion of databases to blobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.convert.database_blobs import database_to_blobs, decode_icon
from opmkit.index.sqlite import open_database
from tests.kit.catalogs import write_library

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("icons", "icon"),
    [
        ([{"base64data": "aGk=", "mediatype": "image/png"}, {"base64data": "eA=="}], ("aGk=", "image/png")),
        ([{"base64data": "a G\nk=\r\n"}], ("aGk=", "")),
        ([{"base64data": "no!"}], None),
        ([{"base64data": ""}], None),
        ([{"base64data": 1}], None),
        ([1], None),
        ([], None),
        (None, None),
    ],
)
def test_first_icon_is_used_if_valid(icons: Any, icon: tuple[str, str] | None) -> None:
    decoded = decode_icon(icons)
    assert (decoded and (decoded.data, decoded.media_type)) == icon


def test_packages_channels_and_bundles(tmp_path: Path) -> None:
    write_library(tmp_path / "index.db")
    with open_database(tmp_path / "index.db") as database:
        blobs = database_to_blobs(database)
    assert [(package.name, package.default_channel) for package in blobs.packages] == [
        ("book", "alpha"),
        ("shelf", "beta"),
    ]
    alpha = next(channel for channel in blobs.channels if (channel.package, channel.name) == ("shelf", "alpha"))
    assert [(entry.name, entry.replaces, entry.skips, entry.skip_range) for entry in alpha.entries] == [
        ("shelf.v1.0.0", "", (), ""),
        ("shelf.v1.1.0", "", (), ""),
        ("shelf.v1.2.0", "shelf.v1.0.0", ("shelf.v1.1.0",), "<1.2.0"),
    ]
    first, *_, last = (bundle for bundle in blobs.bundles if bundle.package == "shelf")
    required: list[Any] = list(last.property_values("olm.package.required"))
    assert [value["packageName"] for value in required] == ["book"]
    assert list(first.property_values("olm.package.required")) == []
