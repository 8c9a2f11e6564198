"""Where ``opm index graph`` and ``opm index diff`` write pages and pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import FIXTURES
from tests.kit.screen import run_on_terminal

if TYPE_CHECKING:
    from tests.kit.opm import Opm

CATALOG = str(FIXTURES / "graphs" / "channels")


@pytest.mark.parametrize(
    ("name", "start"),
    [("graph.html", "<!doctype html>"), ("graph.svg", "<svg"), ("graph.dot", "digraph"), ("graph.mmd", "graph LR")],
)
def test_graph_is_written_to_a_file_in_the_format_of_its_name(opm: Opm, name: str, start: str) -> None:
    done = opm.attempt("index", "graph", CATALOG, "--output", name)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"{name}: written\n")
    text = (opm.directory / name).read_text()
    assert start in text
    assert opm("index", "graph", CATALOG, "-o", {"graph.mmd": "mermaid"}.get(name, name[6:])) == text


@pytest.mark.parametrize(
    "command", [("graph", CATALOG), ("graph", CATALOG, "-o", "svg"), ("diff", CATALOG, CATALOG, "-o", "html")]
)
def test_pages_are_not_printed_on_a_terminal(opm: Opm, command: tuple[str, ...]) -> None:
    screen = run_on_terminal("index", *command, "--progress", "none", columns=80, directory=opm.directory)
    assert screen.status == 1
    error, hint = screen.text.splitlines()
    assert error.startswith("Error: refusing to print ")
    assert "graph.html" in hint or "changes.html" in hint


def test_text_of_graphs_is_printed_on_a_terminal(opm: Opm) -> None:
    screen = run_on_terminal("index", "graph", CATALOG, "-o", "mermaid", columns=80, directory=opm.directory)
    assert screen.status == 0
