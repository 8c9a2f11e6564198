"""Flags of commands that change an index."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from opmkit.cli.help.panels import CATALOG_PANEL, COMPATIBILITY_PANEL
from opmkit.cli.output.errors import UsageError
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import given_flags

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from opmkit import AddOptions, MigrationLevel, Placement

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
RequireSignature = Annotated[
    str | None,
    typer.Option(
        "--require-signature",
        metavar="FILE",
        help="Public key that must have signed the bundle images, or a policy.json with keys by name",
    ),
]
AllowPackageRemoval = Annotated[
    bool,
    typer.Option("--allow-package-removal", help="Remove a package if all its heads are deprecated"),
]


@dataclass(frozen=True, slots=True)
class AddFlags:
    """Flags for adding bundles."""

    mode: str = flag("replaces", "How to create the update graph: replaces, semver or semver-skippatch", metavar="MODE")
    permissive: Permissive = False
    overwrite_latest: bool = flag(
        False, "Replace the head of a channel by a bundle of the same name", panel=COMPATIBILITY_PANEL
    )
    enable_alpha: bool = flag(False, "Support olm.substitutesFor", panel=COMPATIBILITY_PANEL)
    skip_present: bool = flag(False, "Skip bundles that the index contains, by digest")
    require_signature: RequireSignature = None
    fail_on: list[str] | None = flag(
        None,
        "Reject a change that strands installed versions (stranded), or with a kind of 'opm index diff'",
        metavar="KIND,...",
    )

    def options(self, placement: Placement | None = None, level: MigrationLevel | None = None) -> AddOptions:
        """Return the options of the operation; raises CatalogError for an unknown mode, UsageError for a kind."""
        from opmkit import AddOptions, UpdateMode

        kinds = tuple(filter(None, self.fail_on or ()))
        check_kinds(kinds)
        return AddOptions(
            UpdateMode.parse(self.mode),
            self.permissive,
            self.overwrite_latest,
            self.enable_alpha,
            self.skip_present,
            placement,
            level,
            kinds,
        )


@dataclass(frozen=True, slots=True)
class PlacementFlags:
    """Flags for the channels and update edges of a bundle in a file-based catalog."""

    panel: ClassVar[str] = CATALOG_PANEL

    channel: list[str] | None = flag(
        None, "Channels to add the bundles to; default: the channels in their annotations", metavar="NAME,..."
    )
    default_channel: str | None = flag(None, "Default channel to set for the package", metavar="NAME")
    replaces: str | None = flag(
        None, 'Bundle to replace, "" for none; default: as in the ClusterServiceVersion', metavar="BUNDLE"
    )
    skips: list[str] | None = flag(
        None, "Bundles to skip; default: as in the ClusterServiceVersion", metavar="BUNDLE,..."
    )
    skip_range: str | None = flag(
        None, "Range of versions to skip; default: as in the ClusterServiceVersion", metavar="RANGE"
    )

    def placement(self, ctx: typer.Context, bundles: list[str]) -> Placement | None:
        """Return the placement, or None if no flag is given; raises UsageError for edges of several bundles."""
        from opmkit import Placement

        given = given_flags(ctx)
        if len(bundles) > 1 and given & {"replaces", "skips", "skip-range"}:
            raise UsageError("--replaces, --skips and --skip-range require exactly one bundle", ctx.command_path)
        channels = tuple(self.channel or ()) if "channel" in given else None
        skips = tuple(self.skips or ()) if "skips" in given else None
        placement = Placement(channels, self.replaces, skips, self.skip_range, self.default_channel)
        return None if placement == Placement() else placement


def check_kinds(kinds: Sequence[str], command: str = "") -> None:
    """Raise UsageError for the command if a value of ``--fail-on`` is not a kind of differences."""
    if unknown := _differences().find_unknown_kind(kinds):
        raise UsageError(f"invalid value of --fail-on: {unknown}", command)


def difference_kinds() -> tuple[str, ...]:
    """Return the values of ``--fail-on``."""
    names: tuple[str, ...] = _differences().KIND_NAMES
    return names


def _differences() -> ModuleType:
    from opmkit.index.diff import differences

    return differences


def parse_default_channels(texts: Sequence[str], command: str) -> Iterator[tuple[str, str]]:
    """Yield package and channel of each ``PACKAGE=CHANNEL``; raise UsageError for the command."""
    for text in texts:
        package, equals, channel = text.partition("=")
        if not equals:
            raise UsageError(f"--default-channel {text}: invalid: must be PACKAGE=CHANNEL", command)
        yield package, channel
