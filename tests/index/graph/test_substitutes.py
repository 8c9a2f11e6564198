"""Bundles that substitute others: edges on values, and what the database gets."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from opmkit.index.errors import CatalogError, GraphError
from opmkit.index.graph import Node, substituted_edges
from opmkit.index.operations.add.options import AddOptions
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.rendering.database_catalog import load_catalog
from opmkit.index.sqlite import replace_database
from tests.index.builders import bundle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.bundle import Bundle
    from opmkit.index.sqlite import IndexDatabase


def node(version: str, replaces: str = "", *skips: str, of: str = "") -> Node:
    return Node(f"v{version}", version, replaces, skips, of)


def edges(*added: Node, present: tuple[Node, ...] = ()) -> dict[str, tuple[str, set[str], str]]:
    """What replaces, skips and substitutes what, of the bundles whose edges changed."""
    changed = substituted_edges({each.name: each for each in present}, added)
    return {name: (each.replaces, set(each.skips), each.substitutes_for) for name, each in changed.items()}


BASE = (node("1.0.0"), node("1.1.0", "v1.0.0"))
FIRST, SECOND, THIRD = (node(f"1.1.0+{build}", "v1.0.0", of="v1.1.0") for build in (1, 2, 3))


def test_a_substitute_takes_over_what_replaced_the_bundle_and_skips_it() -> None:
    assert edges(FIRST, present=(*BASE, node("1.2.0", "v1.1.0"))) == {
        "v1.1.0+1": ("v1.0.0", {"v1.1.0"}, "v1.1.0"),
        "v1.2.0": ("v1.1.0+1", set(), ""),
    }


@pytest.mark.parametrize("order", list(permutations((FIRST, SECOND, THIRD))))
def test_substitutes_of_one_bundle_form_a_chain_by_version(order: tuple[Node, ...]) -> None:
    assert edges(*order, present=BASE) == {
        "v1.1.0+1": ("v1.0.0", {"v1.1.0"}, "v1.1.0"),
        "v1.1.0+2": ("v1.0.0", {"v1.1.0", "v1.1.0+1"}, "v1.1.0+1"),
        "v1.1.0+3": ("v1.0.0", {"v1.1.0", "v1.1.0+1", "v1.1.0+2"}, "v1.1.0+2"),
    }


def test_a_bundle_that_comes_after_its_substitute_hands_it_its_skips() -> None:
    changed = edges(node("1.1.0", "v1.0.0", "v1.0.5"), present=(BASE[0], FIRST))
    assert changed == {
        "v1.1.0": ("v1.0.0", {"v1.0.5"}, ""),
        "v1.1.0+1": ("v1.0.0", {"v1.0.5", "v1.1.0"}, "v1.1.0"),
    }


def test_replacing_and_skipping_go_by_the_substitutes() -> None:
    present = (*BASE, FIRST, replace(SECOND, substitutes_for=FIRST.name))
    assert edges(node("1.2.0", "v1.1.0"), present=present) == {"v1.2.0": ("v1.1.0+2", set(), "")}
    assert edges(node("1.2.0", "v1.0.0", "v1.1.0"), present=present) == {
        "v1.2.0": ("v1.0.0", {"v1.1.0", "v1.1.0+1", "v1.1.0+2"}, "")
    }


def test_a_bundle_without_substitutes_keeps_its_edges_but_for_repeats() -> None:
    repeating, plain = node("1.2.0", "v1.0.0", "b", "a", "b"), node("1.2.0", "v1.0.0", "b", "a")
    assert substituted_edges({}, [repeating]) == {"v1.2.0": plain}


def test_an_absent_bundle_can_be_substituted() -> None:
    assert edges(node("1.4.0", of="gone")) == {"v1.4.0": ("", {"gone"}, "gone")}


def test_substitutes_of_one_version_are_refused() -> None:
    with pytest.raises(GraphError, match=r"v1.1.0\+1 and again both substitute v1.1.0 and have the same version"):
        edges(replace(FIRST, name="again"), present=(*BASE, FIRST))


@pytest.mark.parametrize(("first", "second"), [("v1.1.0+2", "v1.1.0+1"), ("v1.1.0+2", "v1.1.0+2")])
def test_substituting_in_a_circle_is_refused(first: str, second: str) -> None:
    with pytest.raises(GraphError, match="substitute each other in a cycle"):
        edges(replace(FIRST, substitutes_for=first), replace(SECOND, substitutes_for=second), present=BASE)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[IndexDatabase]:
    with replace_database(tmp_path / "index.db") as opened:
        add_bundles(opened, [bundle("1.0.0"), bundle("1.1.0", replaces="demo.v1.0.0")])
        yield opened


def substitute(version: str, of: str, **edges: str) -> Bundle:
    made = bundle(version, **edges)  # type: ignore[arg-type]
    return replace(made, csv=replace(made.csv, substitutes_for=of))


def test_the_graph_goes_by_the_columns_and_the_manifests_stay(database: IndexDatabase) -> None:
    added = [
        substitute("1.1.0+1", "demo.v1.1.0", replaces="demo.v1.0.0"),
        bundle("1.2.0", replaces="demo.v1.1.0"),
    ]
    add_bundles(database, added, AddOptions(enable_alpha=True))
    channel = load_catalog(database).packages["demo"].channels["alpha"]
    assert {name: entry.replaces for name, entry in channel.entries.items()} == {
        "demo.v1.2.0": "demo.v1.1.0+1",
        "demo.v1.1.0+1": "demo.v1.0.0",
        "demo.v1.1.0": "",
        "demo.v1.0.0": "",
    }
    assert set(channel.entries["demo.v1.1.0+1"].skips) == {"demo.v1.1.0"}
    row = database.connection.execute(
        "SELECT replaces, CAST(csv AS TEXT) FROM operatorbundle WHERE name = 'demo.v1.2.0'"
    ).fetchone()
    assert row[0] == "demo.v1.1.0+1"
    assert '"replaces":"demo.v1.1.0"' in row[1]


def test_a_cycle_fails_the_add(database: IndexDatabase) -> None:
    before = list(database.connection.iterdump())
    cycle = [substitute("1.1.0+1", "demo.v1.1.0+2"), substitute("1.1.0+2", "demo.v1.1.0+1")]
    with pytest.raises(CatalogError, match="cycle"):
        add_bundles(database, cycle, AddOptions(enable_alpha=True))
    assert list(database.connection.iterdump()) == before
