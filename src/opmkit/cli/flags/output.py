"""Flags for the format of results and of progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from opmkit.cli.output.console import ListFormat, OutputFormat, TableFormat, ValueFormat
from opmkit.cli.parser.declaration import flag
from opmkit.cli.progress.command import ProgressFormat, set_progress_format

Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="Output format: text or json")]
ValueOutput = Annotated[ValueFormat, typer.Option("--output", "-o", help="Output format: text, json or yaml")]
ListOutput = Annotated[
    ListFormat,
    typer.Option("--output", "-o", help="Output format: text, wide (all columns on any terminal), json or yaml"),
]
TableOutput = Annotated[
    TableFormat, typer.Option("--output", "-o", help="Output format: text, wide (all columns on any terminal) or json")
]
PROGRESS_HELP = "Progress on stderr: auto (bars on a terminal), json (one event per line) or none"
ProgressOption = Annotated[
    ProgressFormat, typer.Option("--progress", help=PROGRESS_HELP, rich_help_panel="Registry access")
]


@dataclass(frozen=True, slots=True)
class ProgressFlags:
    """The format of progress of commands that do not access registries."""

    progress: ProgressFormat = flag(ProgressFormat.AUTO, PROGRESS_HELP)

    def check(self) -> None:
        """Set the format of progress for the command."""
        set_progress_format(self.progress)
