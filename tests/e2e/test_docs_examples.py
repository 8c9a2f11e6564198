"""The command lines of the documentation and of help texts run, in a site with the images and files that they name."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING

import pytest

from opmkit.cli.help.content import describe_command
from tests.cli.test_help import commands
from tests.kit.command_lines import ROOT, executable_lines, pages, resolve
from tests.kit.example_preparation import BEFORE, FINDINGS
from tests.kit.example_reasons import FILES, NOT_RUN, reachable_strings
from tests.kit.example_run import Example, ExampleRun, entry
from tests.kit.requirements import require

if TYPE_CHECKING:
    from tests.kit.example_site import ExampleSite

ALIASES = ("opm alpha bundle ", "opm image cp ", "opm index pin ", "opm run pm ")
"""Second names of commands, whose examples differ from the others by that name alone."""

_NOT_EVERYWHERE = {"curl", "git", "zip"}


@cache
def examples() -> dict[str, list[Example]]:
    """Return all examples by page, and those of help texts by command group."""
    found: dict[str, list[Example]] = defaultdict(list)
    for page in pages():
        for line in executable_lines(page):
            prefix = "$ " if line.kind == "console" else ""
            found[line.page].append(Example(line.page, prefix + line.text))
    for path, command in commands().items():
        if not f"{path} ".startswith(ALIASES):
            content = describe_command(command.make_context(path, [], resilient_parsing=True))
            found[" ".join(path.split()[:2])] += [Example("help", text) for text in content.examples]
    return dict(found)


def runnable(source: str) -> list[Example]:
    return [example for example in examples().get(source, []) if entry(NOT_RUN, example) is None]


def problems(site: ExampleSite, lines: list[Example]) -> list[str]:
    """Run examples in the prepared site, those of a page one after the other, and return the failures."""
    run = ExampleRun(site)
    site.reset()
    try:
        if lines[0].text.startswith("opm catalog "):
            run.run(Example("help", "opm serve ./catalog"))
        for example in lines:
            if example.source == "help" and run.server is None:
                site.reset()
            run.run(example)
    finally:
        run.stop()
    return run.problems


def sources() -> list[str]:
    """Return the names of the pages and command groups, without reading their examples."""
    groups = {" ".join(path.split()[:2]): None for path in commands() if not f"{path} ".startswith(ALIASES)}
    return [*(str(page.relative_to(ROOT)) for page in pages()), *groups]


@pytest.mark.parametrize("source", sources())
def test_examples_run(source: str, request: pytest.FixtureRequest) -> None:
    if not runnable(source):
        return
    example_site: ExampleSite = request.getfixturevalue("example_site")
    for program in _NOT_EVERYWHERE & {name for example in runnable(source) for name in example.text.split()}:
        require(program)
    found = problems(example_site, runnable(source))
    assert not found, "\n".join(found)


def test_sources_are_those_of_the_examples() -> None:
    assert examples().keys() <= set(sources())


def test_each_example_has_one_use_of_the_tables() -> None:
    lines = [example for found in examples().values() for example in found]
    used = {entry(table, line) for table in (NOT_RUN, BEFORE) for line in lines}
    assert {*NOT_RUN, *BEFORE, *FINDINGS} - used - set(map(str, lines)) == set(), "no example begins with these"


@pytest.mark.parametrize("start", [start for start, reason in NOT_RUN.items() if reason.test])
def test_other_tests_run_the_examples(start: str) -> None:
    """The named test contains the name of the page whose commands it types, or that of the command."""
    page, _, command = start.rpartition(": ")
    words = command.removeprefix("$ ").split()
    name = page.removeprefix("docs/").removesuffix(".md") if command == "$" else words[0]
    if name == "opm":
        name = resolve(words)[1].split()[-1]
    reason = NOT_RUN[start]
    strings = reachable_strings(reason.test)
    assert any((reason.word or name) in text for text in strings), f"{reason.test} does not run {start}"


def test_other_tests_run_the_steps_of_example_files() -> None:
    files = [path for path in (ROOT / "examples").rglob("*.y*ml") if re.search(r"\bopm \w", path.read_text())]
    assert {str(path.relative_to(ROOT)) for path in files} == FILES.keys(), "name the tests that run these files"
    for name, reason in FILES.items():
        assert reason.word in reachable_strings(reason.test), f"{reason.test} does not run {name}"


def test_lines_without_a_test_are_few() -> None:
    lines = [example for found in examples().values() for example in found]
    reasons = [NOT_RUN[start] for line in lines if (start := entry(NOT_RUN, line))]
    assert sum(not reason.test for reason in reasons) < 40
    assert all(reason.text for reason in reasons)


def test_failing_examples_are_recognized(example_site: ExampleSite) -> None:
    found = problems(
        example_site,
        [
            Example("help", "opm render ./no-such-directory"),
            Example("help", "opm index rm -o x -f ./catalog --dry-run"),
        ],
    )
    assert len(found) == 2
    assert "no such file" in found[0]
    assert "lagoon-operator" in found[1]
