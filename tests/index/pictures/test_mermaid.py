"""Mermaid graphs."""

from __future__ import annotations

import re

import pytest

from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.blobs import Blobs, BundleBlob, ChannelBlob, EntryBlob, PackageBlob
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.pictures.mermaid import render_mermaid
from opmkit.index.pictures.view import GraphFilter

from .samples import REEF, bundle, channel, entry, hostile_catalog

V0, V1, V2 = (f'reef-stable-reef.v1.{minor}.0["reef.v1.{minor}.0"]' for minor in range(3))


def test_deprecations_and_with_v0_semantics_unused_edges_are_marked() -> None:
    assert render_mermaid(REEF, v0_semantics=True).text.splitlines() == [
        "graph LR",
        "  classDef deprecated fill:#E8960F",
        "  classDef skipped stroke:#FF0000,stroke-width:4px",
        "  classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px",
        '  %% package "reef"',
        '  subgraph "reef"',
        '    %% channel "stable"',
        '    subgraph reef-stable["stable"]',
        f"      {V2}",
        f"      {V1}-- skip --> {V2}",
        f'      {V0}-- "skipRange(>=1.0.0 <1.1.0)" --> {V2}',
        f"      {V1}-- replace --> {V2}",
        f"      {V1}",
        f"      {V0}-- replace --> {V1}",
        f"      {V0}",
        "    end",
        "  end",
        "style reef fill:#989695",
        "style reef-stable fill:#DCD0FF",
        "class reef-stable-reef.v1.0.0 deprecated",
        "class reef-stable-reef.v1.1.0 deprecatedskipped",
        "linkStyle 3 stroke:#FF0000,stroke-width:3px,stroke-dasharray:5;",
    ]


def test_opm_1_26_draws_entries_in_catalog_order() -> None:
    lines = render_mermaid(REEF, compat=CatalogCompat.OPM_1_26).text.splitlines()
    assert lines[5:] == [
        f"      {V0}",
        f"      {V1}",
        f"      {V0}-- replace --> {V1}",
        f"      {V2}",
        f"      {V1}-- replace --> {V2}",
        f"      {V1}-- skip --> {V2}",
        f'      {V0}-- "skipRange(>=1.0.0 <1.1.0)" --> {V2}',
        "    end",
        "  end",
    ]


def test_deprecations_affect_only_their_package() -> None:
    other = Blobs(
        (PackageBlob("lagoon", "stable"),),
        (ChannelBlob("stable", "lagoon", (EntryBlob("reef.v1.0.0"), EntryBlob("l.v2.0.0", "", ("l.v1.0.0",)))),),
        (bundle("2.0.0", "lagoon", "l.v2.0.0"),),
    )
    text = render_mermaid(REEF + other, v0_semantics=True).text
    assert "class reef-stable-reef.v1.0.0 deprecated" in text
    assert "style lagoon" not in text
    assert text.count("style reef") == 2
    assert "linkStyle 4 " in text  # the edge of the other package has number 0


def test_minimum_removes_edges_from_lower_versions() -> None:
    text = render_mermaid(REEF, GraphFilter(minimum="reef.v1.1.0")).text
    assert f"      {V1}\n" in text
    assert f"{V1}-- skip --> {V2}" in text
    assert "v1.0.0" not in text
    assert "skipRange" not in text
    assert "subgraph" not in render_mermaid(REEF, GraphFilter(package="none")).text
    with pytest.raises(CatalogError, match=r'bundle "reef\.v9" not found'):
        render_mermaid(REEF, GraphFilter(minimum="reef.v9"))


def test_invalid_skip_ranges_are_warnings_and_invalid_versions_are_errors() -> None:
    blobs = Blobs(channels=(channel(entry("1.0.0", skip_range="<1")),), bundles=(bundle("1.0.0"),))
    (warning,) = render_mermaid(blobs).warnings
    assert warning.startswith('package "reef", channel "stable", bundle "reef.v1.0.0": invalid skipRange "<1": ')
    with pytest.raises(InvalidCatalog, match=r'bundle "x": invalid version(.|\n)*bundle "y"'):
        render_mermaid(Blobs(bundles=(bundle("1.0", name="x"), BundleBlob("y", "reef"))))


def test_hostile_names_stay_within_labels_and_identifiers() -> None:
    valid_line = re.compile(
        r'graph LR|  classDef .*|  (%% package|subgraph) "[^"]*"|    %% channel "[^"]*"'
        r'|    subgraph [\w.+~:@/-]+\["[^"]*"\]'
        r'|      [\w.+~:@/-]+\["[^"]*"\](:::deprecated|-- (skip|replace|"[^"]*") --> [\w.+~:@/-]+\["[^"]*"\])?'
        r"|  (  )?end"
        r"|style [\w.+~:@/-]+ fill:\S+|class [\w.+~:@,/-]+ \w+"
    )
    for compat in map(CatalogCompat.parse, ("1.26", "1.47", "newest")):
        text = render_mermaid(hostile_catalog(), compat=compat).text
        assert [line for line in text.splitlines() if not valid_line.fullmatch(line)] == []
        assert "script>" in text
        assert "<script" not in text
        assert "</script" not in text
        assert "<img" not in text
        assert "`" not in text


def test_names_are_neither_directives_nor_commands() -> None:
    name = "::error::%%{init: {'theme': 'dark'}}%%"
    entries = (EntryBlob(name),)
    blobs = Blobs(
        (PackageBlob(name),), (ChannelBlob(name, name, entries),), (bundle("1.0.0", name=name, package=name),)
    )
    for compat in map(CatalogCompat.parse, ("1.26", "newest")):
        lines = render_mermaid(blobs, compat=compat).text.splitlines()
        assert not [line for line in lines if line.lstrip().startswith("::") or "%%{" in line or "}%%" in line]
