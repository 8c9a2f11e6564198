"""Flags of commands that change an index."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.console import OutputFormat
from opmkit.cli.container_tools import PUSH_HELP
from opmkit.cli.errors import UsageError, conflicting_flags
from opmkit.cli.go_commands import given_flags
from opmkit.cli.help_flags import COMPATIBILITY_PANEL
from opmkit.cli.signing_flags import RequireSignature
from opmkit.index.modes import OnConflict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.index.fbc.migrate import MigrationLevel
    from opmkit.index.image.build import IndexPlan
    from opmkit.index.operations.add.options import AddOptions, Placement

RESULT_PANEL = "Result"
CATALOG_PANEL = "File-based catalogs"
WRITERS_PANEL = "Other writers of the tag"
INDEX_HELP = "Index image, database file or catalog directory"

Permissive = Annotated[
    bool,
    typer.Option(
        "--permissive", help="Report failures as warnings and exit with code 0", rich_help_panel=COMPATIBILITY_PANEL
    ),
]
DefaultChannels = Annotated[
    list[str] | None,
    typer.Option(
        "--default-channel",
        metavar="PACKAGE=CHANNEL,...",
        help="Default channels to set for packages whose default channel is removed",
    ),
]
Database = Annotated[Path, typer.Option("--database", "-d", metavar="FILE", help="Database file")]
FromIndex = Annotated[
    str | None,
    typer.Option(
        "--from-index",
        "-f",
        metavar="INDEX",
        help="Index to start from: an image, or a database file or catalog directory, which is changed in place unless "
        "--tag is given",
    ),
]
BundleImages = Annotated[
    list[str] | None,
    typer.Option("--bundle-images", "-b", metavar="IMAGE,...", help="Bundle images, or bundle directories as ./DIR"),
]
Packages = Annotated[
    list[str] | None, typer.Option("--packages", "-p", metavar="NAME,...", help="Packages to keep (required)")
]
AlsoTag = Annotated[
    list[str] | None, typer.Option("--also-tag", metavar="IMAGE,...", help="Additional names of the new image")
]
AllowPackageRemoval = Annotated[
    bool,
    typer.Option("--allow-package-removal", help="Remove a package if the heads of all its channels are deprecated"),
]


@dataclass(frozen=True, slots=True)
class AddFlags:
    """Flags for adding bundles."""

    mode: Annotated[
        str, typer.Option(metavar="MODE", help="How to create the update graph: replaces, semver or semver-skippatch")
    ] = "replaces"
    permissive: Permissive = False
    overwrite_latest: Annotated[
        bool,
        typer.Option(
            "--overwrite-latest",
            help="Replace the head of a channel by a bundle of the same name",
            rich_help_panel=COMPATIBILITY_PANEL,
        ),
    ] = False
    enable_alpha: Annotated[
        bool,
        typer.Option("--enable-alpha", help="Support olm.substitutesFor", rich_help_panel=COMPATIBILITY_PANEL),
    ] = False
    skip_present: Annotated[
        bool,
        typer.Option("--skip-present", help="Skip bundles that the index contains from the same image, by digest"),
    ] = False
    require_signature: RequireSignature = ""

    def options(self, placement: Placement | None = None, level: MigrationLevel | None = None) -> AddOptions:
        """Return the options of the operation; raises CatalogError for an unknown mode."""
        from opmkit.index.modes import UpdateMode
        from opmkit.index.operations.add.options import AddOptions

        return AddOptions(
            UpdateMode.parse(self.mode),
            self.permissive,
            self.overwrite_latest,
            self.enable_alpha,
            self.skip_present,
            placement,
            level,
        )


@dataclass(frozen=True, slots=True)
class PlacementFlags:
    """Flags for the channels and update edges of a bundle in a file-based catalog."""

    channel: Annotated[
        list[str] | None,
        typer.Option(
            "--channel",
            metavar="NAME,...",
            help="Channels to add the bundles to; default: the channels in their annotations",
            rich_help_panel=CATALOG_PANEL,
        ),
    ] = None
    default_channel: Annotated[
        str | None,
        typer.Option(
            "--default-channel",
            metavar="NAME",
            help="Default channel to set for the package",
            rich_help_panel=CATALOG_PANEL,
        ),
    ] = None
    replaces: Annotated[
        str | None,
        typer.Option(
            "--replaces",
            metavar="BUNDLE",
            help='Bundle to replace, "" for none; default: as in the ClusterServiceVersion',
            rich_help_panel=CATALOG_PANEL,
        ),
    ] = None
    skips: Annotated[
        list[str] | None,
        typer.Option(
            "--skips",
            metavar="BUNDLE,...",
            help="Bundles to skip; default: as in the ClusterServiceVersion",
            rich_help_panel=CATALOG_PANEL,
        ),
    ] = None
    skip_range: Annotated[
        str | None,
        typer.Option(
            "--skip-range",
            metavar="RANGE",
            help="Range of versions to skip; default: as in the ClusterServiceVersion",
            rich_help_panel=CATALOG_PANEL,
        ),
    ] = None

    def placement(self, ctx: typer.Context, bundles: list[str]) -> Placement | None:
        """Return the placement, or None if no flag is given; raises UsageError for edges of several bundles."""
        from opmkit.index.operations.add.options import Placement

        given = given_flags(ctx)
        if len(bundles) > 1 and given & {"replaces", "skips", "skip-range"}:
            raise UsageError("--replaces, --skips and --skip-range require exactly one bundle", ctx.command_path)
        channels = tuple(self.channel or ()) if "channel" in given else None
        skips = tuple(self.skips or ()) if "skips" in given else None
        placement = Placement(channels, self.replaces, skips, self.skip_range, self.default_channel)
        return None if placement == Placement() else placement


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
            help="Base image, or scratch; default: the base of --from-index, or the last opm image that serves "
            "databases and file-based catalogs",
            rich_help_panel=RESULT_PANEL,
        ),
    ] = None
    to_fbc: Annotated[
        bool,
        typer.Option(
            "--to-fbc",
            help="Build a file-based catalog, even if --from-index is a database",
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
            help="Time that the tag of --from-index must stay unchanged after its update, to detect other writers",
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
        from opmkit.cli.fbc_output import parse_level

        return parse_level(self.migrate_level) if self.migrate_level else None

    def plan(self, from_index: str | None, output_flags: OutputFlags, also_tags: tuple[str, ...] = ()) -> IndexPlan:
        """Return the plan of the new index.

        Raises:
            UsageError: the flags conflict.
            ImageToolsError: a platform is invalid.
        """
        from opmkit.imagetools.spec import Platform
        from opmkit.index.image.build import DEFAULT_TAG, IndexPlan

        if self.generate and self.platform:
            raise conflicting_flags("--platform", "--generate")
        in_place = from_index is not None and Path(from_index).exists() and not self.tag and not self.generate
        if in_place:
            self._check_in_place(from_index, also_tags)
        return IndexPlan(
            tags=() if in_place else (self.tag or DEFAULT_TAG, *also_tags),
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


def parse_default_channels(texts: Sequence[str], command: str) -> Iterator[tuple[str, str]]:
    """Yield package and channel of each ``PACKAGE=CHANNEL``; raise UsageError for the command."""
    for text in texts:
        package, equals, channel = text.partition("=")
        if not equals:
            raise UsageError(f"--default-channel {text}: invalid: must be PACKAGE=CHANNEL", command)
        yield package, channel
