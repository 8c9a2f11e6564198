"""Drawings of update graphs: mermaid and DOT text, the layout of channels, SVG, and the data of the page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from opmkit.bundle.versions import strict_version, version_key
from opmkit.index.drawing import dot as dots
from opmkit.index.drawing import page as pages
from opmkit.index.drawing import svg as svgs
from opmkit.index.drawing.dot import render_dot
from opmkit.index.drawing.filter import GraphFilter
from opmkit.index.drawing.layout import MAX_LANES, EdgeType, layout_channel, layout_edges
from opmkit.index.drawing.mermaid import render_mermaid
from opmkit.index.drawing.page import package_problems, render_page
from opmkit.index.drawing.svg import render_svg
from opmkit.index.drawing.view import package_views
from opmkit.index.errors import CatalogError, InvalidCatalog, UnknownPackage
from opmkit.index.fbc.blobs import (
    BlobProperty,
    Blobs,
    BundleBlob,
    ChannelBlob,
    Deprecation,
    DeprecationsBlob,
    EntryBlob,
    PackageBlob,
    RelatedImage,
)
from opmkit.index.fbc.compat import Compat

if TYPE_CHECKING:
    from collections.abc import Iterable

HOSTILE = '</script><script>alert(1)</script>"]; evil[" `**x**` #quot; %%{init}%% &amp; \\ \n\u2028 \ud800'
OPERATOR = f"quay.io/example/op@sha256:{0:064x}"
SCRIPTS = re.compile(r'<script type="application/json" id="([\w-]+)">(.*?)</script>', re.DOTALL)


def bundle(version: str, package: str = "reef", name: str = "") -> BundleBlob:
    properties = (BlobProperty("olm.package", {"packageName": package, "version": version}),)
    images = (RelatedImage("op", OPERATOR),)
    return BundleBlob(name or f"{package}.v{version}", package, f"quay.io/example/{package}:1", properties, images)


def channel(*entries: EntryBlob, name: str = "stable", package: str = "reef") -> ChannelBlob:
    return ChannelBlob(name, package, entries)


def entry(version: str, replaces: str = "", skips: Iterable[str] = (), skip_range: str = "") -> EntryBlob:
    names = tuple(f"reef.v{skip}" for skip in skips)
    return EntryBlob(f"reef.v{version}", f"reef.v{replaces}" if replaces else "", names, skip_range)


def deprecations(package: str, *named: tuple[str, str]) -> DeprecationsBlob:
    return DeprecationsBlob(package, tuple(Deprecation(f"olm.{kind}", name, "Old.") for kind, name in named))


REEF = Blobs(
    (PackageBlob("reef", "stable"),),
    (channel(entry("1.0.0"), entry("1.1.0", "1.0.0"), entry("1.2.0", "1.1.0", ["1.1.0"], ">=1.0.0 <1.1.0")),),
    tuple(map(bundle, ("1.0.0", "1.1.0", "1.2.0"))),
    (
        deprecations(
            "reef", ("package", ""), ("channel", "stable"), ("bundle", "reef.v1.0.0"), ("bundle", "reef.v1.1.0")
        ),
    ),
)
V0, V1, V2 = (f'reef-stable-reef.v1.{minor}.0["reef.v1.{minor}.0"]' for minor in range(3))


def test_mermaid_marks_deprecations_and_on_request_what_is_never_taken() -> None:
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


def test_mermaid_of_the_older_dialect_has_the_order_of_the_catalog() -> None:
    lines = render_mermaid(REEF, compat=Compat.OPM_1_26).text.splitlines()
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


def test_deprecations_of_one_package_mark_nothing_of_another() -> None:
    other = Blobs(
        (PackageBlob("lagoon", "stable"),),
        (ChannelBlob("stable", "lagoon", (EntryBlob("reef.v1.0.0"), EntryBlob("l.v2.0.0", "", ("l.v1.0.0",)))),),
        (bundle("2.0.0", "lagoon", "l.v2.0.0"),),
    )
    text = render_mermaid(REEF + other, v0_semantics=True).text
    assert "class reef-stable-reef.v1.0.0 deprecated" in text
    assert "style lagoon" not in text
    assert text.count("style reef") == 2
    assert "linkStyle 4 " in text  # the arrow of the other package comes first


def test_the_minimum_leaves_out_what_leads_to_lower_versions() -> None:
    text = render_mermaid(REEF, GraphFilter(minimum="reef.v1.1.0")).text
    assert f"      {V1}\n" in text
    assert f"{V1}-- skip --> {V2}" in text
    assert "v1.0.0" not in text
    assert "skipRange" not in text
    assert "subgraph" not in render_mermaid(REEF, GraphFilter(package="none")).text
    with pytest.raises(CatalogError, match=r'no bundle "reef\.v9" to begin at'):
        render_mermaid(REEF, GraphFilter(minimum="reef.v9"))


def test_bad_skip_ranges_are_warned_of_and_bundles_without_a_version_are_refused() -> None:
    blobs = Blobs(channels=(channel(entry("1.0.0", skip_range="<1")),), bundles=(bundle("1.0.0"),))
    (warning,) = render_mermaid(blobs).warnings
    assert "the skip range '<1' of 'reef.v1.0.0', channel 'stable' of package 'reef', is none" in warning
    with pytest.raises(InvalidCatalog, match=r'bundle "x": invalid version(.|\n)*bundle "y"'):
        render_mermaid(Blobs(bundles=(bundle("1.0", name="x"), BundleBlob("y", "reef"))))


def hostile() -> Blobs:
    """A catalog all of whose texts try to be something else."""
    found = f"{HOSTILE}1"
    entries = (EntryBlob(found, HOSTILE, (f"{HOSTILE}2",), ">=0.0.0 <imgx1.x"), EntryBlob("b.v1.0.0"))
    return Blobs(
        (PackageBlob(HOSTILE, HOSTILE, None, HOSTILE),),
        (ChannelBlob(HOSTILE, HOSTILE, entries),),
        (bundle("1.0.0", HOSTILE, found), bundle("1.5.0", HOSTILE, "b.v1.0.0")),
        (
            DeprecationsBlob(
                HOSTILE, (Deprecation("olm.bundle", found, HOSTILE), Deprecation("olm.package", "", HOSTILE))
            ),
        ),
    )


def test_no_name_ends_a_label_or_an_identifier_of_mermaid() -> None:
    line = re.compile(
        r'graph LR|  classDef .*|  (%% package|subgraph) "[^"]*"|    %% channel "[^"]*"'
        r'|    subgraph [\w.+~:@/-]+\["[^"]*"\]'
        r'|      [\w.+~:@/-]+\["[^"]*"\](-- (skip|replace|"[^"]*") --> [\w.+~:@/-]+\["[^"]*"\])?|  (  )?end'
        r"|style [\w.+~:@/-]+ fill:\S+|class [\w.+~:@,/-]+ \w+"
    )
    for compat in Compat:
        text = render_mermaid(hostile(), compat=compat).text
        assert [one for one in text.splitlines() if not line.fullmatch(one)] == []
        assert "script>" in text
        assert "<script" not in text
        assert "</script" not in text
        assert "<img" not in text
        assert "`" not in text


def test_no_name_ends_a_string_of_dot() -> None:
    text = render_dot(package_views(hostile()))
    bare = re.sub(r'"(?:[^"\\\n]|\\.)*"', "TEXT", text)
    assert '"' not in bare
    assert "script" not in bare
    assert text.count("{") - text.count("%%{") == 3
    assert re.search(r"c1_\d+ -> c1_\d+;", bare)


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
def test_dot_labels_show_names_as_they_are(name: str, label: str) -> None:
    assert dots._quoted(name) == label


def test_dot_has_each_update_once_by_what_it_is_for() -> None:
    text = render_dot(package_views(REEF))
    nodes = dict(re.findall(r'(c1_\d) \[label="reef\.v([\d.]+)"', text))
    found = {(nodes[a], nodes[b]): more for a, b, more in re.findall(r"(c1_\d) -> (c1_\d)(.*);", text)}
    assert found == {
        ("1.0.0", "1.1.0"): "",
        ("1.1.0", "1.2.0"): "",
        ("1.0.0", "1.2.0"): ' [style=dotted, label="skip range"]',
    }
    assert 'label="stable (default)"' in text


def test_drawings_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dots, "MAX_UPDATES", 1)
    monkeypatch.setattr(svgs, "MAX_ROWS", 1)
    monkeypatch.setattr(pages, "MAX_PAGE", 100)
    packages = package_views(REEF)
    for draw in (render_dot, render_svg, lambda found: render_page("x", found, {})):
        with pytest.raises(CatalogError, match="more than 1"):
            draw(packages)


def rows(*entries: EntryBlob) -> list[tuple[str, int]]:
    keys = {one.name: version_key(strict_version(one.name.removeprefix("reef.v"))) for one in entries}
    return [(row.name.removeprefix("reef.v"), row.lane) for row in layout_channel(channel(*entries), keys).rows]


def test_a_chain_of_updates_keeps_to_its_lane_and_patches_that_are_skipped_stand_beside_it() -> None:
    assert rows(
        entry("1.0.0"),
        entry("1.1.0", "1.0.0"),
        entry("1.1.1", "1.0.0", ["1.1.0"]),
        entry("1.2.0", "1.1.1"),
        entry("0.9.0"),
    ) == [("1.2.0", 0), ("1.1.1", 0), ("1.1.0", 1), ("1.0.0", 0), ("0.9.0", 0)]


def test_a_bundle_is_above_what_it_replaces_and_skips_whatever_their_versions() -> None:
    assert [name for name, _ in rows(entry("2.0.0"), entry("1.0.0", "2.0.0"), entry("0.1.0", "", ["1.0.0"]))] == [
        "0.1.0",
        "1.0.0",
        "2.0.0",
    ]


def test_cycles_are_cut_and_what_is_only_named_stands_at_the_bottom() -> None:
    found = layout_channel(channel(entry("1.0.0", "2.0.0"), entry("2.0.0", "1.0.0"), entry("3.0.0", "0.5.0")), {})
    assert sorted(row.name for row in found.rows) == ["reef.v0.5.0", "reef.v1.0.0", "reef.v2.0.0", "reef.v3.0.0"]
    assert [row.name for row in found.rows if not row.is_entry] == ["reef.v0.5.0"]
    assert {kind for *_, kind in layout_edges(found)} == {EdgeType.REPLACES}
    assert len(list(layout_edges(found))) == 3


def test_there_are_never_more_lanes_than_fit() -> None:
    entries = [entry(f"1.{number}.0", "0.1.0") for number in range(100)]
    assert max(row.lanes for row in layout_channel(channel(*entries), {}).rows) == MAX_LANES


def test_svg_is_well_formed_and_shows_names_as_text_alone() -> None:
    root = ElementTree.fromstring(render_svg(package_views(hostile())))
    kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert kinds == {"svg", "title", "style", "g", "text", "tspan", "circle", "path"}
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on") or "href" in name]
    assert any("alert(1)" in (element.text or "") for element in root.iter())


def test_svg_tells_what_is_deprecated_skipped_and_not_there() -> None:
    text = render_svg(package_views(REEF + Blobs(channels=(channel(entry("1.2.0", "0.1.0"), name="beta"),))))
    assert "reef / stable (default)" in text
    assert "deprecated: Old., skipped by reef.v1.2.0" in text
    assert "not in this channel" in text
    assert "skip range &gt;=1.0.0 &lt;1.1.0" in text


def data(made: bytes) -> dict[str, Any]:
    return {name: json.loads(text) for name, text in SCRIPTS.findall(made.decode())}


def test_the_page_runs_its_own_script_alone_and_asks_for_nothing() -> None:
    text = render_page(HOSTILE, package_views(hostile()), package_problems(hostile())).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none';")
    for element in ("script", "style"):
        (content,) = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}'" in policy
    assert len(re.findall("<script", text)) == 3
    assert "alert(1)" not in re.sub(SCRIPTS, "", text).replace("&lt;script&gt;alert(1)", "")
    assert "{{" not in text


def test_the_page_has_what_is_to_be_seen_of_each_package() -> None:
    found = data(render_page("t", package_views(REEF), package_problems(REEF)))
    assert found["catalog"]["packages"] == [
        {
            "name": "reef",
            "channels": ["stable"],
            "bundles": [[f"reef.v1.{minor}.0", f"1.{minor}.0"] for minor in range(3)],
            "deprecated": "Old.",
        }
    ]
    (stable,) = found["package-0"]["channels"]
    assert stable["deprecated"] == "Old."
    assert stable["rows"][0] == {
        "lane": 0,
        "lanes": 1,
        "bundle": 2,
        "rank": 2,
        "replaces": 1,
        "skips": [1],
        "range": ">=1.0.0 <1.1.0",
        "within": [[0, 1]],
    }
    assert found["package-0"]["bundles"][0] == {
        "name": "reef.v1.0.0",
        "version": "1.0.0",
        "image": "quay.io/example/reef:1",
        "deprecated": "Old.",
        "related": [0],
    }
    assert found["package-0"]["images"] == [["op", OPERATOR]]


def test_the_page_of_a_broken_catalog_tells_what_is_wrong() -> None:
    blobs = Blobs((PackageBlob("reef", "none"),), (channel(entry("1.0.0"), entry("2.0.0")),), (bundle("1.0.0"),))
    problems = data(render_page("t", package_views(blobs), package_problems(blobs)))["package-0"]["problems"]
    assert any("multiple channel heads" in problem for problem in problems)
    assert len(problems) > 2
    valid = Blobs((PackageBlob("reef", "stable"),), (channel(entry("1.0.0")),), (bundle("1.0.0"),))
    assert package_problems(valid) == {}


def test_packages_and_channels_that_are_not_there_are_told_with_those_that_are() -> None:
    with pytest.raises(UnknownPackage, match='package "none" not found') as caught:
        package_views(REEF, "none")
    assert "reef" in caught.value.advice
    with pytest.raises(CatalogError, match='package "reef" has no channel "beta"'):
        package_views(REEF, "reef", "beta")
