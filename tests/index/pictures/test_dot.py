"""Graphviz graphs."""

from __future__ import annotations

import re

import pytest

from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import Blobs
from opmkit.index.pictures import dot
from opmkit.index.pictures.dot import render_dot
from opmkit.index.pictures.problems import package_problems
from opmkit.index.pictures.view import package_views

from .samples import REEF, channel, entry, hostile_catalog


def test_hostile_names_stay_within_strings() -> None:
    text = render_dot(package_views(hostile_catalog()), {})
    without_strings = re.sub(r'"(?:[^"\\\n]|\\.)*"', "STRING", text)
    assert '"' not in without_strings
    assert "script" not in without_strings
    assert text.count("{") - text.count("%%{") == 3
    assert re.search(r"c1_\d+ -> c1_\d+( \[color=red\])?;", without_strings)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ('a"]; evil ["', '"a\\"]; evil [\\""'),
        ("a\\", '"a\\\\"'),
        ("a\nb\\N", '"a\\\\nb\\\\N"'),
        ("<b>a|{b}</b>", '"<b>a|{b}</b>"'),
        ("&#27;\x1b\u202e", '"&amp;#27;\\\\x1b\\\\u202e"'),
    ],
)
def test_labels_show_names_literally(name: str, label: str) -> None:
    assert dot._quote(name) == label


def test_each_edge_is_drawn_once_by_its_type() -> None:
    text = render_dot(package_views(REEF), {})
    nodes = dict(re.findall(r'(c1_\d) \[label="reef\.v([\d.]+)"', text))
    edges = {
        (nodes[start], nodes[end]): attributes
        for start, end, attributes in re.findall(r"(c1_\d) -> (c1_\d)(.*);", text)
    }
    assert edges == {
        ("1.0.0", "1.1.0"): "",
        ("1.1.0", "1.2.0"): "",
        ("1.0.0", "1.2.0"): ' [style=dotted, label="skip range"]',
    }
    assert 'label="stable (default)"' in text


def test_edges_of_cycles_are_red() -> None:
    edges = (entry("1.0.0", "1.1.0"), entry("1.1.0", "1.0.0"), entry("1.2.0", "1.1.0"))
    text = render_dot(package_views(Blobs(bundles=REEF.bundles, channels=(channel(*edges),))), {})
    assert len(re.findall(r"->.*;", text)) == 3
    assert len(re.findall(r"->.*\[color=red\];", text)) == 2


def test_number_of_edges_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dot, "MAX_EDGES", 1)
    with pytest.raises(CatalogError, match="more than 1 edges"):
        render_dot(package_views(REEF), {})


def test_bundles_with_problems_are_red() -> None:
    blobs = Blobs(channels=(channel(entry("1.1.0", "1.0.0")),))
    packages = package_views(blobs)
    text = render_dot(packages, package_problems(blobs, packages))
    (node,) = [line for line in text.splitlines() if '"reef.v1.0.0"' in line]
    assert "style=dashed, color=red, fontcolor=red" in node
    assert 'tooltip="does not exist, replaced by reef.v1.1.0"' in node
    assert re.findall(r"->.*;", text) == ["-> c1_0 [color=red];"]
