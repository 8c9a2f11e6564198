"""``opm template``: edit and render catalog templates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.help.panels import ADVANCED_PANEL
from opmkit.cli.output.console import (
    OutputFormat,
    format_count,
    print_json,
    print_line,
    print_table,
    print_text,
)
from opmkit.cli.output.errors import (
    UsageError,
    conflicting_flags,
    print_error,
    print_to_stderr,
    print_warning,
    print_warnings,
)
from opmkit.cli.output.index import print_plan_of_change
from opmkit.cli.output.streams import printing_result
from opmkit.cli.parser.declaration import argument, flag
from opmkit.cli.parser.go_commands import given_flags, require_flags
from opmkit.cli.progress.command import progress
from opmkit.core.errors import OpmkitError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opmkit import EdgeOptions, EditedTemplate


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
        """Whether the edit writes no files."""
        return self.dry_run or self.fail_on_change


CreateChannel = Annotated[
    bool, typer.Option("--create-channel", help="Create channels that the template does not have")
]
DefaultChannel = Annotated[
    str, typer.Option("--default-channel", metavar="NAME", help="Default channel to set for the package")
]

Plan = Annotated[bool, typer.Option("--plan", help="Show what becomes of installed versions")]


TemplateArgument = Annotated[Path, typer.Argument(metavar="TEMPLATE", help="Template file, in YAML or JSON")]


def add(
    ctx: typer.Context,
    *,
    template: TemplateArgument,
    bundle: Annotated[
        str,
        typer.Argument(
            metavar="BUNDLE", help="Bundle image to list, or DIR=IMAGE to read the bundle from a directory instead"
        ),
    ],
    channel: list[str] | None = flag(
        None,
        "Channels, or in a semver template any of candidate, fast and stable; default: the only one",
        metavar="NAME,...",
    ),
    create_channel: CreateChannel = False,
    default_channel: DefaultChannel = "",
    base: str = flag("", "Bundle to substitute, in a substitutes template", metavar="BUNDLE"),
    overwrite: bool = flag(False, "Replace the image of a bundle with the same name"),
    plan: Plan = False,
    edge_flags: EdgeFlags,
    edit_flags: EditFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Add a bundle to a template

    The bundle replaces the head of each channel, and must be newer. Comments and formatting are retained. Nothing is
    written if the update graph would be invalid. A bundle that is already there changes nothing.

    [bold]Examples:[/]
      opm template add lagoon.yaml quay.io/me/lagoon-bundle:0.3.0 --channel alpha
      opm template add lagoon.yaml ./0.3.0=quay.io/me/lagoon-bundle:0.3.0 --channel alpha,stable --dry-run
      opm template add lagoon.yaml quay.io/me/lagoon-bundle:0.2.1 --channel stable --after lagoon-operator.v0.2.0
      opm template add lagoon.yaml quay.io/me/lagoon-bundle@sha256:2c26... --overwrite
    """
    from opmkit import TemplateAddOptions

    options = TemplateAddOptions(
        tuple(channel or ()), edge_flags.options(ctx), create_channel, base, overwrite, default_channel
    )
    opm = registry_flags.opm()
    with progress() as bars:
        edited = opm.add_to_template(
            template,
            bundle,
            options,
            dry_run=edit_flags.is_dry_run,
            plan_updates=plan,
            warn=print_warning,
            progress=bars,
        )
    print_edited(edited, edit_flags)


def promote(
    ctx: typer.Context,
    *,
    template: Annotated[
        Path,
        typer.Argument(metavar="TEMPLATE|DIR", help="Template file, or repository or operator directory to promote"),
    ],
    bundle: Annotated[
        str,
        typer.Argument(metavar="[BUNDLE]", help="Name, image, or in a semver template version of a bundle"),
    ] = "",
    to_channel: list[str] | None = flag(
        None,
        "Channels, or version of OpenShift (required)",
        "--to-channel",
        "--to",
        metavar="NAME,...",
    ),
    from_channel: str = flag(
        "",
        "Channel with the bundle, or version of OpenShift",
        "--from-channel",
        "--from",
        metavar="NAME",
    ),
    operator: list[str] | None = flag(
        None, "Operators of a repository to promote; default: all", panel=ADVANCED_PANEL, metavar="NAME,..."
    ),
    strategy: list[str] | None = flag(
        None,
        "Strategies of the operators to promote: always, review-needed; default: both",
        panel=ADVANCED_PANEL,
        metavar="NAME,...",
    ),
    create_channel: CreateChannel = False,
    default_channel: DefaultChannel = "",
    plan: Plan = False,
    edge_flags: EdgeFlags,
    edit_flags: EditFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Add a bundle of a template to other channels, or promote operators to an OpenShift version

    The bundle replaces the head, and skips what lies between both in the first channel. In a repository, or for an
    operator in it, catalogs of one version of OpenShift are copied to another, which ci.yaml then names.

    [bold]Examples:[/]
      opm template promote lagoon.yaml lagoon-operator.v0.3.0 --from-channel candidate --to-channel stable
      opm template promote semver.yaml quay.io/me/lagoon-bundle:0.3.0 --to stable
      opm template promote . --from v4.20 --to v4.21 --strategy always
      opm template promote operators/lagoon --from v4.20 --to v4.21
    """
    from opmkit import PromoteOptions

    if not to_channel:
        raise UsageError('required flag(s) "to-channel" not set', ctx.command_path)
    if not bundle and template.is_dir():
        _promote_operators(ctx, template, (from_channel, to_channel), operator or (), strategy or (), edit_flags)
        return
    _require_template(ctx, bundle)
    options = PromoteOptions(from_channel, tuple(to_channel), edge_flags.options(ctx), create_channel, default_channel)
    opm = registry_flags.opm()
    with progress() as bars:
        edited = opm.promote_in_template(
            template,
            bundle,
            options,
            dry_run=edit_flags.is_dry_run,
            plan_updates=plan,
            warn=print_warning,
            progress=bars,
        )
    print_edited(edited, edit_flags)


def _require_template(ctx: typer.Context, bundle: str) -> None:
    """Raise UsageError if flags are for directories, or there is no bundle."""
    if wrong := sorted({"operator", "strategy"} & given_flags(ctx)):
        raise UsageError(f"--{wrong[0]} requires a directory without a bundle", ctx.command_path)
    if not bundle:
        raise UsageError("missing argument BUNDLE", ctx.command_path, hint="pass a directory to promote operators")


_OF_DIRECTORIES = frozenset({"to-channel", "from-channel", "operator", "strategy", "dry-run", "check", "output"})


def _promote_operators(
    ctx: typer.Context,
    path: Path,
    versions: tuple[str, Sequence[str]],
    operators: Sequence[str],
    strategies: Sequence[str],
    edit_flags: EditFlags,
) -> None:
    """Promote operators between two versions of OpenShift, and print what became of them."""
    from opmkit import Opm, PromotionRequest, PromotionStatus, PromotionStrategy

    source, targets = versions
    if not source or len(targets) != 1:
        raise UsageError("a directory requires --from and --to with a version each", ctx.command_path)
    if wrong := sorted(given_flags(ctx) - _OF_DIRECTORIES - {"to", "from"}):
        raise UsageError(f"--{wrong[0]} requires a template and a bundle", ctx.command_path)
    request = replace(PromotionRequest.parse(source, targets[0]), dry_run=edit_flags.is_dry_run)
    if unknown := next((name for name in strategies if name not in tuple(PromotionStrategy)), None):
        raise UsageError(f"unknown strategy {unknown!r}", ctx.command_path, hint=f"use {', '.join(PromotionStrategy)}")
    if strategies:
        request = replace(request, strategies=tuple(map(PromotionStrategy, strategies)))
    promoted = Opm().promote_operators(path, replace(request, operators=tuple(operators)))
    if edit_flags.output is OutputFormat.JSON:
        print_json(promoted.to_dict())
    else:
        rows = [(each.name, each.strategy, each.status, "; ".join(each.problems)) for each in promoted.operators]
        print_table(("OPERATOR", "STRATEGY", "STATUS", "PROBLEMS"), rows)
    changed = [each for each in promoted.operators if each.status is PromotionStatus.PROMOTED]
    noun = format_count(len(changed), "operator")
    print_to_stderr(f"{noun} {'would be ' * edit_flags.is_dry_run}promoted to {promoted.target}")
    if promoted.failed:
        print_error(OpmkitError(f"{format_count(len(promoted.failed), 'operator')} not promoted"))
    if promoted.failed or (changed and edit_flags.fail_on_change):
        ctx.exit(1)


def deprecate(
    ctx: typer.Context,
    *,
    template: TemplateArgument,
    bundle: list[str] | None = argument(None, "Names of bundles to deprecate", metavar="[BUNDLE]..."),
    channel: list[str] | None = flag(None, "Channels to deprecate", metavar="NAME,..."),
    package: bool = flag(False, "Deprecate the package"),
    message: str = flag("", "Message to users: the reason and what to use instead", "-m", metavar="TEXT"),
    undo: bool = flag(False, "Remove deprecations instead of adding them"),
    edit_flags: EditFlags,
) -> None:
    """Deprecate bundles, channels or the package of a template

    [bold]Examples:[/]
      opm template deprecate lagoon.yaml lagoon-operator.v0.1.0 -m "Has a security problem. Update to 0.2.0."
      opm template deprecate lagoon.yaml --channel alpha -m "Use the channel stable."
      opm template deprecate lagoon.yaml --channel alpha --undo
    """
    from opmkit import Opm

    if not (bundle or channel or package):
        raise UsageError("nothing to deprecate: pass a BUNDLE, --channel or --package", ctx.command_path)
    if ("message" in given_flags(ctx)) == undo or bool(message) == undo:
        raise UsageError("pass either --message or --undo", ctx.command_path)
    edited = Opm().deprecate_in_template(
        template, message, bundles=bundle or (), channels=channel or (), package=package, dry_run=edit_flags.is_dry_run
    )
    print_edited(edited, edit_flags)


def release(
    ctx: typer.Context,
    *,
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Bundle directory with a release-config.yaml: OPERATOR/VERSION")
    ],
    image: str = flag("", "Image of the bundle, which the templates list (required)", metavar="IMAGE"),
    edit_flags: EditFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Add a bundle to the templates that its release-config.yaml names

    The templates are in the directory catalog-templates of the operator. All of them are changed, or none. Channels,
    and templates of the catalog_mapping in ci.yaml, are created if they do not exist.

    [bold]Example:[/] opm template release operators/lagoon/0.3.0 --image quay.io/me/lagoon-bundle:0.3.0
    """
    require_flags(ctx, "image")
    opm = registry_flags.opm()
    with progress() as bars:
        edited = opm.release_to_templates(
            directory, image, dry_run=edit_flags.is_dry_run, warn=print_warning, progress=bars
        )
    print_edited(edited, edit_flags)


class TemplateOutdated(OpmkitError):
    """Templates that an edit would change, with ``--check``."""


def print_edited(templates: Sequence[EditedTemplate], flags: EditFlags) -> None:
    """Print the changes of template files, or their differences if nothing was to be written.

    Raises:
        TemplateOutdated: a template would change, with ``--check``.
    """
    if flags.is_dry_run:
        _print_templates(templates, flags, _print_diff)
        _check_outdated(templates, flags)
        return
    with printing_result(f"{', '.join(template.file for template in templates)}: edited"):
        _print_templates(templates, flags, _print_changes)


def _print_templates(
    templates: Sequence[EditedTemplate], flags: EditFlags, print_template: Callable[[EditedTemplate], None]
) -> None:
    for template in templates:
        print_warnings(template.warnings)
    if flags.output is OutputFormat.JSON:
        print_json({"templates": [template.to_dict() for template in templates]})
        return
    for template in templates:
        if template.plan:
            print_plan_of_change(template.plan, to_stdout=flags.is_dry_run)
        print_template(template)


def _print_changes(template: EditedTemplate) -> None:
    for change in template.changes:
        print_line(f"{template.file}: {change}")
    if not template.changes:
        print_to_stderr(f"{template.file}: nothing to change")


def _print_diff(template: EditedTemplate) -> None:
    if template.is_changed:
        print_text(template.diff.removesuffix("\n"))
    else:
        print_to_stderr(f"{template.file}: nothing to change")


def _check_outdated(templates: Sequence[EditedTemplate], flags: EditFlags) -> None:
    outdated = [template.file for template in templates if template.is_changed]
    if flags.fail_on_change and outdated:
        error = TemplateOutdated(f"{', '.join(outdated)}: would change", hint="run the command without --check")
        if flags.output is OutputFormat.JSON:  # the result is already printed
            print_error(error)
            raise typer.Exit(1)
        raise error
