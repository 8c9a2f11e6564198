"""The documents tell what the command does: their examples run, and no command or flag is missing from them."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command

from opmkit.cli.main import build_app
from tests.kit.opm import FIXTURES, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOT = FIXTURES.parent
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)


def examples(document: Path) -> str:
    """The commands of a document's console blocks, as one script."""
    commands = [command for block in BLOCK.findall(document.read_text()) for command in COMMAND.findall(block)]
    return "\n".join(["set -euo pipefail", *commands])


@pytest.mark.parametrize(("name", "bundle"), [("README.md", "v0.1.0"), ("docs/tour.md", "v0.3.0")])
def test_the_examples_run_one_after_the_other(name: str, bundle: str, tmp_path: Path) -> None:
    script = examples(ROOT / name)
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
    assert f"lagoon-operator.{bundle}" in done.stdout


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the tree with its path, groups left out."""
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


def test_every_command_and_flag_is_documented_and_has_help() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    for path, command in commands(get_command(build_app())):
        assert re.search(rf"\b{path[-1]}\b", text), f"{path} is not documented"
        assert command.help, f"{path} has no help"
        assert "opm " in command.help, f"the help of {path} has no example"
        for param in command.params:
            for flag in param.opts:
                if flag.startswith("--") and not param.hidden:
                    assert f"`{flag}" in text, f"{flag} of {path} is not documented"


def test_relative_links_lead_somewhere() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
