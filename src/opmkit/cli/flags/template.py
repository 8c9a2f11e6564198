"""Flags of commands that edit templates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from opmkit.cli.output.console import OutputFormat
from opmkit.cli.output.errors import conflicting_flags
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import given_flags

if TYPE_CHECKING:
    from opmkit import EdgeOptions

EDGES_PANEL = "Update edges"
_POSITIONS = ("replaces", "after", "before", "by-version")


@dataclass(frozen=True, slots=True)
class EdgeFlags:
    """Flags for the update edges of a bundle in the channels of a template."""

    panel: ClassVar[str] = EDGES_PANEL

    replaces: str | None = flag(
        None, 'Bundle of the channel to replace, "" for none; default: the head of the channel', metavar="BUNDLE"
    )
    skips: list[str] | None = flag(None, "Bundles to skip", metavar="BUNDLE,...")
    skip_range: str | None = flag(
        None,
        'Range of versions to skip, "" for none; default: that of the bundle, or of the source channel',
        metavar="RANGE",
    )
    after: str = flag(
        "", "Insert it after this bundle: what replaced this bundle replaces the new one", metavar="BUNDLE"
    )
    before: str = flag("", "Insert it before this bundle, which replaces it from then on", metavar="BUNDLE")
    by_version: bool = flag(False, "Insert a bundle that is not the newest at the position of its version")

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

    dry_run: bool = flag(False, "Print the difference as a unified diff, and write nothing")
    fail_on_change: bool = flag(
        False, "Fail if a template would change; prints the difference and writes nothing", "--check"
    )
    output: OutputFormat = flag(OutputFormat.TEXT, "Output format: text or json", "-o")

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
