"""Selection of differences by kind."""

from __future__ import annotations

import pytest

from opmkit.index.fbc.blobs import Blobs, BundleBlob, ChannelBlob, Deprecation, DeprecationsBlob, EntryBlob, PackageBlob
from opmkit.index.operations.diff.differences import KIND_NAMES, find_unknown_kind, list_differences, select_differences
from opmkit.index.operations.diff.fbc import diff_blobs
from opmkit.index.operations.diff.model import BundleChange, ChangeKind, IndexDiff

V1, V2, V3 = "demo.v1", "demo.v2", "demo.v3"
OLD = Blobs(
    (PackageBlob("demo", "stable"), PackageBlob("gone", "stable")),
    (
        ChannelBlob("stable", "demo", (EntryBlob(V1), EntryBlob(V2, V1))),
        ChannelBlob("beta", "demo", (EntryBlob(V1),)),
    ),
    (BundleBlob(V1, "demo", "image:1"), BundleBlob(V2, "demo", "image:2")),
)
NEW = Blobs(
    (PackageBlob("demo", "alpha", description="new"), PackageBlob("new", "stable")),
    (
        ChannelBlob("stable", "demo", (EntryBlob(V2), EntryBlob(V3, V2))),
        ChannelBlob("alpha", "demo", (EntryBlob(V3),)),
    ),
    (BundleBlob(V2, "demo", "image:other"), BundleBlob(V3, "demo", "image:3")),
    (DeprecationsBlob("demo", (Deprecation("olm.package", "", "Use new."),)),),
)


def test_each_kind_of_difference_is_listed() -> None:
    assert list(map(str, list_differences(diff_blobs(OLD, NEW)))) == [
        'changed default channel: package "demo": stable -> alpha',
        'added channel: package "demo", channel "alpha"',
        'added entry: package "demo", channel "alpha", bundle "demo.v3"',
        'removed channel: package "demo", channel "beta"',
        'removed entry: package "demo", channel "beta", bundle "demo.v1"',
        'changed head: package "demo", channel "stable": demo.v2 -> demo.v3',
        'added entry: package "demo", channel "stable", bundle "demo.v3"',
        'removed entry: package "demo", channel "stable", bundle "demo.v1"',
        'changed upgrade path: package "demo", channel "stable", bundle "demo.v2"',
        'removed bundle: package "demo", bundle "demo.v1"',
        'changed bundle: package "demo", bundle "demo.v2"',
        'added bundle: package "demo", bundle "demo.v3"',
        'added deprecation: package "demo": olm.package',
        'changed metadata: package "demo": description',
        'removed package: package "gone"',
        'added package: package "new"',
    ]


def test_kinds_select_differences() -> None:
    diff = diff_blobs(OLD, NEW)
    counts = {name: len(select_differences(diff, [name])) for name in ("added", "removed", "changed", "changed-head")}
    assert counts == {"added": 6, "removed": 5, "changed": 5, "changed-head": 1}
    assert len(select_differences(diff, ["removed-bundle", "removed-package"])) == 2
    assert select_differences(diff, []) == ()
    assert select_differences(diff_blobs(OLD, OLD), KIND_NAMES) == ()


def test_bundles_in_no_channel_are_differences() -> None:
    stranded = BundleChange(ChangeKind.REMOVED, V1, "1.0.0", "image:1", deprecated=False)
    (difference,) = select_differences(IndexDiff((), (stranded,)), ["removed"])
    assert str(difference) == 'removed bundle: bundle "demo.v1"'


@pytest.mark.parametrize(("names", "unknown"), [(("added", "removed-bundle"), ""), (("added", "delete"), "delete")])
def test_unknown_kinds_are_reported(names: tuple[str, ...], unknown: str) -> None:
    message = find_unknown_kind(names)
    assert message.startswith(f'unknown kind "{unknown}": expected added, removed, changed') == bool(unknown)
    assert bool(message) == bool(unknown)
