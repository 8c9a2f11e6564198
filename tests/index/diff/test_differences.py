"""Selection of differences by kind."""

from __future__ import annotations

import pytest

from opmkit.index.diff.differences import KIND_NAMES, find_unknown_kind, list_differences, select_differences
from opmkit.index.diff.fbc import diff_blobs
from opmkit.index.diff.model import BundleChange, ChangeKind, IndexDiff
from opmkit.index.diff.report import loss_lines
from opmkit.index.fbc.blobs import Blobs, BundleBlob, ChannelBlob, Deprecation, DeprecationsBlob, EntryBlob, PackageBlob

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
        'stranded version: package "demo", channel "beta", bundle "demo.v1"',
        'changed head: package "demo", channel "stable": demo.v2 -> demo.v3',
        'added entry: package "demo", channel "stable", bundle "demo.v3"',
        'removed entry: package "demo", channel "stable", bundle "demo.v1"',
        'changed upgrade path: package "demo", channel "stable", bundle "demo.v2"',
        'stranded version: package "demo", channel "stable", bundle "demo.v1"',
        'removed bundle: package "demo", bundle "demo.v1"',
        'changed bundle: package "demo", bundle "demo.v2": image: image:2 -> image:other',
        'added bundle: package "demo", bundle "demo.v3"',
        'added deprecation: package "demo": olm.package',
        'changed metadata: package "demo": description',
        'removed package: package "gone"',
        'added package: package "new"',
    ]


def test_kinds_select_differences() -> None:
    diff = diff_blobs(OLD, NEW)
    names = ("added", "removed", "changed", "changed-head", "stranded", "reverted-head")
    counts = {name: len(select_differences(diff, [name])) for name in names}
    assert counts == {"added": 6, "removed": 5, "changed": 5, "changed-head": 1, "stranded": 2, "reverted-head": 0}
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


def test_losses_name_all_channels_and_some_bundles() -> None:
    names = [f"demo.v{number}" for number in range(1, 12)]
    before = tuple(EntryBlob(name, names[position - 1] if position else "") for position, name in enumerate(names))
    after = (*before[:1], EntryBlob("demo.v99"))
    old, new = (
        Blobs((PackageBlob("demo", "a"),), tuple(ChannelBlob(name, "demo", entries) for name in ("a", "b")))
        for entries in (before, (EntryBlob("demo.v99", "demo.v1"), after[0]))
    )
    bundles = tuple(BundleBlob(name, "demo", f"image:{name}") for name in (*names, "demo.v99"))
    left, stranded = loss_lines(
        diff_blobs([*old.packages, *old.channels, *bundles[:-1]], [*new.packages, *new.channels, *bundles])
    )
    assert left.startswith('package "demo", channels "a", "b": 10 bundles leave the channel: demo.v10, demo.v11, ')
    assert left.endswith(", ..., demo.v9 (10 in all)")
    assert 'channels "a", "b": installed demo.v10, ' in stranded
    assert ": let demo.v99, or an entry below it, replace demo.v" in stranded


@pytest.mark.parametrize(
    ("before", "after", "losses"),
    [
        ((EntryBlob(V1),), (EntryBlob(V1), EntryBlob(V2, V1)), []),
        ((EntryBlob(V1),), (EntryBlob(V2, skips=(V1,)),), ["1 bundle leaves the channel: demo.v1"]),
        ((EntryBlob(V2),), (EntryBlob(V2), EntryBlob(V1, V2)), []),  # without versions, v1 may be newer
        ((EntryBlob(V1), EntryBlob(V2, V1)), (EntryBlob(V2), EntryBlob(V1, V2)), ["the head moves back from"]),
        ((EntryBlob(V1),), (EntryBlob(V1), EntryBlob(V2)), []),  # several heads: invalid, which is an error itself
    ],
)
def test_losses_of_a_channel(before: tuple[EntryBlob, ...], after: tuple[EntryBlob, ...], losses: list[str]) -> None:
    bundles = tuple(BundleBlob(name, "demo", f"image:{name}") for name in (V1, V2))
    old, new = (
        Blobs((PackageBlob("demo", "a"),), (ChannelBlob("a", "demo", each),), bundles) for each in (before, after)
    )
    lines = list(loss_lines(diff_blobs(old, new)))
    assert len(lines) == len(losses)
    for line, loss in zip(lines, losses, strict=True):
        assert line.startswith(f'package "demo", channel "a": {loss}')


def test_removed_packages_strand_nobody() -> None:
    assert list(loss_lines(diff_blobs(OLD, Blobs()))) == []
