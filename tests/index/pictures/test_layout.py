"""Layout of channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.versions import strict_version, version_key
from opmkit.index.pictures.layout import MAX_LANES, EdgeType, layout_channel, layout_edges, merged_order

from .samples import channel, entry

if TYPE_CHECKING:
    from opmkit.index.fbc.blobs import EntryBlob


def rows(*entries: EntryBlob) -> list[tuple[str, int]]:
    """Return the versions and lanes of the rows of a channel."""
    keys = {entry.name: version_key(strict_version(entry.name.removeprefix("reef.v"))) for entry in entries}
    return [(row.name.removeprefix("reef.v"), row.lane) for row in layout_channel(channel(*entries), keys).rows]


def test_chains_stay_in_one_lane_with_skipped_bundles_next_to_them() -> None:
    assert rows(
        entry("1.0.0"),
        entry("1.1.0", "1.0.0"),
        entry("1.1.1", "1.0.0", ["1.1.0"]),
        entry("1.2.0", "1.1.1"),
        entry("0.9.0"),
    ) == [("1.2.0", 0), ("1.1.1", 0), ("1.1.0", 1), ("1.0.0", 0), ("0.9.0", 0)]


def test_edges_take_precedence_over_versions() -> None:
    assert [name for name, _ in rows(entry("2.0.0"), entry("1.0.0", "2.0.0"), entry("0.1.0", "", ["1.0.0"]))] == [
        "0.1.0",
        "1.0.0",
        "2.0.0",
    ]


def test_cycles_are_cut_and_bundles_outside_the_channel_come_last() -> None:
    layout = layout_channel(channel(entry("1.0.0", "2.0.0"), entry("2.0.0", "1.0.0"), entry("3.0.0", "0.5.0")), {})
    assert sorted(row.name for row in layout.rows) == ["reef.v0.5.0", "reef.v1.0.0", "reef.v2.0.0", "reef.v3.0.0"]
    assert [row.name for row in layout.rows if not row.is_entry] == ["reef.v0.5.0"]
    assert {edge_type for *_, edge_type in layout_edges(layout)} == {EdgeType.REPLACES}
    assert len(list(layout_edges(layout))) == 3


def test_number_of_lanes_is_limited() -> None:
    entries = [entry(f"1.{number}.0", "0.1.0") for number in range(100)]
    assert max(row.lanes for row in layout_channel(channel(*entries), {}).rows) == MAX_LANES


def test_merged_order_respects_the_edges_of_all_channels() -> None:
    channels = [
        channel(entry("1.0.0"), entry("1.1.0", "1.0.0"), entry("1.2.0", "1.1.0")),
        channel(entry("1.0.0"), entry("1.0.1", "1.2.0", ["1.0.0", "0.9.0"]), name="odd"),
    ]
    names = {entry.name for part in channels for entry in part.entries}
    keys = {name: version_key(strict_version(name.removeprefix("reef.v"))) for name in names}
    versions = [name.removeprefix("reef.v") for name in merged_order(channels, keys)]
    assert versions == ["1.0.1", "1.2.0", "1.1.0", "1.0.0", "0.9.0"]
