"""The site of the documentation: complete, without content of other servers, and searchable in local files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from opmkit.cli.help.content import canonical_path
from opmkit.cli.main import build_app
from tests.e2e.test_docs import commands
from tests.kit.browser import Browser
from tests.kit.command_lines import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

COPY = """
const block = [...document.querySelectorAll("code")].find(code => code.querySelector(".gp"));
block.setAttribute("data-md-copying", "");
window.copied = block.innerText.trim();
"""
"""Select what the button of the theme copies of a block with prompts and output."""
LOADED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")


class _Page(HTMLParser):
    """The links of a page, and the ids that links can name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.ids: set[str] = {"__skip"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name == "id" and value:
                self.ids.add(value)


def dead_links(site: Path) -> list[str]:
    """Return the links of a built site to files and headings that it does not have."""
    pages = {path: _Page(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    dead = []
    for path, page in pages.items():
        for link in sorted(page.links):
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (url.fragment and unquote(url.fragment) not in pages[target].ids):
                dead.append(f"{path.relative_to(site)}: {link}")
    return dead


def names_of_commands() -> Iterator[str]:
    for path, command in commands(build_app(), ("opm",)):
        if not command.hidden and canonical_path(" ".join(path)) == " ".join(path):
            yield "-".join(path).replace(" ", "-")


def test_site_has_a_page_per_command_and_search_without_a_network(tmp_path: Path) -> None:
    site = tmp_path / "site"
    build = [str(Path(sys.executable).with_name("mkdocs")), "build", "--strict", "--site-dir", str(site)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    pages = list(site.rglob("*.html"))
    assert {url for page in pages for url in LOADED.findall(page.read_text())} == set()
    assert dead_links(site) == []
    assert [page.name for page in pages if re.search(r"<code>[^<]*\\\|", page.read_text())] == []
    names = list(names_of_commands())
    assert len(names) > 50
    assert [name for name in names if not (site / "reference" / f"{name}.html").exists()] == []
    page = (site / "reference" / "opm-index-add.html").read_text()
    assert "--on-conflict" in page
    headings = re.findall(r'<h2 id="([^"]+)"', page)
    assert "result" in headings
    assert "result_1" not in headings
    assert 'href="reference/opm-index-add.html"' in (site / "commands.html").read_text()
    assert "CSV-REPLACES-FORMAT" in (site / "reference" / "rules.html").read_text()

    with Browser() as browser:
        browser.open(site / "update-graphs.html")
        browser.evaluate(COPY)
        assert browser.evaluate("window.copied")
        assert all(line.startswith(("opm ", "! opm ")) for line in browser.evaluate("window.copied").splitlines())
        browser.open(site / "first-catalog.html")
        browser.evaluate("document.querySelector('.md-search__input').focus()")
        browser.type("settle")
        browser.until("document.querySelector('.md-search-result__link') !== null")
        assert "settle" in browser.text(".md-search-result__list")
        assert [url for url in browser.requested if not url.startswith(("file:", "data:", "blob:", "about:"))] == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a id="x" href="a.html#x"></a><a href="#y"></a><a href="../gone"></a><a href=b/>')
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "index.html").write_text("<a href='https://elsewhere/'>x</a>")
    assert dead_links(tmp_path) == ["a.html: #y", "a.html: ../gone"]


def test_content_of_other_servers_is_recognized() -> None:
    page = '<script src="https://a/x.js"></script><link rel=x href=//b/y.css><a href="https://c">c</a>'
    assert LOADED.findall(page) == ["https://a/x.js", "//b/y.css"]
