"""The page about update graphs: its pictures are those of the samples, and it quotes the messages about them."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.e2e.test_docs_guides import BLOCK, EXAMPLE, matches
from tests.kit.command_lines import ROOT, console_commands

if TYPE_CHECKING:
    from tests.kit.opm import Opm

PAGE = ROOT / "docs" / "update-graphs.md"
PICTURES = re.findall(r"!\[[^\]]+\]\(update-graphs/([a-z-]+)\.svg\)", PAGE.read_text())
EXAMPLES = [example for block in BLOCK.findall(PAGE.read_text()) for example in EXAMPLE.findall(block)]


def test_each_picture_is_on_the_page() -> None:
    assert sorted(PICTURES) == sorted(path.stem for path in (ROOT / "docs" / "update-graphs").glob("*.svg"))


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_equal_those_that_the_command_draws(opm: Opm, name: str) -> None:
    drawn = opm("index", "graph", str(ROOT / "fixtures" / "graphs" / name), "-o", "svg")
    picture = f"docs/update-graphs/{name}.svg"
    hint = f"run: opm index graph fixtures/graphs/{name} -o svg > {picture}"
    assert drawn == (ROOT / picture).read_text(), hint


@pytest.mark.parametrize(("command", "quoted"), EXAMPLES)
def test_quoted_messages_are_those_that_the_command_prints(opm: Opm, command: str, quoted: str) -> None:
    done = replace(opm, directory=ROOT).attempt(*shlex.split(command)[1:])
    assert done.returncode != 0
    assert matches(quoted, done.stdout + done.stderr), done.stdout + done.stderr


def test_page_has_examples() -> None:
    assert [command for command, _ in EXAMPLES] == console_commands(PAGE)
