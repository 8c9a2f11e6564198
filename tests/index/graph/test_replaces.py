"""Tests of the selection of heads and default channels, and of graphs in the mode replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.index.errors import GraphError, MultipleErrors
from opmkit.index.graph import (
    Member,
    Node,
    check_name_owners,
    claim_names,
    precedence,
    pruned_member_errors,
    replaces_graph,
    select_heads,
)

if TYPE_CHECKING:
    from opmkit.index.graph import PackageGraph


def node(name: str, replaces: str = "", *skips: str) -> Node:
    """Return a bundle; ``v12`` has the version 0.12.0."""
    return Node(name, f"0.{name.removeprefix('v')}.0", replaces, skips)


def graph(*bundles: Node, channels: tuple[str, ...] = ("alpha",), deprecated: tuple[str, ...] = ()) -> PackageGraph:
    members = [Member(bundle.name, bundle.version, channels, "alpha") for bundle in bundles]
    return replaces_graph("demo", members, {bundle.name: bundle for bundle in bundles}, frozenset(deprecated))


def rows(result: PackageGraph) -> list[tuple[str, int, str | None]]:
    entries = result.channels[0].entries
    return [(e.name, e.depth, None if e.replaces is None else entries[e.replaces].name) for e in entries]


def test_skips_have_their_own_depths_before_the_replaced_bundle() -> None:
    result = graph(node("v1"), node("v2", "v1"), node("v4", "v2", "v3", "gone"))
    assert rows(result) == [
        ("v4", 0, "v2"),
        *(("v3", 1, None), ("v4", 1, "v3")),
        *(("gone", 2, None), ("v4", 2, "gone")),
        ("v2", 3, "v1"),
        ("v1", 4, None),
    ]
    assert [bundle.name for bundle in result.channels[0].chain] == ["v4", "v2", "v1"]


def test_chain_ends_at_a_deprecated_bundle() -> None:
    assert rows(graph(node("v1"), node("v2", "v1", "x"), node("v3", "v2"), deprecated=("v2",))) == [
        ("v3", 0, "v2"),
        ("v2", 1, None),
    ]


def test_rejects_default_channel_with_deprecated_head() -> None:
    with pytest.raises(GraphError, match="default channel alpha of package demo is headed by the deprecated bundle v1"):
        graph(node("v1"), deprecated=("v1",))


def test_omits_channel_with_deprecated_head() -> None:
    members = [Member("v1", "0.1.0", ("old",), ""), Member("v2", "0.2.0", ("alpha",), "alpha")]
    nodes = {"v1": node("v1"), "v2": node("v2")}
    assert [c.name for c in replaces_graph("demo", members, nodes, frozenset({"v1"})).channels] == ["alpha"]


def test_error_for_a_cycle_shows_the_chain() -> None:
    with pytest.raises(GraphError, match="cycle: v2 -> v1 -> v2") as failure:
        graph(node("v1", "v2"), node("v2", "v1"), node("v3", "v2"))
    assert "v1 replacing v2 closes the cycle" in str(failure.value.hint)


def test_rejects_bundle_that_replaces_itself() -> None:
    with pytest.raises(GraphError, match="cycle: v1 -> v1"):
        graph(node("v1", "v1"))


def test_error_for_a_missing_bundle_shows_the_chain() -> None:
    with pytest.raises(GraphError, match=r"alpha of package demo: v2 replaces v1.*v3 -> v2 -> v1") as failure:
        graph(node("v2", "v1"), node("v3", "v2"))
    assert str(failure.value.hint).startswith("add v1 before")


def test_reports_every_invalid_channel() -> None:
    with pytest.raises(MultipleErrors) as failure:
        graph(node("v2", "v1"), channels=("alpha", "beta"))
    assert len(failure.value.errors) == 2
    assert failure.value.exit_code == 1


@pytest.mark.parametrize(
    ("members", "heads", "default"),
    [
        ([("v1", "0.1.0", "a", ""), ("v2", "0.2.0", "a", "")], {"a": "v2"}, "a"),
        ([("v1", "0.1.0", "a,b", "b"), ("v2", "0.2.0", "a", "")], {"a": "v2", "b": "v1"}, "b"),
        ([("v1", "1.0.0+1", "a", ""), ("v2", "1.0.0", "a", "")], {"a": "v1"}, "a"),
        ([("v1", "", "a", ""), ("v2", "0.0.0", "a", "")], {"a": "v2"}, "a"),
        # only a higher version changes the default channel
        ([("v3", "0.3.0", "a", "a"), ("v2", "0.2.0", "b", "b")], {"a": "v3", "b": "v2"}, "a"),
        ([("v3", "0.3.0", "a", "a"), ("v4", "0.4.0", "b", "b")], {"a": "v3", "b": "v4"}, "b"),
    ],
)
def test_selects_heads_and_default_channel(
    members: list[tuple[str, str, str, str]], heads: dict[str, str], default: str
) -> None:
    selected = select_heads("demo", [Member(n, v, tuple(c.split(",")), d) for n, v, c, d in members])
    assert (dict(selected.by_channel), selected.default_channel) == (heads, default)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("v1", "0.1.0", "a,b", "")], "no default channel: no bundle names one; its channels are: a"),
        ([("v1", "0.1.0", "a", "b")], "no default channel: the bundles name b, which no bundle is in"),
        ([("v1", "0.1.0", "a", ""), ("w1", "0.1.0", "b", "")], "more than one bundle with its highest version"),
        ([("v1", "0.1.0", "a", ""), ("w1", "0.1.0", "a", ""), ("v2", "0.2.0", "b", "b")], "channel a of package demo"),
        (
            [("v1", "v0.1.0", "a", "")],
            "bundle v1 of package demo: cannot compare versions: 'v0.1.0' is not",
        ),
    ],
)
def test_rejects_packages_without_heads_or_default_channel(
    members: list[tuple[str, str, str, str]], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        select_heads("demo", [Member(n, v, tuple(c.split(",")), d) for n, v, c, d in members])


def test_hint_for_a_package_without_channels() -> None:
    with pytest.raises(GraphError) as failure:
        select_heads("demo", [Member("v1", "0.1.0", (), "")])
    assert str(failure.value.hint) == "set at least one channel in the annotations of the bundle"


def test_bundle_without_an_edge_from_the_head_is_pruned() -> None:
    result = graph(node("v1"), node("v2"))
    (error,) = pruned_member_errors(
        result, [Member("v1", "0.1.0", ("alpha",), ""), Member("v2", "0.2.0", ("alpha",), "")]
    )
    assert error.message.startswith("add prunes bundle v1 from package demo, channel alpha, whose head is v2")


def test_skipped_bundle_is_not_pruned() -> None:
    result = graph(node("v1"), node("v2", "", "v1"))
    assert list(pruned_member_errors(result, [Member("v1", "0.1.0", ("alpha",), "")])) == []


def test_rejects_head_that_another_bundle_skips() -> None:
    errors = list(pruned_member_errors(graph(node("v1", "", "v2"), node("v2", "v1")), []))
    assert [error.message.partition(":")[0] for error in errors] == ["channel alpha of package demo has no head"]


def test_rejects_names_of_another_package() -> None:
    claims = claim_names([("a", node("v2", "v1", "v0"))])
    assert claims == {"v0": "a", "v1": "a", "v2": "a"}
    check_name_owners(claims, [("v1", "a"), ("other", "b")])
    with pytest.raises(GraphError, match="v1 belongs to package b"):
        check_name_owners(claims, [("v1", "b")])
    with pytest.raises(GraphError, match="bundles of a and of b name it"):
        claim_names([("a", node("v1")), ("b", node("v2", "v1"))])


@st.composite
def chains(draw: st.DrawFn) -> list[Node]:
    """Generate bundles that each replace an older one or none, and skip any others."""
    size = draw(st.integers(1, 8))
    names = [f"v{number}" for number in range(size)]
    return [
        node(
            name,
            draw(st.sampled_from(["", *names[:number]])),
            *draw(st.lists(st.sampled_from([*names[:number], "gone"]), max_size=3)),
        )
        for number, name in enumerate(names)
    ]


@given(chains())
def test_random_channels_are_chains_from_the_highest_version(bundles: list[Node]) -> None:
    channel = graph(*bundles).channels[0]
    assert channel.head == max(bundles, key=lambda bundle: precedence(bundle.version)).name
    by_name = {bundle.name: bundle for bundle in bundles}
    assert [(a.name, b.name) for a, b in zip(channel.chain, channel.chain[1:], strict=False)] == [
        (bundle.name, bundle.replaces) for bundle in channel.chain[:-1]
    ]
    assert channel.chain[-1].replaces == ""
    assert channel.edges == {(bundle.name, target) for bundle in channel.chain for target in bundle.targets}
    # each depth has one bundle of the chain, or a skipped bundle and the one that skips it
    depths = [entry.depth for entry in channel.entries]
    assert sorted(set(depths)) == list(range(len(channel.chain) + sum(len(b.skips) for b in channel.chain)))
    assert all(entry.name in by_name or entry.name == "gone" for entry in channel.entries)


@given(chains(), st.permutations(range(8)))
def test_order_of_members_does_not_matter(bundles: list[Node], order: list[int]) -> None:
    shuffled = [bundles[index] for index in order if index < len(bundles)]
    assert graph(*shuffled) == graph(*bundles)
