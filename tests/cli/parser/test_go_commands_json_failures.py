"""Failures as JSON on stderr."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest
import typer

from opmkit.cli.parser.go_commands import GoGroup
from opmkit.cli.parser.registration import add_command
from opmkit.core.errors import OpmkitError


def fail_with(capsys: pytest.CaptureFixture[str], error: Exception, *argv: str) -> str:
    """Return the stderr of a failing command with an output flag; it prints nothing to stdout."""

    def report(
        output: Annotated[str, typer.Option("--output", "-o")] = "text",
        names: Annotated[list[str] | None, typer.Option("--names", "-n")] = None,
    ) -> None:
        raise error

    def write(output: Annotated[Path, typer.Option("--output", "-o")] = Path()) -> None:
        raise error

    app = typer.Typer(cls=GoGroup, add_completion=False)
    app.callback()(lambda: None)
    for name, function in (("report", report), ("validate", report), ("write", write)):
        add_command(app, name, function)
    with pytest.raises((OpmkitError, OSError, typer.TyperException)):
        app(args=list(argv), prog_name="opm", standalone_mode=False)
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


FAILURE = OpmkitError("x: not found", hint="Look elsewhere.")


@pytest.mark.parametrize(
    "flags", [["--output", "json"], ["--output=json"], ["-o", "json"], ["-o=json"], ["-ojson"], ["-n", "x", "-ojson"]]
)
def test_failures_are_json_if_the_output_is_json(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    failure = {"error": {"message": "x: not found", "hint": "look elsewhere", "exit_code": 1}}
    assert json.loads(fail_with(capsys, FAILURE, "report", *flags)) == failure
    assert json.loads(fail_with(capsys, FAILURE, "validate", *flags)) == {"passed": False, **failure}


@pytest.mark.parametrize(
    "argv",
    [
        ["report"],
        ["report", "--output", "text"],
        ["report", "-n", "json"],
        ["report", "--names=json"],
        ["write", "--output", "json"],
        ["report", "--", "--output", "json"],
    ],
)
def test_other_failures_are_not_json(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert fail_with(capsys, FAILURE, *argv) == ""


def test_usage_and_system_errors_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = json.loads(fail_with(capsys, FAILURE, "report", "--bogus", "--output", "json"))["error"]
    assert wrong["message"] == "unknown flag: --bogus"
    disk = json.loads(fail_with(capsys, OSError(28, "No space left", "/x"), "report", "-o", "json"))["error"]
    assert (disk["message"], disk["exit_code"]) == ("/x: No space left", 1)
    tag_moved = type("Moved", (OpmkitError,), {"exit_code": 4})("moved")
    moved = json.loads(fail_with(capsys, tag_moved, "report", "-o", "json"))["error"]
    assert moved == {"message": "moved", "hint": "", "exit_code": 4}
    assert fail_with(capsys, BrokenPipeError(), "report", "-o", "json") == ""
