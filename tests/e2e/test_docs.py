"""The examples of the documentation run, its links resolve, and it describes the existing commands and flags."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.cli.help_content import canonical_path
from opmkit.cli.help_text import split_help
from opmkit.cli.main import build_app
from tests.kit.command_lines import ROOT, console_script
from tests.kit.opm import FIXTURES, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")
FLAG = re.compile(r"--[A-Za-z][A-Za-z0-9-]*")
PROGRAMS: dict[str, list[str | Path]] = {
    "registry-server": [PROGRAM.parent / "registry-server"],
    "initializer": [PROGRAM.parent / "initializer"],
    "configmap-server": [PROGRAM.parent / "configmap-server"],
    "scripts/build-runtime": [sys.executable, ROOT / "scripts" / "build_runtime.py"],
}
"""Programs with their own section in commands.md."""


@pytest.mark.parametrize(
    ("name", "bundle"),
    [
        ("docs/operator-sdk.md", "harbor-operator.v0.1.0"),
        ("docs/gate.md", "extra-v2.0.0-2"),
        ("docs/merging.md", "tide-operator.v0.5.0"),
        ("docs/compat.md", "olm.csv.metadata"),
        ("docs/templates.md", "lagoon-operator.v0.3.0"),
    ],
)
def test_examples_run_in_sequence(name: str, bundle: str, tmp_path: Path) -> None:
    script = console_script(ROOT / name)
    assert script.count("opm ") > 4
    (tmp_path / "fixtures").symlink_to(FIXTURES)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert bundle in done.stdout


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Iterate over the commands of a group and its groups, with their paths."""
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


def test_every_command_and_flag_is_documented_and_has_help() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    for path, command in commands(build_app()):
        assert re.search(rf"\b{path[-1]}\b", text), f"{path} is not documented"
        assert command.help, f"{path} has no help"
        assert "opm " in command.help, f"the help of {path} has no example"
        for param in command.params:
            for flag in param.opts:
                if flag.startswith("--") and not param.hidden:
                    assert f"`{flag}" in text, f"{flag} of {path} is not documented"


def test_overview_links_each_command_with_its_summary() -> None:
    section = (ROOT / "docs" / "commands.md").read_text().split("## All commands\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| \[(opm .*)\]\(reference/(.*)\.md\) \| (.*) \|$", section, re.MULTILINE)
    paths = {" ".join(("opm", *path)): command for path, command in commands(build_app())}
    documented = {path for path, command in paths.items() if not command.hidden and canonical_path(path) == path}
    assert {path for path, _, _ in rows} == documented
    for path, page, summary in rows:
        assert (page, summary) == (path.replace(" ", "-"), split_help(paths[path].help)[0])


def test_help_names_only_flags_of_the_command() -> None:
    for path, command in commands(build_app()):
        flags = {flag for param in command.params for flag in param.opts} | {"--help", "--help-all"}
        texts = [command.help, *(getattr(param, "help", "") or "" for param in command.params)]
        unknown = {flag for text in texts for flag in FLAG.findall(text)} - flags
        assert not unknown, f"the help of {path} names {unknown}"


@cache
def flags_of_commands() -> dict[tuple[str, ...], dict[str, str]]:
    """Return the flags of each command of opm, with their help, by its path."""
    return {
        path: {flag: getattr(param, "help", "") or "" for param in command.params for flag in param.opts}
        for path, command in commands(build_app())
    }


def flags_of_section(heading: str) -> set[str]:
    """Return the flags of the commands in a heading of commands.md; of all commands if it contains none."""
    if heading in PROGRAMS:
        done = subprocess.run(
            [*PROGRAMS[heading], "--help"],
            env={**os.environ, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=True,
        )
        return set(FLAG.findall(done.stdout))
    words = {word for word in heading.replace(",", "").split() if word.islower()} - {"opm"}
    if heading.startswith("opm "):
        found = [flags for path, flags in flags_of_commands().items() if words <= set(path) or set(path) <= words]
        assert found, f"no command for the heading {heading!r}"
        return {flag for flags in found for flag in flags}
    return {flag for flags in flags_of_commands().values() for flag in flags}


def test_flags_in_the_tables_of_commands_exist() -> None:
    sections = re.split(r"^##+ ", (ROOT / "docs" / "commands.md").read_text(), flags=re.MULTILINE)[1:]
    for section in sections:
        heading = section.splitlines()[0]
        rows = [line for line in section.splitlines() if line.startswith("|")]
        documented = set(FLAG.findall(" ".join(span for row in rows for span in re.findall(r"`[^`]*`", row))))
        if documented:
            assert documented <= flags_of_section(heading), f"the table of {heading!r} has unknown flags"


@pytest.mark.parametrize(
    ("heading", "group"), [("opm index", "index"), ("opm bundle generate, build, unpack", "bundle")]
)
def test_columns_of_commands_tick_the_flags_that_they_have(heading: str, group: str) -> None:
    section = (ROOT / "docs" / "commands.md").read_text().split(f"## {heading}\n")[1]
    table = re.findall(r"^\|.*\|$", section.split("\n##")[0], re.MULTILINE)
    rows = [re.split(r"(?<!\\)\|", row)[1:-1] for row in table]
    for first, *ticks, _ in rows[2:]:
        documented = {name.strip(): bool(tick.strip()) for name, tick in zip(rows[0][1:-1], ticks, strict=True)}
        for flag in FLAG.findall(first):
            helps = {name: flags_of_commands()[group, name].get(flag) for name in documented}
            meanings = {helps[name] for name, ticked in documented.items() if ticked}
            assert None not in meanings, f"a command without {flag} is ticked"
            # Flags of other commands with the same name and another meaning are described elsewhere.
            assert documented == {name: text in meanings for name, text in helps.items()}, flag


@cache
def anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub creates for the headings of a document."""
    headings = HEADING.findall(FENCED.sub("", document.read_text()))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_relative_links_resolve(document: Path) -> None:
    for target, anchor in LINK.findall(document.read_text()):
        if target.startswith("reference/"):  # a page that the site generates; mkdocs checks these links
            continue
        linked = document.parent / target if target else document
        assert linked.exists(), f"{target} does not exist"
        assert not anchor or anchor in anchors(linked), f"{target}#{anchor} does not exist"
