"""The page of ``opm index graph`` in a real browser."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.browser import Browser
from tests.kit.opm import Opm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUNDLE_COUNT = 3000
PACKAGE_COUNT = 31
HOSTILE = "</script><img src=x onerror=boom()>\"'&amp;"


def bundle(package: str, version: str, number: int = 0) -> dict[str, Any]:
    return {
        "schema": "olm.bundle",
        "name": f"{package}.v{version}",
        "package": package,
        "image": f"quay.io/example/{package}@sha256:{number:064x}",
        "properties": [{"type": "olm.package", "value": {"packageName": package, "version": version}}],
        "relatedImages": [{"name": "proxy", "image": f"quay.io/example/proxy@sha256:{number:064x}"}],
    }


def channel(package: str, name: str, *entries: dict[str, Any]) -> dict[str, Any]:
    return {"schema": "olm.channel", "package": package, "name": name, "entries": list(entries)}


def reef() -> list[dict[str, Any]]:
    """Return a package with deprecations, skips and a skip range."""
    name = "reef.v{}".format
    return [
        {"schema": "olm.package", "name": "reef", "defaultChannel": "stable", "description": "Grows reefs."},
        channel("reef", "stable", {"name": name("1.0.0")}, {"name": name("1.1.0"), "replaces": name("1.0.0")}),
        channel(
            "reef",
            "candidate",
            {"name": name("1.0.0")},
            {"name": name("1.0.1"), "replaces": name("1.0.0")},
            {
                "name": name("1.1.0"),
                "replaces": name("1.0.0"),
                "skips": [name("1.0.1")],
                "skipRange": ">=1.0.0 <1.1.0",
            },
        ),
        *(bundle("reef", version, number) for number, version in enumerate(("1.0.0", "1.0.1", "1.1.0"))),
        {
            "schema": "olm.deprecations",
            "package": "reef",
            "entries": [
                {"reference": {"schema": "olm.bundle", "name": name("1.0.0")}, "message": "It leaks."},
                {"reference": {"schema": "olm.channel", "name": "candidate"}, "message": "Use stable."},
            ],
        },
    ]


def lagoon() -> list[dict[str, Any]]:
    """Return a package with a channel of many bundles."""
    versions = [f"1.{number}.0" for number in range(BUNDLE_COUNT)]
    entries = [
        {"name": f"lagoon.v{version}"} | ({"replaces": f"lagoon.v{versions[number - 1]}"} if number else {})
        for number, version in enumerate(versions)
    ]
    return [
        {"schema": "olm.package", "name": "lagoon", "defaultChannel": "alpha"},
        channel("lagoon", "alpha", *entries),
        *(bundle("lagoon", version, number) for number, version in enumerate(versions)),
    ]


def broken() -> list[dict[str, Any]]:
    """Return a package with a cycle, a missing bundle, three heads and an entry without bundle."""
    name = "atoll.v{}".format
    chain = (("1.0.0", "0.9.0"), ("1.1.0", "1.3.0"), ("1.2.0", "1.1.0"), ("1.3.0", "1.2.0"), ("1.4.0", "1.3.0"))
    entries = [{"name": name(version), "replaces": name(replaces)} for version, replaces in chain]
    return [
        {"schema": "olm.package", "name": "atoll", "defaultChannel": "stable"},
        channel("atoll", "stable", *entries, {"name": name("1.5.0")}),
        channel("atoll", "valid", {"name": name("1.4.0")}),
        *(bundle("atoll", version, number) for number, (version, _) in enumerate(chain)),
    ]


def shoals() -> list[dict[str, Any]]:
    """Return many packages with numbered names and channels."""
    documents = []
    for number in range(1, PACKAGE_COUNT):
        name = f"shoal{number}"
        versions = ("1.9.0", "1.10.0", "1.11.0", "2.0.0")
        bundles = [bundle(name, version) for version in versions[:3]] + [{**bundle(name, "2.0.0"), "name": "shoal-2"}]
        entries = [{"name": bundles[0]["name"]}] + [
            {"name": newer["name"], "replaces": older["name"]} for older, newer in pairwise(bundles)
        ]
        documents += [
            {"schema": "olm.package", "name": name, "defaultChannel": "v1.11"},
            *(channel(name, f"v1.{minor}", *entries) for minor in (9, 10, 11)),
            *bundles,
        ]
    return documents


def hostile() -> list[dict[str, Any]]:
    """Return an invalid package whose texts are markup."""
    return [
        {"schema": "olm.package", "name": HOSTILE, "defaultChannel": HOSTILE, "description": HOSTILE},
        channel(HOSTILE, HOSTILE, {"name": HOSTILE, "replaces": f"{HOSTILE}1", "skipRange": HOSTILE}),
        {**bundle(HOSTILE, "1.0.0"), "name": HOSTILE, "image": HOSTILE},
        {
            "schema": "olm.deprecations",
            "package": HOSTILE,
            "entries": [{"reference": {"schema": "olm.bundle", "name": HOSTILE}, "message": HOSTILE}],
        },
    ]


def draw(directory: Path, documents: list[dict[str, Any]]) -> Path:
    """Write the page of a catalog."""
    (directory / "catalog").mkdir()
    (directory / "catalog" / "catalog.json").write_text("\n".join(map(json.dumps, documents)))
    page = directory / "catalog.html"
    page.write_text(Opm(directory)("index", "graph", "catalog"))
    return page


@pytest.fixture(scope="module")
def graph_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    documents = [*reef(), *lagoon(), *broken(), *shoals(), *hostile()]
    return draw(tmp_path_factory.mktemp("graph"), documents)


CHANNELS = [f"v1.{number}" for number in range(14)]


def repeated() -> list[dict[str, Any]]:
    """Return a package with the same three problems in each channel, and one with a single problem."""
    name = "cove.v{}".format
    entries = [
        {"name": name("1.0.0"), "replaces": name("0.9.0")},
        {"name": name("1.9.0"), "replaces": name("1.0.0")},
        {"name": name("2.0.0")},
    ]
    return [
        {"schema": "olm.package", "name": "cove", "defaultChannel": CHANNELS[-1]},
        *(channel("cove", channel_name, *entries) for channel_name in CHANNELS),
        *(bundle("cove", version) for version in ("1.0.0", "2.0.0")),
        {"schema": "olm.package", "name": "inlet", "defaultChannel": "stable"},
        channel("inlet", "stable", {"name": "inlet.v1.0.0", "replaces": "inlet.v0.9.0"}),
        bundle("inlet", "1.0.0"),
    ]


LONG_NAMES = ["fast", *(f"stable-v1.{number}-with-a-very-long-name" for number in range(11))]
COLUMN_BOXES = """[...document.querySelectorAll('#columns button')].map((name) => {
  const outer = document.getElementById('columns').getBoundingClientRect(), box = name.getBoundingClientRect();
  const range = document.createRange();
  range.selectNodeContents(name);
  const isInside = (line) => line.top >= Math.max(outer.top, box.top) && line.left >= box.left - 1
    && line.bottom <= Math.min(outer.bottom, box.bottom) && line.right <= box.right + 1;
  const whole = [...range.getClientRects()].every(isInside);
  return { text: name.textContent, left: box.left, right: box.right, whole };
})"""
MIDDLES = """[...document.querySelectorAll('#row-0 .dot')].map((dot) => dot.getBoundingClientRect())
  .map((box) => (box.left + box.right) / 2)"""
TITLES_END = """Math.max(...[...document.querySelectorAll('#graph .title')]
  .map((title) => title.getBoundingClientRect().right))"""


def long_names() -> list[dict[str, Any]]:
    """Return a package with twelve channels that have long names, and a missing bundle with a long name."""
    package = "community-edition-of-the-gulf-operator"
    names = [f"{package}.v1.{number}.0" for number in range(20)]
    entries = [{"name": newer, "replaces": older} for older, newer in pairwise([f"{package}.v0.9.0-alpha.1", *names])]
    return [
        {"schema": "olm.package", "name": package, "defaultChannel": "fast"},
        *(channel(package, name, *entries) for name in LONG_NAMES),
        *(bundle(package, f"1.{number}.0") for number in range(20)),
    ]


@pytest.fixture(scope="module")
def long_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("long"), long_names())


@pytest.fixture(scope="module")
def repeated_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("repeated"), repeated())


@pytest.fixture(scope="module")
def shared_browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.fixture
def browser(shared_browser: Browser) -> Iterator[Browser]:
    """Yield a browser, and check after each test that the page made no requests and logged no errors."""
    shared_browser.requested.clear()
    yield shared_browser
    shared_browser.evaluate("1")  # wait until earlier events have been recorded
    assert shared_browser.errors == []
    files = {address.split("#")[0].rpartition("/")[2] for address in shared_browser.requested}
    assert files <= {"catalog.html", "changes.html"}


def selected(browser: Browser) -> str:
    """Return the name of the selected bundle, after checking that graph and details agree."""
    name = browser.text("#details h2")
    title = browser.evaluate("document.querySelector('#graph [aria-selected=true] .title').textContent")
    assert name in (title, f"{browser.text('#name')}.v{title}", HOSTILE)
    active = browser.evaluate("document.getElementById('graph').getAttribute('aria-activedescendant')")
    assert browser.evaluate(f"document.getElementById('{active}').getAttribute('aria-selected')") == "true"
    return name


def test_default_channel_is_shown_with_the_details_of_its_head(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#reef")
    assert browser.text("#name") == "reef"
    assert browser.text("#channel option:checked") == "stable (default)"
    assert selected(browser) == "reef.v1.1.0"
    details = browser.text("#details")
    for text in ("1.1.0", f"@sha256:{2:064x}", "candidate, stable", "Replaces (1)", "reef.v1.0.0", "proxy"):
        assert text in details


def test_the_way_of_a_bundle_is_shown(browser: Browser, tmp_path: Path) -> None:
    needs = {"type": "olm.package.required", "value": {"packageName": "missing", "versionRange": ">=1.0.0"}}
    last = bundle("gulf", "1.2.0", 9)
    last["properties"].append(needs)
    gulf = [
        {"schema": "olm.package", "name": "gulf", "defaultChannel": "stable"},
        channel(
            *("gulf", "stable", {"name": "gulf.v1.0.0"}, {"name": "gulf.v1.1.0", "replaces": "gulf.v1.0.0"}),
            {"name": "gulf.v1.2.0", "replaces": "gulf.v1.1.0"},
        ),
        *(bundle("gulf", version, number) for number, version in enumerate(("1.0.0", "1.1.0"))),
        last,
    ]
    page = draw(tmp_path, [*reef(), *gulf])
    browser.open(page, "#reef/candidate/reef.v1.0.0")
    details = browser.text("#details")
    assert "Updates of a cluster that has it (1)" in details
    browser.open(page, "#gulf/stable/gulf.v1.0.0")
    details = browser.text("#details")
    assert "Updates of a cluster that has it (1)" in details
    assert "OLM stops: gulf.v1.2.0 requires package missing" in details
    browser.open(page, "#gulf/stable/gulf.v1.2.0")
    assert "OLM stops" in browser.text("#details")


def test_skips_skip_ranges_and_deprecations_are_shown(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#reef/candidate/reef.v1.1.0")
    assert "Use stable." in browser.text("#channel-deprecation")
    details = browser.text("#details")
    for text in ("Skips (1)", "reef.v1.0.1", ">=1.0.0 <1.1.0", "In its skip range (2)"):
        assert text in details
    assert browser.evaluate("document.querySelectorAll('#graph .ring').length") == 2
    assert browser.evaluate("document.querySelectorAll('#graph .skips.selected').length") == 1
    assert browser.evaluate("document.querySelectorAll('#graph .dot.deprecated').length") == 1
    browser.click("#row-2")
    assert selected(browser) == "reef.v1.0.0"
    assert "It leaks." in browser.text("#details")


def test_broken_graph_is_drawn_in_red_with_its_problems(browser: Browser, graph_page: Path) -> None:
    browser.dark(on=False)
    browser.open(graph_page, "#atoll")
    assert browser.text("#problems summary") == "2 errors and 2 warnings"
    assert browser.evaluate("document.querySelectorAll('#problems li').length") == 4
    assert browser.text("#packages [aria-current=true] .problem") == "4 problems"
    assert browser.text("#channel option:checked") == "stable (default, 4 problems)"
    assert browser.text("#count") == "5 bundles, 2 missing"
    red = "rgb(200, 16, 46)"
    strokes = "[...document.querySelectorAll('#graph path.%s')].map((edge) => getComputedStyle(edge).stroke)"
    assert browser.evaluate(strokes % "cycle") == [red] * 3
    assert browser.evaluate(strokes % "missing") == [red]
    rows = browser.evaluate("[...document.querySelectorAll('#graph .row')].map((row) => row.textContent)")
    assert len(rows) == 7
    for name, problems in {
        "1.5.0": ["no olm.bundle blob found for the entry", "one of 3 heads"],
        "1.4.0": ["one of 3 heads"],
        **{version: ["in a cycle"] for version in ("1.3.0", "1.2.0", "1.1.0")},
        "1.0.0": ["one of 3 heads"],
        "0.9.0": ["does not exist, replaced by atoll.v1.0.0"],
    }.items():
        (number,) = (number for number, row in enumerate(rows) if row.removeprefix("atoll.v").startswith(name))
        found = browser.evaluate(
            f"[...document.querySelectorAll('#row-{number} .problem:not(circle)')].map((mark) => mark.textContent)"
        )
        assert found == problems, name


def test_problem_selects_its_bundle(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#atoll/valid")
    assert browser.text("#channel option:checked") == "valid"
    assert browser.evaluate("document.querySelectorAll('#graph .problem').length") == 0
    browser.click("#problems summary")
    browser.evaluate("document.querySelector('#problems li:last-child').scrollIntoView()")
    browser.click("#problems li:last-child button")
    assert browser.evaluate("location.hash") == "#atoll/stable/atoll.v0.9.0"
    assert "does not exist, replaced by atoll.v1.0.0" in browser.text("#details")


def test_repeated_problems_are_one_line_with_their_channels(browser: Browser, repeated_page: Path) -> None:
    browser.open(repeated_page, "#cove")
    assert browser.text("#problems summary") == "2 errors and 1 warning"
    assert browser.text("#packages .problem") == "3 problems"
    assert browser.text("#channel option:checked") == "v1.13 (default, 3 problems)"
    texts = browser.evaluate(
        "[...document.querySelectorAll('#problems > ul > li > button')].map((it) => it.textContent)"
    )
    assert len(texts) == len(set(texts)) == 3
    channels = "[...document.querySelectorAll('#problems .channels')].map((list) => list.innerText.split('\\n'))"
    browser.click("#problems summary")
    assert browser.evaluate(channels) == [CHANNELS] * 3
    assert browser.text("#details").count("one of 2 heads") == 1


def test_problems_collapse_to_a_line_that_opens(browser: Browser, repeated_page: Path) -> None:
    browser.open(repeated_page, "#cove")
    line = "document.querySelector('#problems').getBoundingClientRect().height"
    graph = "document.getElementById('graph').getBoundingClientRect()"
    assert browser.evaluate(line) < 50
    browser.evaluate("document.querySelector('#problems summary').focus()")
    browser.press("Enter")
    assert browser.evaluate(line) > 100
    assert browser.evaluate(f"{graph}.bottom <= innerHeight && {graph}.height >= 180")
    browser.click("#problems > ul > li:first-child .channels li:nth-child(2) button")
    assert browser.evaluate("location.hash") == "#cove/v1.1/cove.v1.9.0"
    assert browser.evaluate(line) > 100
    browser.click("#problems > ul > li:first-child > button")  # stays in the current channel
    assert browser.evaluate("location.hash") == "#cove/v1.1/cove.v1.9.0"
    browser.click("#problems summary")
    assert browser.evaluate(line) < 50


def test_few_problems_are_open(browser: Browser, repeated_page: Path) -> None:
    browser.open(repeated_page, "#inlet")
    assert browser.text("#problems summary") == "1 warning"
    assert "inlet.v0.9.0, which does not exist" in browser.text("#problems li")


def test_valid_package_has_no_problems(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#reef")
    assert not browser.evaluate("document.getElementById('problems').checkVisibility()")
    assert (
        browser.evaluate(
            "document.querySelectorAll('#package .row .problem, #packages [aria-current=true] .problem').length"
        )
        == 0
    )


def test_keyboard_selection_search_and_zoom(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#reef")
    browser.press("/")
    browser.type("lagoon 1.2345.")
    browser.until("document.querySelectorAll('#results li').length === 1")
    browser.press("Enter")
    assert selected(browser) == "lagoon.v1.2345.0"
    assert browser.evaluate("document.activeElement.id") == "graph"
    browser.press("ArrowDown")
    assert selected(browser) == "lagoon.v1.2344.0"
    browser.press("Home")
    assert selected(browser) == f"lagoon.v1.{BUNDLE_COUNT - 1}.0"
    browser.press("End")
    assert selected(browser) == "lagoon.v1.0.0"
    assert browser.evaluate("location.hash") == "#lagoon/alpha/lagoon.v1.0.0"
    size = "document.querySelector('#graph .band').getBoundingClientRect().height"
    normal = browser.evaluate(size)
    browser.press("-")
    assert browser.evaluate(size) < normal
    browser.press("0")
    browser.press("+")
    assert browser.evaluate(size) > normal
    assert browser.text("#reset") == "125 %"


def test_rows_show_the_version_and_unusual_names(browser: Browser, graph_page: Path) -> None:
    rows = "[...document.querySelectorAll('#graph .row')].map((row) => row.getAttribute('aria-label'))"
    browser.open(graph_page, "#reef")
    assert browser.evaluate(rows) == ["1.1.0, head of the default channel, replaces 1.0.0", "1.0.0, deprecated"]
    browser.open(graph_page, "#shoal10")
    assert browser.evaluate(rows)[:2] == [
        "2.0.0, shoal-2, head of the default channel, replaces 1.11.0",
        "1.11.0, replaces 1.10.0",
    ]


def test_names_are_in_natural_order(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#shoal10")
    names = browser.evaluate(
        "[...document.querySelectorAll('#packages button')].map((it) => it.firstChild.textContent)"
    )
    assert [name for name in names if name.startswith("shoal")] == [
        f"shoal{number}" for number in range(1, PACKAGE_COUNT)
    ]
    channels = browser.evaluate("[...document.querySelectorAll('#channel option')].map((option) => option.textContent)")
    assert channels == ["v1.9", "v1.10", "v1.11 (default)"]


ROWS = "[...document.querySelectorAll('#graph .row')].map((row) => row.getAttribute('aria-label'))"


def test_channels_are_shown_in_columns(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#reef/candidate/reef.v1.1.0?view=columns")
    assert browser.text("#count") == "3 bundles"
    columns = "[...document.querySelectorAll('#columns button')].map((it) => [it.ariaLabel, it.ariaPressed])"
    assert browser.evaluate(columns) == [
        ["Channel candidate (deprecated)", "true"],
        ["Channel stable (default)", "false"],
    ]
    assert browser.evaluate(ROWS) == [
        "1.1.0, head of candidate and stable, skip range >=1.0.0 <1.1.0, "
        "in candidate: replaces 1.0.0, skips 1.0.1, in stable: replaces 1.0.0",
        "1.0.1, skipped, in candidate: replaces 1.0.0",
        "1.0.0, deprecated, in candidate and stable",
    ]
    dots = "[...document.querySelectorAll('#graph .row')].map((row) => row.querySelectorAll('.dot').length)"
    assert browser.evaluate(dots) == [2, 1, 2]
    for number in range(2):  # each name is above the dots of its channel
        name, dot = (
            browser.evaluate(
                f"(() => {{ const box = document.querySelectorAll('{selector}')[{number}].getBoundingClientRect();"
                " return box.left + box.width / 2; })()"
            )
            for selector in ("#columns button", "#row-0 .dot")
        )
        assert abs(name - dot) < 3
    browser.click("#columns button:nth-child(2)")
    assert browser.evaluate("location.hash") == "#reef/stable/reef.v1.1.0?view=columns"
    assert "in candidate and stable" in browser.text("#details")


@pytest.mark.parametrize("steps", [-4, 0, 2])
def test_names_of_columns_are_whole_and_apart(browser: Browser, long_page: Path, steps: int) -> None:
    browser.open(long_page, "#?view=columns")
    for _ in range(abs(steps)):
        browser.click("#in" if steps > 0 else "#out")
    boxes = browser.evaluate(COLUMN_BOXES)
    assert [box["text"] for box in boxes] == LONG_NAMES
    assert all(box["whole"] for box in boxes)
    assert all(left["right"] <= right["left"] for left, right in pairwise(boxes))
    for box, dot in zip(boxes, browser.evaluate(MIDDLES), strict=True):
        assert abs((box["left"] + box["right"]) / 2 - dot) < 3


def test_columns_scroll_below_their_names_and_beside_the_versions(browser: Browser, long_page: Path) -> None:
    browser.open(long_page, "#?view=columns")
    assert browser.evaluate(f"{TITLES_END} < document.querySelector('#columns button').getBoundingClientRect().left")
    browser.evaluate("document.getElementById('graph').scrollTo(90, 60)")
    browser.until("document.getElementById('columns').scrollLeft === 90")
    browser.click("#row-6 .margin")
    assert browser.evaluate("document.getElementById('graph').scrollLeft") == 90
    assert browser.evaluate(
        "(() => { const box = document.querySelector('#columns button').getBoundingClientRect();"
        " const found = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);"
        f" return box.left < {TITLES_END} && found.closest('button') === null; }})()"
    )
    browser.evaluate("document.getElementById('graph').focus()")
    for _ in LONG_NAMES:
        browser.press("ArrowRight")
    assert browser.evaluate(
        "document.querySelector('#columns [aria-pressed=true]').getBoundingClientRect().right"
        " <= document.getElementById('graph').getBoundingClientRect().right"
    )
    assert browser.evaluate("document.querySelector('#columns [aria-pressed=true]').textContent") == LONG_NAMES[-1]


def test_channels_are_merged_with_their_names_and_colors(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#reef?view=merged")
    assert browser.evaluate(ROWS)[1] == "1.0.1, only in candidate, skipped, in candidate: replaces 1.0.0"
    edges = "[...document.querySelectorAll('#graph .edge title')].map((title) => title.textContent)"
    assert browser.evaluate(edges) == [
        "1.1.0 replaces 1.0.0 in candidate and stable",
        "1.0.1 replaces 1.0.0 in candidate",
        "1.1.0 skips 1.0.1 in candidate",
    ]
    colors = (
        "[...document.querySelectorAll('#graph .edge')].map((edge) =>"
        " new Set([...edge.querySelectorAll('path')].map((path) => getComputedStyle(path).stroke)).size)"
    )
    assert browser.evaluate(colors) == [2, 1, 1]
    assert browser.text("#channel-colors").split() == ["candidate", "stable"]
    browser.open(graph_page, "#atoll?view=merged")
    assert browser.evaluate("document.querySelectorAll('#graph path.cycle').length") == 3
    assert "1.4.0, stable: one of 3 heads, head of valid" in browser.evaluate(ROWS)[0]


def test_views_are_switched_by_mouse_and_keyboard(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#reef/stable/reef.v1.0.0")
    view = "document.querySelector('#views input:checked').value"
    browser.click("#views label:nth-of-type(2)")
    assert browser.evaluate("location.hash") == "#reef/stable/reef.v1.0.0?view=columns"
    browser.press("ArrowRight")
    assert browser.evaluate(view) == "merged"
    assert selected(browser) == "reef.v1.0.0"
    browser.press("ArrowLeft")
    browser.evaluate("document.getElementById('graph').focus()")
    browser.press("ArrowLeft")
    assert browser.evaluate("location.hash") == "#reef/candidate/reef.v1.0.0?view=columns"
    browser.press("ArrowUp")
    assert selected(browser) == "reef.v1.0.1"
    browser.press("v")
    browser.press("v")
    assert browser.evaluate("location.hash") == "#reef/candidate/reef.v1.0.1"
    assert browser.accessible_names("radio") == ["Channel", "Columns", "Merged"]
    browser.evaluate("location.hash = '#shoal1?view=merged'")
    browser.until("document.getElementById('name').textContent === 'shoal1'")
    assert browser.evaluate(view) == "merged"
    browser.evaluate("location.hash = '#lagoon?view=merged'")
    browser.until("document.getElementById('name').textContent === 'lagoon'")
    assert not browser.evaluate("document.getElementById('views').checkVisibility()")


def test_selected_package_is_in_view(browser: Browser, graph_page: Path) -> None:
    visible = (
        "(() => { const list = document.querySelector('nav').getBoundingClientRect(),"
        " button = document.querySelector('#packages [aria-current=true]').getBoundingClientRect();"
        " return button.top >= list.top && button.bottom <= list.bottom; })()"
    )
    browser.open(graph_page, f"#shoal{PACKAGE_COUNT - 1}")
    assert browser.evaluate(visible)
    browser.evaluate("document.querySelector('nav').scrollTop = 0")
    assert not browser.evaluate(visible)
    browser.press("/")
    browser.type(f"shoal{PACKAGE_COUNT - 1}")
    browser.press("Enter")
    assert browser.evaluate(visible)


def test_images_and_digests_are_copied(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#reef/stable/reef.v1.1.0")
    digest = f"sha256:{2:064x}"
    for noun, text in (("image", f"quay.io/example/reef@{digest}"), ("digest", digest)):
        browser.click(f"#details dd button[title='Copy the {noun}']")
        browser.until(f"document.getElementById('status').textContent === 'Copied {text}'")
        browser.evaluate("document.getElementById('search').value = ''")
        browser.press("/")
        browser.paste()
        assert browser.evaluate("document.getElementById('search').value") == text
        browser.press("Escape")


def test_legend_lists_what_is_in_the_graph(browser: Browser, graph_page: Path) -> None:
    legend = (
        "[...document.querySelectorAll('.legend span')].filter((item) => item.checkVisibility())"
        ".map((item) => item.dataset.kind)"
    )
    browser.open(graph_page, "#shoal10")
    assert browser.evaluate(legend) == ["bundle", "replaces"]
    browser.open(graph_page, "#reef/candidate")
    assert browser.evaluate(legend) == ["bundle", "skipped", "deprecated", "replaces", "skips", "in-range"]
    browser.press("/")
    browser.type("atoll.v1.4.0")
    browser.press("Enter")
    assert browser.evaluate(legend) == ["bundle", "outside", "problem", "replaces", "cycle", "missing"]


def test_only_rows_in_view_are_drawn(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#lagoon")
    assert browser.text("#count") == f"{BUNDLE_COUNT} bundles"
    assert 10 < browser.evaluate("document.querySelectorAll('#graph .row').length") < 100
    assert browser.evaluate("document.getElementById('graph').scrollHeight") > BUNDLE_COUNT * 20
    browser.evaluate("document.getElementById('graph').scrollTop = 26 * 1500")
    browser.until("document.getElementById('row-1500') !== null")
    assert browser.evaluate("document.getElementById('row-0')") is None
    assert browser.evaluate("document.querySelector('#row-1500').getAttribute('aria-setsize')") == str(BUNDLE_COUNT)


def test_catalog_texts_are_not_markup(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page)  # the first package by name
    assert browser.text("#name") == HOSTILE
    assert selected(browser) == HOSTILE
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert "error" in browser.text("#problems summary")
    assert HOSTILE in browser.text("#details .deprecated")
    browser.press("/")
    browser.type("onerror")
    browser.until("document.querySelectorAll('#results li').length >= 2")
    assert browser.evaluate("document.querySelectorAll('img').length") == 0


def test_theme_follows_the_system_or_the_button(browser: Browser, graph_page: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    browser.dark(on=False)
    browser.open(graph_page, "#reef")
    light = browser.evaluate(background)
    browser.dark()
    browser.until(f"{background} !== {json.dumps(light)}")
    browser.click("#theme")
    assert browser.evaluate(background) == light


def test_controls_have_names_and_are_reachable_by_keyboard(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#reef")
    nameless = browser.evaluate(
        "[...document.querySelectorAll('button, input, select, [role=listbox]')]"
        ".filter((control) => !(control.ariaLabel || control.textContent.trim() || control.labels?.length))"
        ".map((control) => control.outerHTML)"
    )
    assert nameless == []
    unreachable = browser.evaluate(
        "[...document.querySelectorAll('button:not(#packages button), input, select, #graph')]"
        ".filter((control) => control.tabIndex < 0).length"
    )
    assert unreachable == 0
    reachable = (
        "[...document.querySelectorAll('#packages button')].filter((it) => it.tabIndex === 0).map((it) => it.innerText)"
    )
    assert [text.split("\n")[0] for text in browser.evaluate(reachable)] == ["reef"]


def test_packages_and_problems_are_selected_by_keyboard(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#shoal1")
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.id") == "skip"
    browser.evaluate("document.querySelector('#packages [tabindex=\"0\"]').focus()")
    browser.press("ArrowDown")
    browser.press("Enter")
    assert browser.text("#name") == "shoal2"
    browser.press("Home")
    browser.press("ArrowDown")
    browser.press("Enter")
    assert browser.text("#name") == "atoll"
    browser.evaluate("document.getElementById('skip').click()")
    visited = [selected(browser)]
    for key in ("n", "n", "p", "p", "p"):
        browser.press(key)
        visited.append(selected(browser))
    versions = [name.removeprefix("atoll.v") for name in visited]
    assert versions[0] == versions[4] != versions[1]
    assert versions[1] == versions[3]
    assert len({*versions}) == 4
    assert browser.evaluate("document.querySelector('#graph .row:last-child').getAttribute('aria-selected')") == "true"


def test_screen_readers_get_versions_edges_and_problems(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#atoll")
    rows = browser.accessible_names("option")
    assert "1.2.0, in a cycle, replaces 1.1.0" in rows
    assert "1.0.0, one of 3 heads, replaces atoll.v0.9.0" in rows
    assert "atoll.v0.9.0, does not exist, replaced by atoll.v1.0.0" in rows
    browser.press("/")
    browser.type("shoal2")
    browser.until("document.getElementById('status').textContent.endsWith('results')")


def test_phone_shows_graph_and_details_without_scrolling_sideways(browser: Browser, graph_page: Path) -> None:
    browser.emulate_phone(390, 844)
    try:
        for fragment in ("#reef", "#atoll", "#lagoon", "#atoll?view=columns", "#reef?view=merged"):
            browser.open(graph_page, fragment)
            assert browser.evaluate("document.documentElement.scrollWidth") <= 390
        browser.open(graph_page, "#atoll")
        browser.evaluate("document.querySelector('#problems li:last-child button').click()")
        assert selected(browser) == "atoll.v0.9.0"
        for selector in ("#details h2", "#graph [aria-selected=true] .title"):
            browser.until(
                f"(() => {{ const box = document.querySelector('{selector}').getBoundingClientRect();"
                " const found = document.elementFromPoint(box.left + 2, box.top + 2);"
                " return found !== null && found.closest('#graph, #details') !== null; })()"
            )
            box = browser.evaluate(f"document.querySelector('{selector}').getBoundingClientRect().bottom")
            assert box <= 844
        heights = (
            "[...document.querySelectorAll('button:not(#skip), select')].filter((it) => it.checkVisibility())"
            ".map((it) => it.getBoundingClientRect().height)"
        )
        assert min(browser.evaluate(heights)) >= 24
    finally:
        browser.emulate_desktop()


SHEET = "document.getElementById('sheet').checkVisibility()"


def test_sheet_with_details_is_closed_and_opened_on_a_phone(browser: Browser, graph_page: Path) -> None:
    browser.emulate_phone(390, 844)
    try:
        browser.open(graph_page, "#reef")
        height = "document.getElementById('graph').clientHeight"
        before = browser.evaluate(height)
        assert "Close the details (Escape)" in browser.accessible_names("button")
        browser.click("#close")
        assert not browser.evaluate(SHEET)
        assert browser.evaluate("document.activeElement.id") == "graph"
        assert browser.evaluate(height) > before
        browser.press("ArrowDown")
        assert not browser.evaluate(SHEET)
        browser.press("Enter")
        assert selected(browser) == "reef.v1.0.0"
        assert browser.evaluate(SHEET)
        browser.press("Escape")
        assert not browser.evaluate(SHEET)
        browser.click("#row-0")
        assert browser.evaluate(SHEET)
        assert selected(browser) == "reef.v1.1.0"
        browser.press("/")
        browser.press("Escape")  # leaves the search only
        assert browser.evaluate(SHEET)
        browser.click("#close")
    finally:
        browser.emulate_desktop()
    assert browser.evaluate(SHEET)
    browser.press("Escape")
    assert browser.evaluate(SHEET)
    assert not browser.evaluate("document.getElementById('close').checkVisibility()")


def test_packages_are_a_select_on_a_phone(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#atoll")
    assert not browser.evaluate("document.getElementById('package-select').checkVisibility()")
    browser.emulate_phone(390, 844)
    try:
        browser.open(graph_page, "#atoll")
        assert not browser.evaluate("document.getElementById('packages').checkVisibility()")
        assert browser.evaluate("document.querySelector('nav').getBoundingClientRect().height") < 60
        assert browser.text("#package-select option:checked") == "atoll (4 problems)"
        assert "Package" in browser.accessible_names("combobox")
        browser.evaluate("document.getElementById('package-select').focus()")
        browser.press("s")
        browser.press("h")
        browser.until("document.getElementById('name').textContent.startsWith('shoal')")
        assert browser.evaluate("location.hash").startswith("#shoal")
        browser.evaluate("location.hash = '#reef'")
        browser.until("document.getElementById('name').textContent === 'reef'")
        assert browser.text("#package-select option:checked") == "reef"
    finally:
        browser.emulate_desktop()


def changed_reef() -> list[dict[str, Any]]:
    """Return the package reef with a new head, a removed entry, other edges and another image."""
    name = "reef.v{}".format
    old = {document["name"]: document for document in reef() if document["schema"] == "olm.bundle"}
    return [
        {"schema": "olm.package", "name": "reef", "defaultChannel": "stable", "description": "Grows reefs."},
        channel("reef", "stable", {"name": name("1.0.0")}, {"name": name("1.2.0"), "replaces": name("1.0.0")}),
        channel("reef", "fast", {"name": name("1.2.0")}),
        {**old[name("1.0.0")], "image": f"quay.io/example/reef@sha256:{15:064x}"},
        bundle("reef", "1.2.0", 9),
    ]


@pytest.fixture(scope="module")
def changes_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("changes")
    for catalog, documents in {"old": [*reef(), *shoals()], "new": [*changed_reef(), *shoals()[8:], *broken()]}.items():
        (directory / catalog).mkdir()
        (directory / catalog / "catalog.json").write_text("\n".join(map(json.dumps, documents)))
    page = directory / "changes.html"
    page.write_text(Opm(directory)("index", "diff", "old", "new", "--output", "html"))
    return page


def test_comparison_lists_the_changed_packages(browser: Browser, changes_page: Path) -> None:
    browser.open(changes_page, "")
    assert browser.text("#compared").startswith("3 of 32 packages changed from old to new.")
    names = "[...document.querySelectorAll('#packages button')].map((it) => it.innerText.split('\\n'))"
    listed = {name: remarks for name, *remarks in browser.evaluate(names)}
    assert list(listed) == ["atoll", "reef", "shoal1"]
    assert listed["atoll"][0] == "5 bundles, 4 problems"
    assert listed["shoal1"][0] == "0 bundles"
    assert "removed" in listed["shoal1"][1]
    assert "added" not in listed["shoal1"][1]


def test_comparison_marks_what_changed(browser: Browser, changes_page: Path) -> None:
    browser.dark(on=False)
    browser.open(changes_page, "#reef")
    assert browser.text("#count") == "2 bundles, 1 removed"
    signs = "[...document.querySelectorAll('#graph .row')].map((row) => row.querySelector('.sign')?.textContent ?? '')"
    assert browser.evaluate(signs) == ["+", "−", "±"]
    rows = browser.evaluate(ROWS)
    assert rows[0].startswith("1.2.0, added, head of the default channel")
    assert rows[1].startswith("1.1.0, removed")
    assert "image changed" in rows[2]
    edges = "[...document.querySelectorAll('#graph .edge path.%s')].map((edge) => getComputedStyle(edge).stroke)"
    assert browser.evaluate(edges % "added") == ["rgb(21, 128, 61)"]
    assert browser.evaluate(edges % "removed") == ["rgb(185, 28, 92)"]
    browser.click("#row-2")
    details = browser.text("#details")
    for text in ("Image before", f"@sha256:{0:064x}", f"@sha256:{15:064x}", "No longer replaced by (1)", "reef.v1.1.0"):
        assert text in details


def test_difference_selects_its_bundle(browser: Browser, changes_page: Path) -> None:
    browser.open(changes_page, "#reef/fast")
    assert "added" in browser.text("#channel option:checked")
    items = "[...document.querySelectorAll('#changes button')].map((it) => it.textContent)"
    texts = browser.evaluate(items)
    (number,) = (number for number, text in enumerate(texts) if text.startswith('removed entry: channel "stable"'))
    browser.evaluate(f"document.querySelectorAll('#changes button')[{number}].click()")
    assert browser.evaluate("location.hash") == "#reef/stable/reef.v1.1.0"
    assert "Change removed" in " ".join(browser.text("#details").split())
    for kind in ("added", "removed", "changed"):
        assert browser.evaluate(f"document.querySelector('.legend [data-kind={kind}]').checkVisibility()")


def test_search_finds_removed_bundles(browser: Browser, changes_page: Path) -> None:
    browser.open(changes_page, "#atoll")
    browser.press("/")
    browser.type("reef 1.0.1")
    browser.until("document.querySelectorAll('#results li').length === 1")
    browser.press("Enter")
    assert selected(browser) == "reef.v1.0.1"
    assert "removed" in browser.text("#channel option:checked")


def test_comparison_on_a_phone_shows_the_graph_first(browser: Browser, changes_page: Path) -> None:
    browser.emulate_phone(390, 844)
    try:
        browser.open(changes_page, "#reef")
        assert not browser.evaluate("document.getElementById('changes').open")
        assert browser.evaluate("document.querySelector('#row-0').getBoundingClientRect().bottom < innerHeight * 0.74")
    finally:
        browser.emulate_desktop()


FOLDS = "[...document.querySelectorAll('#graph .fold')].map((fold) => fold.textContent)"


@pytest.fixture(scope="module")
def extended_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a comparison of a chain of twelve bundles with the same chain, whose fourth bundle skips another one."""
    directory = tmp_path_factory.mktemp("extended")
    names = [f"cape.v1.{number}.0" for number in range(12)]
    entries: list[dict[str, Any]] = [{"name": names[0], "skipRange": "<1.0.0 " * 40}]
    entries += [{"name": newer, "replaces": older} for older, newer in pairwise(names)]
    package = {"schema": "olm.package", "name": "cape", "defaultChannel": "stable"}
    bundles = [bundle("cape", f"1.{number}.0", number) for number in range(12)]
    changed = [*entries[:4], {**entries[4], "skips": [names[2]]}, *entries[5:]]
    for catalog, edited in {"old": entries, "new": changed}.items():
        channels = [channel("cape", "stable", *edited), channel("cape", "fast", *entries)]
        (directory / catalog).mkdir()
        (directory / catalog / "catalog.json").write_text("\n".join(map(json.dumps, [package, *channels, *bundles])))
    page = directory / "changes.html"
    page.write_text(Opm(directory)("index", "diff", "old", "new", "--output", "html"))
    return page


def test_rows_without_changes_are_folded(browser: Browser, extended_page: Path) -> None:
    browser.open(extended_page, "#cape/stable/cape.v1.11.0")
    assert browser.evaluate(FOLDS) == []
    assert "Changes only" in browser.accessible_names("checkbox")
    browser.click("#only")
    assert browser.evaluate("location.hash") == "#cape/stable/cape.v1.4.0?changes=only"
    assert browser.text("#status") == "2 bundles with changes"
    assert browser.evaluate(FOLDS) == ["7 without changes", "1 without changes", "2 without changes"]
    rows = browser.evaluate(ROWS)
    assert [row.split(",")[0] for row in rows] == ["1.4.0", "1.2.0"]
    assert "head" not in " ".join(rows)
    assert browser.evaluate("document.querySelectorAll('#graph .edge path.added').length") == 1
    browser.evaluate("document.getElementById('graph').focus()")
    for key, name in {"ArrowDown": "1.2.0", "ArrowUp": "1.4.0", "End": "1.2.0", "Home": "1.4.0"}.items():
        browser.press(key)
        assert selected(browser) == f"cape.v{name}"
    browser.press("c")
    assert browser.evaluate(FOLDS) == []
    assert not browser.evaluate("document.getElementById('only').checked")
    assert selected(browser) == "cape.v1.4.0"


def test_folded_bundles_are_shown_when_selected(browser: Browser, extended_page: Path) -> None:
    browser.open(extended_page, "#cape?changes=only")
    assert selected(browser) == "cape.v1.4.0"
    browser.press("/")
    browser.type("cape 1.9.0")
    browser.press("Enter")
    assert selected(browser) == "cape.v1.9.0"
    assert browser.evaluate("location.hash") == "#cape/stable/cape.v1.9.0"
    browser.open(extended_page, "#cape/fast?changes=only")
    assert browser.evaluate(FOLDS) == ["12 without changes"]
    assert browser.text("#details") == "The channel has no changes."
    browser.click("#graph .fold text")
    assert len(browser.evaluate(ROWS)) == 12


def test_pages_of_one_catalog_have_no_filter(browser: Browser, graph_page: Path) -> None:
    browser.open(graph_page, "#reef?changes=only")
    assert not browser.evaluate("document.getElementById('only').checkVisibility()")
    assert browser.evaluate(FOLDS) == []


def test_long_remarks_next_to_columns_are_cut(browser: Browser, extended_page: Path) -> None:
    browser.open(extended_page, "#cape/stable/cape.v1.0.0?view=columns")
    last = "#graph .row[data-number='11']"
    assert browser.evaluate(
        "document.getElementById('graph').scrollWidth <= document.getElementById('graph').clientWidth"
    )
    assert browser.text("#details").count("<1.0.0") == 40
    assert browser.evaluate(f"document.querySelector({json.dumps(last + ' .label')}).textContent").endswith("…")
    assert browser.evaluate(f"document.querySelector({json.dumps(last + ' title')}).textContent").count("<1.0.0") == 40
