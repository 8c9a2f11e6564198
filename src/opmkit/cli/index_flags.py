"""Flags that every command shares which changes an index, and how what it did is told."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opmkit.cli.console import OutputFormat, print_json, print_line, print_text, progress
from opmkit.cli.errors import UsageProblem, print_to_stderr, print_warning
from opmkit.cli.go_commands import given_flags
from opmkit.cli.hints import format_hint
from opmkit.cli.streams import report_on
from opmkit.imagetools.image_format import ImageFormat
from opmkit.index.modes import OnConflict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.cli.registry_flags import Connection
    from opmkit.imagetools.tools import ContainerTool
    from opmkit.imagetools.tools.engine import EngineTool
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.fbc.migrate import MigrationLevel
    from opmkit.index.image.build import BuiltIndex, IndexPlan
    from opmkit.index.operations.add.options import AddOptions, Placement
    from opmkit.index.operations.change import AppliedChange, Change

RESULT_PANEL = "Result"
TOOLS = "none, docker, podman or buildah"
_INSPECT = "run 'opm image inspect' with the name of the image to see what was published"

Permissive = Annotated[bool, typer.Option("--permissive", help="Report failures as warnings; exit 0.")]
Database = Annotated[Path, typer.Option("--database", "-d", metavar="FILE", help="Database file.")]
FromIndex = Annotated[
    str | None,
    typer.Option(
        "--from-index",
        "-f",
        metavar="INDEX",
        help="Index image to start from, of either kind; or a catalog's directory or a database file, which is changed "
        "itself unless --tag names an image to make of it.",
    ),
]
Packages = Annotated[list[str] | None, typer.Option("--packages", "-p", metavar="NAME,...", help="Packages to keep.")]
AllowPackageRemoval = Annotated[
    bool, typer.Option("--allow-package-removal", help="Let a package go whose channels are all deprecated.")
]


@dataclass(frozen=True, slots=True)
class Adding:
    """How bundles are added."""

    mode: Annotated[
        str, typer.Option(metavar="MODE", help="How the update graph is made: replaces, semver or semver-skippatch.")
    ] = "replaces"
    permissive: Permissive = False
    overwrite_latest: Annotated[
        bool, typer.Option("--overwrite-latest", help="Replace the head of a channel by a bundle of the same name.")
    ] = False
    enable_alpha: Annotated[bool, typer.Option("--enable-alpha", help="Honour olm.substitutesFor.")] = False
    skip_present: Annotated[
        bool,
        typer.Option("--skip-present", help="Pass over bundles that the index has from the same image, by digest."),
    ] = False

    def options(self, placement: Placement | None = None, level: MigrationLevel | None = None) -> AddOptions:
        """The same for the index package."""
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


CATALOG_PANEL = "File-based catalogs"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a bundle is put in a file-based catalog."""

    channel: Annotated[
        list[str] | None,
        typer.Option(
            "--channel",
            metavar="NAME,...",
            help="Channels that the bundles come into. Default: those that they name.",
            rich_help_panel=CATALOG_PANEL,
        ),
    ] = None
    default_channel: Annotated[
        str | None,
        typer.Option(
            "--default-channel",
            metavar="NAME",
            help="Default channel of the package from now on.",
            rich_help_panel=CATALOG_PANEL,
        ),
    ] = None
    replaces: Annotated[
        str | None,
        typer.Option(
            "--replaces",
            metavar="BUNDLE",
            help='What the bundle replaces, "" for nothing. Default: what it says itself.',
            rich_help_panel=CATALOG_PANEL,
        ),
    ] = None
    skips: Annotated[
        list[str] | None,
        typer.Option(
            "--skips",
            metavar="BUNDLE,...",
            help="What the bundle skips. Default: what it says itself.",
            rich_help_panel=CATALOG_PANEL,
        ),
    ] = None
    skip_range: Annotated[
        str | None,
        typer.Option(
            "--skip-range",
            metavar="RANGE",
            help="The versions that the bundle skips. Default: what it says itself.",
            rich_help_panel=CATALOG_PANEL,
        ),
    ] = None

    def placement(self, ctx: typer.Context, bundles: list[str]) -> Placement | None:
        """The same for the index package, None if no flag is given; UsageProblem for edges of several bundles."""
        from opmkit.index.operations.add.options import Placement

        given = given_flags(ctx)
        if len(bundles) > 1 and given & {"replaces", "skips", "skip-range"}:
            raise UsageProblem("--replaces, --skips and --skip-range are for one bundle", ctx.command_path)
        channels = tuple(self.channel or ()) if "channel" in given else None
        skips = tuple(self.skips or ()) if "skips" in given else None
        placement = Placement(channels, self.replaces, skips, self.skip_range, self.default_channel)
        return None if placement == Placement() else placement


@dataclass(frozen=True, slots=True)
class Told:
    """How a change is told, and whether it is made at all."""

    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would change; change nothing.", rich_help_panel=RESULT_PANEL),
    ] = False
    output: Annotated[
        OutputFormat,
        typer.Option("--output", help="Form of the result: text or json.", rich_help_panel=RESULT_PANEL),
    ] = OutputFormat.TEXT


@dataclass(frozen=True, slots=True)
class Target:
    """What a new index image is layered on, and where it goes."""

    binary_image: Annotated[
        str | None,
        typer.Option(
            "--binary-image",
            "-i",
            metavar="IMAGE",
            help="Image that the new one is layered on, or scratch. Default: what lies under the content of "
            "--from-index, else the last opm release that serves indexes of either kind.",
            rich_help_panel=RESULT_PANEL,
        ),
    ] = None
    tag: Annotated[
        str | None,
        typer.Option(
            "--tag",
            "-t",
            metavar="IMAGE",
            help="Name of the new image. Default: operator-registry-index:latest.",
            rich_help_panel=RESULT_PANEL,
        ),
    ] = None
    to_fbc: Annotated[
        bool,
        typer.Option(
            "--to-fbc", help="Make a file-based catalog, whatever --from-index is.", rich_help_panel=RESULT_PANEL
        ),
    ] = False
    migrate_level: Annotated[
        str,
        typer.Option(
            "--migrate-level",
            metavar="LEVEL",
            help="How far bundles of a file-based catalog that are new in it are migrated: none, "
            "bundle-object-to-csv-metadata or all. Default: as its others are.",
            rich_help_panel=RESULT_PANEL,
        ),
    ] = ""
    platform: Annotated[
        list[str] | None,
        typer.Option(
            "--platform",
            metavar="OS/ARCH[/VARIANT],...",
            help="Platforms of the base that the new image has. Default: all.",
            rich_help_panel=RESULT_PANEL,
        ),
    ] = None
    on_conflict: Annotated[
        OnConflict,
        typer.Option(
            "--on-conflict",
            help="If another writer moves the tag in the meantime: fail (exit code 4), rebase (start again from what "
            "it names then), or overwrite.",
            rich_help_panel=RESULT_PANEL,
        ),
    ] = OnConflict.FAIL
    settle: Annotated[
        float,
        typer.Option(
            "--settle",
            metavar="SECONDS",
            min=0,
            help="How long a tag of --from-index that was moved has to stand, to be sure of other writers.",
            rich_help_panel=RESULT_PANEL,
        ),
    ] = 1.0
    push: Annotated[
        bool,
        typer.Option(
            "--push", help="Push to the registry of --tag, instead of the embedded store.", rich_help_panel=RESULT_PANEL
        ),
    ] = False
    generate: Annotated[
        bool,
        typer.Option(
            "--generate",
            help="Write the index and a Dockerfile to the working directory; build nothing.",
            rich_help_panel=RESULT_PANEL,
        ),
    ] = False
    out_dockerfile: Annotated[
        str,
        typer.Option(
            "--out-dockerfile",
            "-d",
            metavar="FILE",
            help="Name of the Dockerfile of --generate.",
            rich_help_panel=RESULT_PANEL,
        ),
    ] = "index.Dockerfile"

    @property
    def level(self) -> MigrationLevel | None:
        """The level of migration that is asked for; raises UsageProblem for one that there isn't."""
        from opmkit.cli.fbc_output import level_named

        return level_named(self.migrate_level) if self.migrate_level else None

    def plan(self, from_index: str | None, told: Told, also_tags: tuple[str, ...] = ()) -> IndexPlan:
        """Where the new index comes from and goes to; raises ImageToolsError for what is no platform."""
        from opmkit.imagetools.spec import Platform
        from opmkit.index.image.build import DEFAULT_TAG, IndexPlan

        if self.generate and self.platform:
            raise UsageProblem("--platform and --generate exclude each other: no image is built")
        in_place = from_index is not None and Path(from_index).exists() and not self.tag and not self.generate
        for_images = {"--push": self.push, "--platform": self.platform, "--binary-image": self.binary_image}
        if in_place and (given := [flag for flag, value in {**for_images, "--also-tag": also_tags}.items() if value]):
            raise UsageProblem(
                f"{given[0]}: unsupported without an image: {from_index} is changed in place",
                hint=f"name the new image with --tag, or omit {given[0]}",
            )
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
            dry_run=told.dry_run,
        )


PullTool = Annotated[str, typer.Option("--container-tool", "-c", metavar="TOOL", help=f"Tool for pulling: {TOOLS}.")]
Format = Annotated[
    ImageFormat | None,
    typer.Option(
        "--format",
        help="Format of what is built: oci, or v2s2 for docker's. Default: oci, but v2s2 with docker.",
        rich_help_panel=RESULT_PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class OpenedTools:
    """The tools of one run."""

    pull: ContainerTool
    build: RegistryTool | EngineTool


@dataclass(frozen=True, slots=True)
class Tool:
    """The one tool of commands that pull with the tool that they build with."""

    container_tool: Annotated[
        str,
        typer.Option("--container-tool", "-c", metavar="TOOL", help=f"Tool for pulling and building: {TOOLS}."),
    ] = "none"
    form: Format = None

    def open(self, connection: Connection) -> OpenedTools:
        """The tool; raises ImageToolsError for an unknown name, and for what a tool can't do."""
        tool = connection.tool_named(self.container_tool, self.form)
        return OpenedTools(tool, tool)


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of commands that may pull with another than they build with."""

    container_tool: Annotated[
        str | None,
        typer.Option("--container-tool", "-c", metavar="TOOL", help=f"Tool for pulling and building: {TOOLS}."),
    ] = None
    build_tool: Annotated[
        str | None, typer.Option("--build-tool", "-u", metavar="TOOL", help="Tool for building alone.")
    ] = None
    pull_tool: Annotated[
        str | None, typer.Option("--pull-tool", "-p", metavar="TOOL", help="Tool for pulling alone.")
    ] = None
    form: Format = None

    def open(self, connection: Connection, command: str) -> OpenedTools:
        """The tools; ``command`` is the command's path, for errors.

        Raises UsageProblem for flags that exclude each other, ImageToolsError for an unknown name and for what a tool
        can't do.
        """
        if self.container_tool and (self.build_tool or self.pull_tool):
            raise UsageProblem("container-tool cannot be set alongside pull-tool or build-tool", command)
        name = self.container_tool or self.build_tool or "none"
        build = connection.tool_named(name, self.form)
        pull_name = self.container_tool or self.pull_tool or "none"
        return OpenedTools(build if pull_name == name else connection.tool_named(pull_name), build)


def build_changed(tools: OpenedTools, plan: IndexPlan, change: Change, told: Told) -> None:
    """Make a change to an index, build an image of the outcome as planned, and tell it."""
    from opmkit.index.image.build import build_index

    with progress() as bars:
        built = build_index(tools.pull, tools.build, plan, change, progress=bars)
    tell_built(built, told, tools.build, push=plan.push)


def tell_built(built: BuiltIndex, told: Told, tool: ContainerTool, *, push: bool) -> None:
    """Print the new image's names and digest, or what would change; to stderr where an unpushed image is stored."""
    names = ", ".join(f"{name}@{built.digest}" if built.digest else name for name in built.references)
    done = f"{names}: {'published' if push else 'built'}" if names else "the changed index was written"
    with nullcontext() if told.dry_run else report_on(done, _INSPECT if push else ""):
        _tell(built.result, told, references=built.references, digest=built.digest)
    if not push:
        print_unpushed(built.references, tool)


def print_unpushed(references: Sequence[str], tool: ContainerTool) -> None:
    """Print to stderr where the tool stored images that it built without pushing them, and how to push them.

    Images in layouts and archives are omitted: their names say where they are.
    """
    from opmkit.imagetools.reference import Reference, parse_image_reference

    names = [name for name in references if isinstance(parse_image_reference(name), Reference)]
    if names:
        program = "opm image push" if tool.name == "none" else f"{tool.name} push"
        command = " && ".join(f"{program} {name}" for name in names)
        print_to_stderr(f"{', '.join(names)}: built but not pushed: stored in {tool.storage}")
        print_to_stderr(f"  hint: run '{command}', or build with --push")


def tell_changed(result: AppliedChange, told: Told) -> None:
    """Print what changed in a database where that is asked for."""
    with nullcontext() if told.dry_run else report_on("the database was changed"):
        _tell(result, told)


def _tell(result: AppliedChange, told: Told, references: tuple[str, ...] = (), digest: str = "") -> None:
    for warning in result.warnings:
        print_warning(warning)
    for image in result.skipped:
        print_warning(f"{image}: skipped, the index has it already")
    for failure in result.failures:
        first, *others = failure.lines
        print_warning(f"permissive mode, passed over: {first}", *others)
    if result.report and told.output is not OutputFormat.JSON:
        for line in result.report.lines():
            (print_line if told.dry_run else print_to_stderr)(line)  # what was made is the result then
    if told.output is OutputFormat.JSON:
        print_json(_as_json(result, references, digest))
    elif told.dry_run:
        from opmkit.index.operations.diff.report import diff_as_text, diff_totals

        print_text(diff_as_text(result.diff))
        if result.diff:
            print_line(diff_totals(result.diff))
    else:
        for reference in references:
            print_line(f"{reference}@{digest}" if digest else reference)


def _as_json(result: AppliedChange, references: tuple[str, ...], digest: str) -> dict[str, Any]:
    image = {"references": references, **({"digest": digest} if digest else {})} if references else {}
    return {
        **image,
        **(result.report.as_dict() if result.report else {}),
        "packages": result.diff.packages,
        "stranded": result.diff.stranded,
        "warnings": result.warnings,
        "skipped": result.skipped,
        "failures": [{"message": failure.message, "advice": format_hint(failure.hint)} for failure in result.failures],
    }
