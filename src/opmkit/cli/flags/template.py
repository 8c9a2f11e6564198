"""Flags of commands that edit templates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.output.console import OutputFormat
from opmkit.cli.output.errors import conflicting_flags
from opmkit.cli.parser.go_commands import given_flags

if TYPE_CHECKING:
    from opmkit import EdgeOptions

EDGES_PANEL = "Update edges"
_POSITIONS = ("replaces", "after", "before", "by-version")


@dataclass(frozen=True, slots=True)
class EdgeFlags:
    """Flags for the update edges of a bundle in the channels of a template."""

    replaces: Annotated[
        str | None,
        typer.Option(
            "--replaces",
            metavar="BUNDLE",
            help='Bundle of the channel to replace, "" for none; default: the head of the channel',
            rich_help_panel=EDGES_PANEL,
        ),
    ] = None
    skips: Annotated[
        list[str] | None,
        typer.Option("--skips", metavar="BUNDLE,...", help="Bundles to skip", rich_help_panel=EDGES_PANEL),
    ] = None
    skip_range: Annotated[
        str | None,
        typer.Option(
            "--skip-range",
            metavar="RANGE",
            help='Range of versions to skip, "" for none; default: that of the bundle, or of the source channel',
            rich_help_panel=EDGES_PANEL,
        ),
    ] = None
    after: Annotated[
        str,
        typer.Option(
            "--after",
            metavar="BUNDLE",
            help="Insert it after this bundle: what replaced this bundle replaces the new one",
            rich_help_panel=EDGES_PANEL,
        ),
    ] = ""
    before: Annotated[
        str,
        typer.Option(
            "--before",
            metavar="BUNDLE",
            help="Insert it before this bundle, which replaces it from then on",
            rich_help_panel=EDGES_PANEL,
        ),
    ] = ""
    by_version: Annotated[
        bool,
        typer.Option(
            "--by-version",
            help="Insert a bundle that is not the newest at the position of its version",
            rich_help_panel=EDGES_PANEL,
        ),
    ] = False

    def options(self, ctx: typer.Context) -> EdgeOptions:
        """Return the edges; raises UsageError for several positions."""
        from opmkit import EdgeOptions

        given = given_flags(ctx)
        positions = [f"--{flag}" for flag in _POSITIONS if flag in given]
        if len(positions) > 1:
            raise conflicting_flags(positions[0], positions[1], ctx.command_path)
        skips = tuple(self.skips or ()) if "skips" in given else None
        return EdgeOptions(self.replaces, skips, self.skip_range, self.after, self.before, self.by_version)


@dataclass(frozen=True, slots=True)
class EditFlags:
    """Flags for the result of an edit."""

    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the difference as a unified diff, and write nothing")
    ] = False
    fail_on_change: Annotated[
        bool, typer.Option("--check", help="Fail if a template would change; prints the difference and writes nothing")
    ] = False
    output: Annotated[OutputFormat, typer.Option("--output", "-o", help="Output format: text or json")] = (
        OutputFormat.TEXT
    )

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing is written."""
        return self.dry_run or self.fail_on_change


CreateChannel = Annotated[
    bool, typer.Option("--create-channel", help="Create channels that the template does not have")
]
DefaultChannel = Annotated[
    str, typer.Option("--default-channel", metavar="NAME", help="Default channel to set for the package")
]
