"""SVG drawings."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import Blobs
from opmkit.index.pictures import svg
from opmkit.index.pictures.problems import package_problems
from opmkit.index.pictures.svg import render_svg
from opmkit.index.pictures.view import package_views

from .samples import REEF, channel, entry, hostile_catalog

if TYPE_CHECKING:
    from collections.abc import Iterator


def attributes(root: ElementTree.Element) -> Iterator[str]:
    return (name for element in root.iter() for name in element.attrib)


def test_drawing_is_well_formed_and_names_are_text() -> None:
    root = ElementTree.fromstring(render_svg(package_views(hostile_catalog()), {}))
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert names == {"svg", "title", "style", "g", "text", "tspan", "circle", "path"}
    assert not [name for name in attributes(root) if name.startswith("on") or "href" in name]
    assert any("alert(1)" in (element.text or "") for element in root.iter())


def test_labels_mention_deprecations_skips_and_bundles_outside_the_channel() -> None:
    text = render_svg(package_views(REEF + Blobs(channels=(channel(entry("1.2.0", "0.1.0"), name="beta"),))), {})
    assert "reef / stable (default)" in text
    assert "deprecated: Old., skipped by reef.v1.2.0" in text
    assert '<tspan class="problem">does not exist</tspan>' in text
    assert 'class="replaces missing"' in text
    assert "skip range &gt;=1.0.0 &lt;1.1.0" in text


def test_edges_of_cycles_are_marked() -> None:
    edges = (entry("1.0.0", "1.1.0"), entry("1.1.0", "1.0.0", ["1.1.0"]), entry("1.2.0", "1.1.0"))
    root = ElementTree.fromstring(
        render_svg(package_views(Blobs(bundles=REEF.bundles, channels=(channel(*edges),))), {})
    )
    classes = [element.get("class") for element in root.iter() if element.tag.endswith("path")]
    assert sorted(filter(None, classes)) == ["replaces", "replaces cycle", "replaces cycle", "skips", "skips cycle"]
    assert ElementTree.tostring(root, encoding="unicode").count("in a cycle") == 2


def test_bundles_with_problems_are_red_with_a_remark() -> None:
    heads = Blobs(channels=(channel(entry("1.0.0"), entry("1.1.0", "1.0.0"), entry("1.2.0", "1.0.0"), entry("2.0.0")),))
    packages = package_views(heads)
    root = ElementTree.fromstring(render_svg(packages, package_problems(heads, packages)))
    rows = [group for group in root.iter() if group.find("{*}circle") is not None]
    marked = {
        row.findtext("{*}title"): row.findtext("{*}text/{*}tspan[@class='problem']")
        for row in rows
        if "problem" in row.find("{*}circle").get("class", "")  # type: ignore[union-attr]
    }
    assert {name for name, remark in marked.items() if "head" in str(remark)} == {
        "reef.v1.1.0",
        "reef.v1.2.0",
        "reef.v2.0.0",
    }


def test_number_of_rows_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svg, "MAX_ROWS", 1)
    with pytest.raises(CatalogError, match="more than 1 bundles"):
        render_svg(package_views(REEF), {})
