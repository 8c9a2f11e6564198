"""Conversion of command line values."""

from __future__ import annotations

import os
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from opmkit.cli.parser.registration import add_command


class Color(StrEnum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


def convert(*argv: str) -> dict[str, Any]:
    """Return the values that a command with parameters of every kind is called with."""
    seen: dict[str, Any] = {}

    def probe(
        text: Annotated[str, typer.Option()] = "",
        switch: Annotated[bool, typer.Option()] = False,
        path: Annotated[Path | None, typer.Option()] = None,
        color: Annotated[Color, typer.Option()] = Color.RED,
        names: Annotated[list[str] | None, typer.Option()] = None,
        number: Annotated[float, typer.Option(min=0)] = 1.0,
        words: Annotated[list[str] | None, typer.Argument()] = None,
    ) -> None:
        seen.update(text=text, switch=switch, path=path, color=color, names=names, number=number, words=words)

    app = typer.Typer(add_completion=False)
    add_command(app, "probe", probe)
    app(args=list(argv), prog_name="opm", standalone_mode=False)
    return seen


def test_values_of_every_type() -> None:
    arguments = ("--text=a", "--switch", "--path=b", "--color=blue", "--names=c,d", "--number=2", "e")
    values = convert(*arguments)
    assert values == {
        "text": "a",
        "switch": True,
        "path": Path("b"),
        "color": Color.BLUE,
        "names": ["c", "d"],
        "number": 2.0,
        "words": ["e"],
    }
    assert isinstance(values["color"], Color)


@pytest.mark.parametrize("argument", ["--color=green", "--number=x", "--number=-1"])
def test_invalid_values_are_errors_of_typer(argument: str) -> None:
    with pytest.raises(typer.TyperException):
        convert(argument)


@pytest.mark.parametrize(
    "line", ["image ls --output json --debug", "image prune --older-than 0.5", "image prune --older-than 24"]
)
def test_plain_values_are_converted_without_pydantic(line: str, tmp_path: Path) -> None:
    program = (
        "import sys; from opmkit.cli.main import run; "
        "status = run(sys.argv[1:]); "
        "print('pydantic' in sys.modules, file=sys.stderr); sys.exit(status)"
    )
    argv = [sys.executable, "-c", program, *line.split()]
    env = {**os.environ, "OPM_STORE": str(tmp_path)}
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=env)
    assert done.stderr.strip().splitlines()[-1] == "False"
