"""Tests of olm.substitutesFor: edges as values and in databases."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from opmkit.index.convert.database_blobs import load_catalog
from opmkit.index.errors import CatalogError, GraphError
from opmkit.index.graph import Node, substituted_edges
from opmkit.index.operations.add.options import AddOptions
from opmkit.index.operations.add.sqlite import add_bundles
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
    """Return the replaces, skips and substitutes_for of the changed bundles."""
    changed = substituted_edges({node.name: node for node in present}, added)
    return {name: (node.replaces, set(node.skips), node.substitutes_for) for name, node in changed.items()}


BASE = (node("1.0.0"), node("1.1.0", "v1.0.0"))
FIRST, SECOND, THIRD = (node(f"1.1.0+{build}", "v1.0.0", of="v1.1.0") for build in (1, 2, 3))


def test_substitute_replaces_the_bundle_in_its_updates_and_skips_it() -> None:
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


def test_substitute_skips_the_skips_of_a_bundle_added_later() -> None:
    changed = edges(node("1.1.0", "v1.0.0", "v1.0.5"), present=(BASE[0], FIRST))
    assert changed == {
        "v1.1.0": ("v1.0.0", {"v1.0.5"}, ""),
        "v1.1.0+1": ("v1.0.0", {"v1.0.5", "v1.1.0"}, "v1.1.0"),
    }


def test_replaced_and_skipped_bundles_are_resolved_to_their_substitutes() -> None:
    present = (*BASE, FIRST, replace(SECOND, substitutes_for=FIRST.name))
    assert edges(node("1.2.0", "v1.1.0"), present=present) == {"v1.2.0": ("v1.1.0+2", set(), "")}
    assert edges(node("1.2.0", "v1.0.0", "v1.1.0"), present=present) == {
        "v1.2.0": ("v1.0.0", {"v1.1.0", "v1.1.0+1", "v1.1.0+2"}, "")
    }


def test_duplicate_skips_are_removed() -> None:
    repeating, plain = node("1.2.0", "v1.0.0", "b", "a", "b"), node("1.2.0", "v1.0.0", "b", "a")
    assert substituted_edges({}, [repeating]) == {"v1.2.0": plain}


def test_missing_bundle_can_be_substituted() -> None:
    assert edges(node("1.4.0", of="gone")) == {"v1.4.0": ("", {"gone"}, "gone")}


def test_rejects_substitutes_with_equal_versions() -> None:
    with pytest.raises(GraphError, match=r"v1.1.0\+1 and again both substitute v1.1.0 and have the same version"):
        edges(replace(FIRST, name="again"), present=(*BASE, FIRST))


@pytest.mark.parametrize(("first", "second"), [("v1.1.0+2", "v1.1.0+1"), ("v1.1.0+2", "v1.1.0+2")])
def test_rejects_cycles(first: str, second: str) -> None:
    with pytest.raises(GraphError, match="substitute each other in a cycle"):
        edges(replace(FIRST, substitutes_for=first), replace(SECOND, substitutes_for=second), present=BASE)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[IndexDatabase]:
    with replace_database(tmp_path / "index.db") as opened:
        add_bundles(opened, [bundle("1.0.0"), bundle("1.1.0", replaces="demo.v1.0.0")])
        yield opened


def substitute(version: str, of: str, **edges: str) -> Bundle:
    parsed = bundle(version, **edges)  # type: ignore[arg-type]
    return replace(parsed, csv=replace(parsed.csv, substitutes_for=of))


def test_database_has_changed_edges_and_unchanged_manifests(database: IndexDatabase) -> None:
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


def test_add_rejects_cycles(database: IndexDatabase) -> None:
    before = list(database.connection.iterdump())
    cycle = [substitute("1.1.0+1", "demo.v1.1.0+2"), substitute("1.1.0+2", "demo.v1.1.0+1")]
    with pytest.raises(CatalogError, match="cycle"):
        add_bundles(database, cycle, AddOptions(enable_alpha=True))
    assert list(database.connection.iterdump()) == before
