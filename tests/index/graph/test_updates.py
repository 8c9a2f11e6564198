"""Updates of installed bundles along a channel."""

from __future__ import annotations

import pytest

from opmkit.bundle.versions import strict_version
from opmkit.index.graph.updates import ChannelUpdates, moved_back

VERSIONS = {f"v{number}": strict_version(f"{number}.0.0") for number in range(1, 6)}


@pytest.mark.parametrize(
    ("updates", "updatable"),
    [
        (ChannelUpdates(("v3",), {"v1": (), "v2": ("v1",), "v3": ("v2",)}), {"v1", "v2", "v3"}),
        (ChannelUpdates(("v3",), {"v1": (), "v2": (), "v3": ("v1",)}), {"v1", "v3"}),
        (ChannelUpdates(("v3",), {"v3": ()}, {"v3": ">=1.0.0 <3.0.0"}), {"v1", "v2", "v3"}),
        (ChannelUpdates(("v3",), {"v2": (), "v3": ("v2",)}, {"v2": "<2.0.0"}), {"v1", "v2", "v3"}),
        (ChannelUpdates(("v3",), {"v3": ()}, {"v3": "nonsense"}), {"v3"}),
        (ChannelUpdates(("v2",), {"v1": ("v2",), "v2": ("v1",)}), {"v1", "v2"}),
        (ChannelUpdates((), {"v1": ()}, {"v1": "<9.0.0"}), set()),
    ],
)
def test_bundles_are_updated_by_replaces_skips_and_ranges(updates: ChannelUpdates, updatable: set[str]) -> None:
    assert updates.updatable(["v1", "v2"], VERSIONS) == updatable


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [("v2", "v3", False), ("v2", "v2", False), ("v2", "v1", True), ("v2", "unknown", False), ("v5", "v4", True)],
)
def test_a_head_moves_back_to_an_older_bundle_or_an_entry(before: str, after: str, expected: bool) -> None:
    assert moved_back(before, after, {"v1", "v2"}, VERSIONS) is expected
