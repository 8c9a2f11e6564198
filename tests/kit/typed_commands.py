"""Commands of a page, typed into a terminal of 80 columns, and what is wrong with their output there."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.kit.command_lines import resolve, simple_commands
from tests.kit.screen import misfits, run_program_on_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

COLUMNS = 80
_MARK = "@typed@"
_TEXT_FORMATS = {"text", "wide"}
_OUTPUT = re.compile(r"(?:-o|--output)[= ](\w[\w-]*)")
_DOCUMENTS = {
    "opm alpha bundle generate",
    "opm alpha convert-template basic",
    "opm alpha render-graph",
    "opm alpha render-template",
    "opm bundle render",
    "opm completion",
    "opm image attest",
    "opm image verify-attestation",
    "opm index manifests",
    "opm init",
    "opm render",
    "opm serve",
}
"""Commands that print documents or logs, whose lines are as they are."""
_INTERNAL = ("internal error", "Traceback (most recent call last)")


@dataclass(frozen=True)
class TypedCommand:
    """A command, and what the terminal received until the next one."""

    text: str
    output: str

    def problems(self) -> Iterator[str]:
        """Yield internal errors, and lines of text for people that do not fit the terminal."""
        yield from terminal_problems(self.text, self.output)


def terminal_problems(command: str, output: str) -> Iterator[str]:
    """Yield internal errors in the output of a command line, and lines for people that do not fit a terminal."""
    yield from (f"{command}: {text}" for text in _INTERNAL if text in output)
    if is_for_people(command):
        lines = misfits(output, COLUMNS)
        if command.startswith("opm bundle rules "):
            lines = [line for line in lines if not line.startswith("    ")]  # examples, which are documents
        lines = [line for line in lines if not line.startswith("time=")]  # logs of a server in the background
        yield from (f"{command}: does not fit {COLUMNS} columns: {line}" for line in lines)


def is_for_people(command: str) -> bool:
    """Return whether the output of a command line is text for people: neither a document, nor of another program."""
    last = (simple_commands(command) or [[""]])[-1]
    if last[0] != "opm":
        return False
    _, path, rest = resolve(last)
    formats = _OUTPUT.findall(" ".join(rest))
    if "--dry-run" in rest and path.startswith(("opm template", "opm bundle build", "opm bundle extract")):
        return False  # prints differences of files, or manifests
    if path == "opm report merge" and not formats:
        return False  # prints the format of the reports
    return path not in _DOCUMENTS and _TEXT_FORMATS.issuperset(formats)


def type_commands(
    commands: Sequence[str], directory: Path, env: Mapping[str, str], *, progress: str = "auto"
) -> tuple[int, list[TypedCommand]]:
    """Run commands with bash on a terminal until one fails; return the status, and each with its output."""
    prologue = []
    if progress != "auto":
        prologue.append(
            f'opm() {{ case $1 in -*) command opm "$@" ;; *) command opm --progress {progress} "$@" ;; esac; }}'
        )
    script = ["bash", "-c", _marked(prologue, commands)]
    screen = run_program_on_terminal(
        script, columns=COLUMNS, directory=directory, env={**env, "TERM": "xterm"}, timeout=280
    )
    return screen.status, _split(commands, screen.output)


def run_commands(commands: Sequence[str], directory: Path, env: Mapping[str, str]) -> list[TypedCommand]:
    """Run commands with bash, whose output goes to a file, and return each with its output."""
    script = ["bash", "-c", _marked(["exec 2>&1"], commands)]
    done = subprocess.run(script, cwd=directory, env=env, stdout=subprocess.PIPE, text=True, check=False)
    return _split(commands, done.stdout)


def _marked(prologue: Sequence[str], commands: Sequence[str]) -> str:
    """Return a script that prints the number of each command before its output."""
    lines = ["set -euo pipefail", *prologue]
    for number, command in enumerate(commands):
        lines += [f"printf '%s\\n' {shlex.quote(f'{_MARK}{number}')}", command]
    return "\n".join(lines)


def _split(commands: Sequence[str], output: str) -> list[TypedCommand]:
    parts = re.split(rf"{_MARK}(\d+)\r?\n", output)[1:]  # those of a loop are repeated
    return [TypedCommand(commands[int(number)], text) for number, text in zip(parts[::2], parts[1::2], strict=True)]


def assert_fits(typed: tuple[int, list[TypedCommand]]) -> str:
    """Assert that all typed commands succeed and that their output fits the terminal; return the output."""
    status, commands = typed
    assert status == 0, f"{commands[-1].text}: {commands[-1].output}"
    problems = [problem for command in commands for problem in command.problems()]
    assert not problems, "\n".join(problems)
    return "".join(command.output for command in commands)
