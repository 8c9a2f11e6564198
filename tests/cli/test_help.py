"""Help texts of commands and flags."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from typer.core import TyperGroup, TyperOption

from opmkit.cli.help.content import canonical_path, parse_examples, split_help
from opmkit.cli.main import build_app
from opmkit.cli.parser.go_commands import GoGroup
from tests.kit.opm import all_commands

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED_FLAGS = {
    "--allow-package-removal",
    "--authfile",
    "--base-image",
    "--cert-dir",
    "--compat",
    "--database",
    "--enable-alpha",
    "--mode",
    "--no-cache",
    "--overwrite-latest",
    "--permissive",
    "--port",
    "--push",
    "--skip-present",
    "--skip-tls-verify",
    "--termination-log",
    "--use-http",
}
"""Flags with the same meaning in all commands."""


def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Iterate over a command and the commands in it, with their paths."""
    yield path, command
    if isinstance(command, TyperGroup):
        for name, child in command.commands.items():
            yield from walk(child, f"{path} {name}")


@cache
def commands() -> dict[str, Any]:
    """Return all commands and groups by path."""
    return dict(walk(all_commands(), "opm"))


@pytest.mark.parametrize("path", commands())
def test_the_first_line_is_a_phrase(path: str) -> None:
    first = commands()[path].help.strip().splitlines()[0]
    assert first[0].isupper()
    assert not first.endswith((".", ":", ","))


@pytest.mark.parametrize("path", commands())
def test_the_help_of_each_parameter_is_a_phrase(path: str) -> None:
    parameters = [parameter for parameter in commands()[path].params if not parameter.hidden]
    assert [parameter.name for parameter in parameters if not parameter.help or parameter.help.endswith(".")] == []


def test_shared_flags_have_the_same_help_in_all_commands() -> None:
    texts: defaultdict[str, set[str | None]] = defaultdict(set)
    for command in commands().values():
        for parameter in command.params:
            if isinstance(parameter, TyperOption) and not parameter.hidden:
                for name in SHARED_FLAGS.intersection(parameter.opts):
                    texts[name].add(parameter.help)
    assert texts.keys() == SHARED_FLAGS
    assert {name: found for name, found in texts.items() if len(found) > 1} == {}


def listed(group: GoGroup, path: str) -> Iterator[tuple[str, Any]]:
    """Iterate over the commands of a group and of the groups in it as they are listed, without importing any."""
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, GoGroup):
            yield from listed(group.get_command(None, name), f"{path} {name}")


def test_commands_that_are_not_imported_have_the_first_lines_of_their_help() -> None:
    summaries = {path: command.help for path, command in listed(build_app(load_all=False), "opm")}
    assert summaries == {path: split_help(command.help)[0] for path, command in commands().items() if path != "opm"}


@pytest.mark.parametrize("path", commands())
def test_examples_run_the_command_that_they_describe(path: str) -> None:
    canonical = canonical_path(path)
    for example in parse_examples(inspect.cleandoc(commands()[path].help))[1]:
        assert re.search(rf"(^|[\s(|]){re.escape(canonical)}\b", example), example
