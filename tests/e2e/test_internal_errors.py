"""Exceptions that nobody expects are one line with a hint; ``--debug`` adds the traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

REPORT = (
    "Error: internal error: ZeroDivisionError: division\\nby zero\n"
    "  hint: report this as an issue of opmkit, with the output of the same command with --debug\n"
)
PATCH = """
import sys
sys.argv = {argv!r}
import {module} as module

def fail(*args, **kwargs):
    raise {error}

module.{function} = fail
from opmkit.cli import entry
entry.{program}()
"""
DEFECT = 'ZeroDivisionError("division\\nby zero")'
FUNCTIONS = {
    "opm": ("opmkit.bundle.validation.sources", "select_sources"),
    "initializer": ("opmkit.index.change", "change_database"),
    "registry_server": ("opmkit.server.serve", "serve_database"),
    "configmap_server": ("opmkit.cli.entrypoints", "_read_in_subprocess"),
}
COMMANDS = {
    "opm": ["bundle", "validate", "."],
    "initializer": [],
    "registry_server": [],
    "configmap_server": ["-c", "catalog", "-n", "olm"],
}


def run_defective(
    directory: Path, program: str, *arguments: str, error: str = DEFECT
) -> subprocess.CompletedProcess[str]:
    """Run a program one of whose functions raises ``error``."""
    module, function = FUNCTIONS[program]
    argv = [program, *COMMANDS[program], *arguments]
    code = PATCH.format(argv=argv, module=module, function=function, error=error, program=program)
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "GRPC_VERBOSITY": "NONE"},
    )


@pytest.mark.parametrize("program", FUNCTIONS)
def test_defect_is_one_line_with_the_place_to_report_it(program: str, tmp_path: Path) -> None:
    done = run_defective(tmp_path, program)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == REPORT


@pytest.mark.parametrize("program", FUNCTIONS)
def test_debug_adds_the_traceback(program: str, tmp_path: Path) -> None:
    done = run_defective(tmp_path, program, "--debug")
    assert done.returncode == 1
    assert "Traceback (most recent call last):" in done.stderr
    assert "builtins.ZeroDivisionError: division\\nby zero" in done.stderr
    assert done.stderr.endswith(REPORT)


def test_defect_is_reported_in_json_too(tmp_path: Path) -> None:
    done = run_defective(tmp_path, "opm", "--output", "json")
    document, _, text = done.stderr.partition("\n")
    assert json.loads(document)["error"]["message"].startswith("internal error: ZeroDivisionError: ")
    assert (done.stdout, text) == ("", REPORT)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("MemoryError()", "Error: out of memory\n  hint: raise the memory limit, or pass less input to one command\n"),
        ("RecursionError('too deep')", "Error: internal error: RecursionError: too deep\n"),
        ("OSError(28, 'No space left on device', 'file')", "Error: file: No space left on device\n"),
        ("ExceptionGroup('several', [ValueError('first')])", "Error: internal error: ExceptionGroup: several"),
        ("KeyError('name')", "Error: internal error: KeyError: 'name'\n"),
        ("BrokenPipeError()", ""),
    ],
)
def test_other_exceptions(error: str, message: str, tmp_path: Path) -> None:
    done = run_defective(tmp_path, "opm", error=error)
    assert done.returncode == 1
    assert done.stderr.startswith(message)
    assert "Traceback" not in done.stderr


def test_incomplete_installation(tmp_path: Path) -> None:
    code = "import sys; sys.modules['typer'] = None; from opmkit.cli.entry import opm; opm()"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: internal error: ModuleNotFoundError: import of typer halted; None in ")
