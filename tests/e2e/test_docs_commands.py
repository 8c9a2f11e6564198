"""All command lines of the documentation and of help texts are parsed by the commands that exist.

Incomplete ones in the text as well, so that each command and flag is valid; ``test_docs_examples.py`` runs the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.cli.help.content import describe_command
from tests.cli.test_help import commands
from tests.kit.command_lines import command_lines, pages, parse, parse_partially, simple_commands

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_command_lines_of_pages_are_valid(page: Path) -> None:
    problems = []
    for line in command_lines(page):
        if line.kind == "foreign":
            continue
        try:
            (parse_partially if line.kind == "inline" else parse)(line.text)
        except ValueError as error:
            problems.append(f"{line}: {error}")
    assert problems == []


def test_examples_of_help_texts_are_valid() -> None:
    problems, count = [], 0
    for path, command in commands().items():
        content = describe_command(command.make_context(path, [], resilient_parsing=True))
        for example in content.examples:
            count += 1
            try:
                parse(example)
            except ValueError as error:
                problems.append(f"{path}: {example}: {error}")
    assert problems == []
    assert count > 150


def test_blocks_with_commands_have_a_language() -> None:
    unmarked = [str(line) for page in pages() for line in command_lines(page) if line.kind == "unmarked"]
    assert unmarked == [], "begin these blocks with ```sh, or with ```shell or ```console if a test runs the commands"


@pytest.mark.parametrize(
    "line",
    [
        "opm index ad --tag x",
        "opm index add --bundels x",
        "cat x | opm index add --bundels x",
        "for x in 1 2; do opm render --no-such x; done",
        "opm image inspect",
        "x=$(opm validate --no-such catalog)",
        "opm index add --on-conflict nothing --bundles x",
    ],
)
def test_invalid_command_lines_are_recognized(line: str) -> None:
    with pytest.raises(ValueError, match=r"unknown|nvalid|accepts|required|issing"):
        parse(line)


@pytest.mark.parametrize("line", ["opm index ad", "opm index add --bundels", "opm no-such --flag", "opm render -x"])
def test_invalid_fragments_are_recognized(line: str) -> None:
    with pytest.raises(ValueError, match="unknown"):
        parse_partially(line)


def test_words_of_commands() -> None:
    line = "! VERSION=1 opm index add -b \"$A/x:1 > y\" 2> /dev/null | opm validate '<x>' > out # a comment"
    assert simple_commands(line) == [["opm", "index", "add", "-b", "1/x:1 > y"], ["opm", "validate", "<x>"]]
    assert simple_commands("a <(b c) && d") == [["a"], ["b", "c"], ["d"]]
