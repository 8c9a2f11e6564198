"""Layout of help pages."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from typing import Any

import pytest
from typer.core import TyperOption

from opmkit.cli.help.content import (
    canonical_path,
    describe_command,
    format_examples,
    format_paragraphs,
    group_by_panel,
    parse_examples,
    split_help,
)
from opmkit.cli.help.page import format_help
from opmkit.cli.help.panels import SPECIAL_PANELS, is_long
from opmkit.cli.main import run
from tests.cli.test_help import commands
from tests.kit.opm import PROGRAM
from tests.kit.screen import run_on_terminal

ESCAPE = re.compile(r"\x1b\[\d*m")
WIDTHS = (80, 250)


def context(path: str) -> Any:
    return commands()[path].make_context(path, [], resilient_parsing=True)


@cache
def page_text(path: str, width: int, *, full: bool = False) -> str:
    return format_help(context(path), width, full=full)


def flags_in(text: str) -> set[str]:
    """Return the flags in the tables of a help page."""
    return set(re.findall(r"^ +(?:-\w, )?(--[a-zA-Z0-9-]+)", text.partition("Options:")[2], re.MULTILINE))


@pytest.mark.parametrize("path", commands())
def test_no_line_is_too_long_and_no_markup_is_left(path: str) -> None:
    for width in WIDTHS:
        for line in page_text(path, width, full=True).splitlines():
            assert len(line) <= min(width, 100), line
            assert not re.search(r"\[/?bold\]|\[/\]|<bool>|\{[A-Z]", line), line


@pytest.mark.parametrize("path", commands())
def test_full_help_describes_every_flag(path: str) -> None:
    shown = [parameter for parameter in commands()[path].params if not parameter.hidden]
    expected = {name for parameter in shown if isinstance(parameter, TyperOption) for name in parameter.opts}
    page = page_text(path, 100, full=True)
    assert {name for name in expected if name.startswith("--")} <= set(re.findall(r"--[a-zA-Z0-9-]+", page))


def long_commands() -> list[str]:
    return [path for path, command in commands().items() if is_long(command.params)]


@pytest.mark.parametrize("path", long_commands())
def test_help_of_commands_with_many_flags_names_the_groups_that_it_omits(path: str) -> None:
    short, full = (page_text(path, 80, full=full) for full in (False, True))
    text, omitted = re.split(r"\nMore (?:examples and )?flags with --help-all: ", short)
    groups = " ".join(omitted.split()).split(", ")
    assert set(groups) <= SPECIAL_PANELS
    assert {"Registry access", "Catalog pod"}.intersection(groups)
    for group in groups:
        assert f"\n{group}:\n" in full
        assert f"\n{group}:\n" not in short
    assert flags_in(text) < flags_in(full)


def test_special_groups_exist() -> None:
    used = {
        getattr(parameter, "rich_help_panel", None) for command in commands().values() for parameter in command.params
    }
    assert used >= SPECIAL_PANELS


def test_the_flags_used_most_are_first() -> None:
    flags = re.findall(
        r"^ +(?:-\w, )?--([a-z-]+)", page_text("opm index add", 80).partition("Options:")[2], re.MULTILINE
    )
    assert flags[:2] == ["bundles", "from-index"]
    assert {"tag", "push", "dry-run", "help-all"} < set(flags)
    assert not {"settle", "generate", "authfile", "skip-range"} & set(flags)


@pytest.mark.parametrize(
    ("path", "usage"),
    [
        ("opm", "opm [OPTIONS] COMMAND"),
        ("opm image pull", "opm image pull [OPTIONS] IMAGE..."),
        ("opm template render", "opm template render [OPTIONS] [PATH...]"),
        ("opm bundle build", "opm bundle build [OPTIONS] [CONTEXT]"),
        ("opm index images", "opm index images [OPTIONS] INDEX [PACKAGE[:CHANNEL,...][@RANGE]...]"),
    ],
)
def test_usage_lines(path: str, usage: str) -> None:
    assert f"\nUsage: {usage}\n" in page_text(path, 80)


def test_paragraphs_are_reflowed_and_examples_are_commands() -> None:
    help_text = """A summary
    of two lines

    Words of a paragraph
    on two lines.

    Codes:
      0 success
      1 failure

    [bold]Examples:[/]

      opm first --flag value --other "quoted words here" | sort

      opm second
        --flag value
    """
    summary, others = split_help(help_text)
    assert summary == "A summary of two lines"
    description, examples = parse_examples(others)
    assert list(format_paragraphs(description, 40)) == [
        "",
        "Words of a paragraph on two lines.",
        "",
        "Codes:",
        "  0 success",
        "  1 failure",
    ]
    assert list(format_examples(examples, 40)) == [
        "  opm first --flag value \\",
        '    --other "quoted words here" | sort',
        "  opm second --flag value",
    ]


@pytest.mark.slow
def test_pages_fit_the_terminal_and_are_plain_in_pipes() -> None:
    narrow = run_on_terminal("index", "add", "--help", columns=70)
    assert narrow.status == 0
    assert "\x1b[1mOptions:\x1b[0m" in narrow.output
    lines = [ESCAPE.sub("", line) for line in narrow.lines]
    assert 62 < max(map(len, lines)) <= 70
    assert len(lines) < 70
    uncolored = run_on_terminal("index", "--help", columns=70, env={"NO_COLOR": "1"})
    assert "\x1b" not in uncolored.output
    piped = subprocess.run([PROGRAM, "index", "add", "--help-all"], capture_output=True, text=True, check=True)
    assert "\x1b" not in piped.stdout
    assert "--settle SECONDS" in piped.stdout


def test_help_all_is_listed_for_commands_with_many_flags_only() -> None:
    assert "--help-all" in page_text("opm index add", 80)
    assert "--help-all" not in page_text("opm image ls", 80)


def test_groups_of_flags_are_contiguous_and_special_ones_are_last() -> None:
    panels = list(group_by_panel(commands()["opm index update"].params))
    assert panels[:2] == ["Options", "Result"]
    assert set(panels[2:]) <= SPECIAL_PANELS
    assert panels[-1] == "Registry access"


@pytest.mark.parametrize("path", commands())
def test_examples_are_of_the_command_itself(path: str) -> None:
    command = re.compile(rf"(?:^|\| |<\(){re.escape(path)}\b")
    content = describe_command(context(path))
    assert [example for example in content.examples if not command.search(example)] == []
    assert content.examples or content.commands or commands()[path].hidden


@pytest.mark.parametrize(
    ("alias", "path"),
    [
        ("opm alpha bundle", "opm bundle"),
        ("opm alpha bundle push", "opm image push"),
        ("opm bundle push", "opm image push"),
        ("opm image cp", "opm image copy"),
        ("opm alpha", "opm alpha"),
        ("opm image copy", "opm image copy"),
    ],
)
def test_aliases(alias: str, path: str) -> None:
    assert canonical_path(alias) == path


def test_content_is_what_other_formats_need() -> None:
    content = describe_command(context("opm image cp"))
    assert content.usage == "opm image cp [OPTIONS] SOURCE DESTINATION"
    assert [argument.name for argument in content.arguments] == ["SOURCE", "DESTINATION"]
    assert content.examples[0] == "opm image cp quay.io/me/catalog:1 oci:backup:catalog-1"
    flags = {flag.name: flag for flags in content.panels.values() for flag in flags}
    assert flags["--platform"].value
    assert flags["--help"].short == "-h"
    assert "Examples" not in content.description


@pytest.mark.parametrize("path", commands())
def test_help_is_not_longer_than_a_page(path: str) -> None:
    assert len(page_text(path, 80).splitlines()) <= 50


def test_all_examples_are_in_full_help() -> None:
    short, full = (page_text("opm mirror", 80, full=full) for full in (False, True))
    assert "opm mirror mirror.tar" not in short
    assert "More examples and flags with --help-all:" in short
    assert "opm mirror mirror.tar" in full


def test_help_of_opm_begins_with_what_most_users_look_for() -> None:
    page = page_text("opm", 80)
    examples, commands = page.index("Examples:"), page.index("Commands:")
    assert examples < page.index("  opm index add -b") < commands
    listed = re.findall(r"^  ([a-z]+)  ", page[commands:], re.MULTILINE)
    assert listed[:5] == ["index", "bundle", "render", "validate", "serve"]


def test_help_all_of_groups_lists_the_commands_in_them() -> None:
    page = page_text("opm", 80, full=True)
    assert re.search(r"^  index add +Add bundles", page, re.MULTILINE)
    assert re.search(r"^  alpha bundle +Generate", page, re.MULTILINE)
    assert "  alpha bundle build" not in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        (["help", "index", "add", "--all"], ["index", "add", "--help-all"]),
        (["help", "index", "add", "--help-all"], ["index", "add", "--help-all"]),
        (["help", "index", "add"], ["index", "add", "--help"]),
        (["help", "--all"], ["--help-all"]),
        (["help"], ["--help"]),
        (["alpha", "--help-all"], ["help", "alpha", "--all"]),
    ],
)
def test_help_as_command_and_as_flag(
    arguments: list[str], same: list[str], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    pages = []
    for words in (arguments, same):
        assert run(words) == 0
        pages.append(capsysbinary.readouterr().out)
    assert pages[0] == pages[1]
    assert pages[0].startswith(b"Add bundles" if "add" in arguments else (b"Build", b"Commands that"))
