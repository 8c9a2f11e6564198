"""Flags for the new image and the output of commands that change or build an index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit import OnConflict
from opmkit.cli.flags.container_tools import PUSH_HELP
from opmkit.cli.help.panels import COMPATIBILITY_PANEL
from opmkit.cli.output.console import OutputFormat
from opmkit.cli.output.errors import UsageError, conflicting_flags

if TYPE_CHECKING:
    from opmkit import IndexPlan, MigrationLevel

RESULT_PANEL = "Result"
CATALOG_PANEL = "File-based catalogs"
WRITERS_PANEL = "Other writers of the tag"


@dataclass(frozen=True, slots=True)
class OutputFlags:
    """Flags for the output of a change."""

    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would change without changing it", rich_help_panel=RESULT_PANEL),
    ] = False
    output: Annotated[
        OutputFormat,
        typer.Option("--output", help="Output format: text or json", rich_help_panel=RESULT_PANEL),
    ] = OutputFormat.TEXT


@dataclass(frozen=True, slots=True)
class TargetFlags:
    """Flags for the new index image."""

    tag: Annotated[
        str | None,
        typer.Option(
            "--tag",
            "-t",
            metavar="IMAGE",
            help="Name of the new image; default: operator-registry-index:latest",
            rich_help_panel=RESULT_PANEL,
        ),
    ] = None
    push: Annotated[
        bool,
        typer.Option(
            "--push",
            help=PUSH_HELP,
            rich_help_panel=RESULT_PANEL,
        ),
    ] = False
    binary_image: Annotated[
        str | None,
        typer.Option(
            "--binary-image",
            "-i",
            metavar="IMAGE",
            help="Base image, or scratch; default: the base of the index to start from, or the last opm image that "
            "serves databases and file-based catalogs",
            rich_help_panel=RESULT_PANEL,
        ),
    ] = None
    to_fbc: Annotated[
        bool,
        typer.Option(
            "--to-fbc",
            help="Build a file-based catalog, even from a database",
            rich_help_panel=CATALOG_PANEL,
        ),
    ] = False
    migrate_level: Annotated[
        str,
        typer.Option(
            "--migrate-level",
            metavar="LEVEL",
            help="Migration of bundles that are new in a file-based catalog: none, bundle-object-to-csv-metadata or "
            "all; default: as for its other bundles",
            rich_help_panel=CATALOG_PANEL,
        ),
    ] = ""
    platform: Annotated[
        list[str] | None,
        typer.Option(
            "--platform",
            metavar="OS/ARCH[/VARIANT],...",
            help="Platforms of the new image; default: all platforms of the base image",
            rich_help_panel=RESULT_PANEL,
        ),
    ] = None
    on_conflict: Annotated[
        OnConflict,
        typer.Option(
            "--on-conflict",
            help="What to do if another writer moves the tag during the run: fail (exit code 4), rebase (start again "
            "from the new image) or overwrite",
            rich_help_panel=WRITERS_PANEL,
        ),
    ] = OnConflict.FAIL
    settle: Annotated[
        float,
        typer.Option(
            "--settle",
            metavar="SECONDS",
            min=0,
            help="Time that the tag of the index to start from must stay unchanged after its update, to detect other "
            "writers",
            rich_help_panel=WRITERS_PANEL,
        ),
    ] = 1.0
    generate: Annotated[
        bool,
        typer.Option(
            "--generate",
            help="Write the index and a Dockerfile to the working directory without building an image",
            rich_help_panel=COMPATIBILITY_PANEL,
        ),
    ] = False
    out_dockerfile: Annotated[
        str,
        typer.Option(
            "--out-dockerfile",
            "-d",
            metavar="FILE",
            help="Name of the Dockerfile to write with --generate",
            rich_help_panel=COMPATIBILITY_PANEL,
        ),
    ] = "index.Dockerfile"

    @property
    def level(self) -> MigrationLevel | None:
        """Migration level; raises UsageError if it is unknown."""
        from opmkit.cli.output.fbc import parse_level

        return parse_level(self.migrate_level) if self.migrate_level else None

    def plan(
        self,
        from_index: str | None,
        output_flags: OutputFlags,
        also_tags: tuple[str, ...] = (),
    ) -> IndexPlan:
        """Return the plan of the new index.

        Raises:
            UsageError: the flags conflict.
            ImageToolsError: a platform is invalid.
        """
        from opmkit import IndexPlan, Platform

        if self.generate and self.platform:
            raise conflicting_flags("--platform", "--generate")
        in_place = from_index is not None and Path(from_index).exists() and not self.tag and not self.generate
        if in_place:
            self._check_in_place(from_index, also_tags)
        return IndexPlan(
            tags=() if in_place else (self.tag or _default_tag(), *also_tags),
            from_index=from_index,
            to_catalog=self.to_fbc,
            level=self.level,
            binary_image=self.binary_image,
            platforms=tuple(map(Platform.parse, self.platform or ())),
            push=self.push,
            on_conflict=self.on_conflict,
            settle=self.settle,
            context=Path.cwd() if self.generate else None,
            dockerfile=self.out_dockerfile,
            dry_run=output_flags.dry_run,
        )

    def plan_with_default_tag(
        self, from_index: str, output_flags: OutputFlags, also_tags: tuple[str, ...]
    ) -> IndexPlan:
        """Return the plan of an image, which has the default name if no name is given."""
        return replace(self, tag=self.tag or _default_tag()).plan(from_index, output_flags, also_tags)

    def _check_in_place(self, from_index: str | None, also_tags: tuple[str, ...]) -> None:
        """Raise UsageError for flags that require an image."""
        flags = {
            "--push": self.push,
            "--platform": self.platform,
            "--binary-image": self.binary_image,
            "--also-tag": also_tags,
        }
        for flag in (flag for flag, value in flags.items() if value):
            raise UsageError(
                f"{flag}: unsupported without an image: {from_index} is changed in place",
                hint=f"name the new image with --tag, or omit {flag}",
            )


@dataclass(frozen=True, slots=True)
class NamedTargetFlags(TargetFlags):
    """Flags for the new index image of commands that never write to an image with the default name."""

    tag: Annotated[
        str | None,
        typer.Option("--tag", "-t", metavar="IMAGE", help="Name of the new image", rich_help_panel=RESULT_PANEL),
    ] = None


def _default_tag() -> str:
    """Return the name of an index image that the command line does not name."""
    from opmkit import IndexPlan

    return IndexPlan().tags[0]
