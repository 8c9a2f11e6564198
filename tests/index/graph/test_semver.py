"""Tests of graphs in the modes semver and semver-skippatch, as values and in databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.index.errors import GraphError, MultipleErrors
from opmkit.index.graph import ChannelNode, Member, PackageGraph, precedence, pruned_member_errors, semver_graph
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.options import AddOptions
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.sqlite import replace_database
from tests.index.builders import bundle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from opmkit.index.graph import ChannelGraph
    from opmkit.index.sqlite import IndexDatabase

MODES = ("semver", "semver-skippatch")


def member(version: str, *channels: str, default: str = "") -> Member:
    return Member(f"v{version}", version, channels or ("alpha",), default)


def channel_nodes(channel: ChannelGraph) -> list[ChannelNode]:
    """Return the bundles of a channel as they are read from a database."""
    version = {name: name.removeprefix("v") for name in (entry.name for entry in channel.entries)}
    return [
        ChannelNode(name, version[name], tuple(dict.fromkeys(below for above, below in channel.edges if above == name)))
        for name in version
        if not name.startswith("gone")
    ]


def add(graph: PackageGraph | None, members: Sequence[Member], *, skip_patch: bool = False) -> PackageGraph:
    """Return the graph of a package after another add, with the omitted channels unchanged."""
    before = {channel.name: channel for channel in graph.channels} if graph else {}
    present = {name: channel_nodes(channel) for name, channel in before.items()}
    default = graph.default_channel if graph else ""
    after = semver_graph("demo", default, present, members, skip_patch=skip_patch)
    channels = before | {channel.name: channel for channel in after.channels}
    return PackageGraph("demo", after.default_channel, tuple(channels[name] for name in sorted(channels)))


def rows(channel: ChannelGraph) -> list[tuple[str, int, str | None]]:
    entries = channel.entries
    return [(e.name, e.depth, None if e.replaces is None else entries[e.replaces].name) for e in entries]


def present(**targets: str) -> Mapping[str, list[ChannelNode]]:
    """Return a channel alpha of bundles 0.N.0; with ``v3="v2 gone"``, v3 replaces or skips both."""
    bundles = [
        ChannelNode(name, f"0.{name.removeprefix('v')}.0", tuple(text.split())) for name, text in targets.items()
    ]
    return {"alpha": bundles}


numbers = st.integers(0, 3)
versions = st.builds(
    "{}.{}.{}{}".format, numbers, numbers, numbers, st.sampled_from(["", "", "-rc.1", "-rc.2", "-alpha"])
)
members = st.lists(
    st.builds(
        lambda version, channels: member(version, *sorted(channels)),
        versions,
        st.frozensets(st.sampled_from(["alpha", "beta", "gamma"]), min_size=1),
    ),
    unique_by=lambda member: member.version,
    min_size=1,
    max_size=12,
)


@pytest.mark.slow
@given(members, st.randoms(), st.booleans())
def test_order_and_distribution_over_adds_do_not_matter(added: list[Member], random: object, skip_patch: bool) -> None:
    at_once = add(None, added, skip_patch=skip_patch)
    shuffled = sorted(added, key=lambda _: random.random())  # type: ignore[attr-defined]
    cut = random.randrange(len(added) + 1)  # type: ignore[attr-defined]
    graph = add(None, shuffled[:cut], skip_patch=skip_patch) if cut else None
    for new in shuffled[cut:]:
        graph = add(graph, [new], skip_patch=skip_patch)
    assert graph is not None
    assert graph.channels == at_once.channels


@pytest.mark.slow
@given(members, st.booleans())
def test_every_bundle_is_reachable_from_the_highest_version(added: list[Member], skip_patch: bool) -> None:
    graph = add(None, added, skip_patch=skip_patch)
    assert list(pruned_member_errors(graph, added)) == []
    for channel in graph.channels:
        inside = [new for new in added if channel.name in new.channels]
        assert channel.head == max(inside, key=lambda new: precedence(new.version)).name
        reached, walked = {channel.head}, [channel.head]
        for above in walked:
            below = {name for start, name in channel.edges if start == above} - reached
            reached |= below
            walked += below
        assert reached == {new.name for new in inside}


def test_each_version_replaces_the_next_lower_one() -> None:
    (channel,) = add(None, [member("1.0.0"), member("1.1.0-rc.1"), member("1.10.0"), member("1.2.0")]).channels
    assert rows(channel) == [
        ("v1.10.0", 0, "v1.2.0"),
        ("v1.2.0", 1, "v1.1.0-rc.1"),
        ("v1.1.0-rc.1", 2, "v1.0.0"),
        ("v1.0.0", 3, None),
    ]


def test_the_highest_patch_skips_the_others_and_replaces_the_preceding_minor() -> None:
    added = [member(version) for version in ("1.0.0", "1.1.0", "1.1.1", "1.1.2-rc.1", "2.0.0", "0.9.0", "0.9.9")]
    (channel,) = add(None, added, skip_patch=True).channels
    assert rows(channel) == [
        ("v2.0.0", 0, "v1.1.2-rc.1"),
        ("v1.1.2-rc.1", 1, "v1.0.0"),
        *(("v1.1.1", 2, None), ("v1.1.2-rc.1", 2, "v1.1.1")),
        *(("v1.1.0", 3, None), ("v1.1.2-rc.1", 3, "v1.1.0")),
        ("v1.0.0", 2, "v0.9.9"),
        ("v0.9.9", 3, None),
        *(("v0.9.0", 4, None), ("v0.9.9", 4, "v0.9.0")),
    ]


def test_skip_patch_changes_only_channels_with_added_bundles() -> None:
    graph = add(None, [member("1.0.0", "alpha", "beta"), member("1.0.1", "alpha", "beta")])
    after = add(graph, [member("1.0.2", "beta")], skip_patch=True)
    assert after.channels[0] == graph.channels[0]
    assert [node.name for node in after.channels[1].chain] == ["v1.0.2"]


@pytest.mark.parametrize("skip_patch", [False, True])
def test_omits_channels_without_bundles(skip_patch: bool) -> None:
    before = {"empty": [], **present(v1="")}
    graph = semver_graph("demo", "alpha", before, [member("1.0.0")], skip_patch=skip_patch)
    assert [channel.name for channel in graph.channels] == ["alpha"]


def test_only_the_next_higher_bundle_loses_its_other_edges() -> None:
    before = present(v1="", v2="v1 gone", v4="v2 lost")
    (channel,) = semver_graph("demo", "alpha", before, [Member("v3", "0.3.0", ("alpha",), "")]).channels
    assert rows(channel) == [
        ("v4", 0, "v3"),
        ("v3", 1, "v2"),
        ("v2", 2, "v1"),
        *(("gone", 3, None), ("v2", 3, "gone")),
        ("v1", 3, None),
    ]
    skipping = semver_graph("demo", "alpha", before, [Member("v3", "0.3.0", ("alpha",), "")], skip_patch=True)
    assert skipping.channels == (channel,)


@pytest.mark.parametrize(
    ("before", "problem"),
    [
        (present(v1="", v2="v1", v3="v2 v1"), "it lets v3 update from v2 as well as from v1"),
        (present(v1="", v2="v1", v3="v2 v1", v4="v3"), "it lets v3 update from v2 as well as from v1"),
        (present(v1="", v2="", v3="v2"), "it has v1 and v3 as heads"),
        (present(v1="", v2="v2", v3="v1"), "it leads from its head to v3 -> v1 and leaves out v2"),
        (present(v1="v2", v2="v1"), "it has no bundles as heads"),
        (present(v1="v2", v2="v1", v3="v1", v4="v3"), "it has a cycle through v1"),
    ],
)
def test_rejects_channels_that_are_not_a_chain(before: Mapping[str, list[ChannelNode]], problem: str) -> None:
    with pytest.raises(GraphError, match=f"channel alpha of package demo is not a single chain.*{problem}"):
        semver_graph("demo", "alpha", before, [member("9.0.0", "beta")])


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("1.0.0+1", "has the version 1.0.0 .v1.0.0. already, and v1.0.0.1"),
        ("", "bundle v of channel alpha of package demo has no version"),
        ("v1.0.1", "'v1.0.1' is not of the form"),
    ],
)
@pytest.mark.parametrize("skip_patch", [False, True])
def test_rejects_duplicate_and_invalid_versions(version: str, problem: str, skip_patch: bool) -> None:
    graph = add(None, [member("1.0.0"), member("0.9.0")])
    with pytest.raises(GraphError, match=problem):
        add(graph, [member(version)], skip_patch=skip_patch)


def test_reports_every_invalid_channel() -> None:
    graph = add(None, [member("1.0.0", "alpha", "beta")])
    with pytest.raises(MultipleErrors, match=r"channel alpha[^\n]*\n.*channel beta"):
        add(graph, [member("1.0.0+1", "alpha", "beta")])


def test_last_named_default_channel_is_used() -> None:
    graph = add(None, [member("1.0.0", "beta", "alpha")])
    assert graph.default_channel == "alpha"
    graph = add(graph, [member("2.0.0", "gamma", default="gamma"), member("3.0.0")])
    assert graph.default_channel == "gamma"
    assert add(graph, [member("0.1.0", "beta", default="beta")]).default_channel == "beta"


def test_default_channel_must_exist_after_the_add() -> None:
    later = [member("1.0.0", "alpha", default="beta"), member("2.0.0", "beta")]
    assert add(None, later).default_channel == "beta"
    with pytest.raises(GraphError, match=r"v1.0.0 names the default channel beta, .* its channels are: alpha"):
        add(None, later[:1])
    with pytest.raises(GraphError, match="its bundles name none and are in no channel"):
        semver_graph("demo", "", {}, [Member("v1.0.0", "1.0.0", (), "")])


@pytest.fixture
def database(tmp_path: Path) -> Iterator[IndexDatabase]:
    with replace_database(tmp_path / "index.db") as opened:
        yield opened


def entries(database: IndexDatabase) -> list[tuple[object, ...]]:
    return database.connection.execute(
        "SELECT e.channel_name, e.operatorbundle_name, e.depth, r.operatorbundle_name FROM channel_entry e "
        "LEFT JOIN channel_entry r ON r.entry_id = e.replaces ORDER BY 1, 2, 3, 4"
    ).fetchall()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 4, 0, 3, 1)])
def test_databases_do_not_depend_on_the_order_of_adds(
    database: IndexDatabase, tmp_path: Path, mode: str, order: tuple[int, ...]
) -> None:
    versions = [("1.0.0", "a,b"), ("1.0.1", "a,b"), ("1.1.0", "b"), ("1.1.1", "a"), ("2.0.0", "a,b")]
    bundles = [bundle(version, channels=channels) for version, channels in versions]
    add_bundles(database, bundles, AddOptions(UpdateMode(mode)))
    with replace_database(tmp_path / "other.db") as other:
        for position in order:
            add_bundles(other, [bundles[position]], AddOptions(UpdateMode(mode)))
        assert entries(other) == entries(database)
        assert names_with_manifests(other) == names_with_manifests(database) == ["demo.v2.0.0"]


def names_with_manifests(database: IndexDatabase) -> list[str]:
    rows: Iterable[tuple[str]] = database.connection.execute(
        "SELECT name FROM operatorbundle WHERE csv IS NOT NULL AND bundle IS NOT NULL ORDER BY 1"
    )
    return [name for (name,) in rows]


def test_only_heads_and_bundles_without_image_retain_manifests(database: IndexDatabase) -> None:
    add_bundles(database, [bundle("1.0.0", package="old"), bundle("1.1.0", package="old", replaces="old.v1.0.0")])
    add_bundles(database, [bundle("0.1.0", package="kept")])
    add_bundles(database, [bundle("0.2.0", package="kept", replaces="kept.v0.1.0")])
    database.connection.execute("DELETE FROM properties WHERE operatorbundle_name = 'kept.v0.1.0'")
    database.connection.execute("UPDATE operatorbundle SET bundlepath = '' WHERE name = 'kept.v0.1.0'")
    add_bundles(database, [bundle("1.0.0"), bundle("1.1.0")], AddOptions(UpdateMode.SEMVER))
    assert names_with_manifests(database) == ["demo.v1.1.0", "kept.v0.1.0", "kept.v0.2.0", "old.v1.1.0"]


def test_failed_bundle_retains_all_manifests(database: IndexDatabase) -> None:
    add_bundles(database, [bundle("1.0.0"), bundle("1.1.0", replaces="demo.v1.0.0")])
    result = add_bundles(database, [bundle("1.1.0+1")], AddOptions(UpdateMode.SEMVER, permissive=True))
    assert [type(failure) for failure in result.failures] == [GraphError]
    assert names_with_manifests(database) == ["demo.v1.0.0", "demo.v1.1.0", "demo.v1.1.0+1"]
    assert [row[1] for row in entries(database)] == ["demo.v1.0.0", "demo.v1.1.0"]
