"""``opm index merge``: merge indexes into one file-based catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit import OnConflict
from opmkit.cli.flags.container_tools import ToolFlags
from opmkit.cli.flags.index import INDEX_HELP
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.target import RESULT_PANEL, NamedTargetFlags, OutputFlags, TargetFlags
from opmkit.cli.output.errors import UsageError, conflicting_flags
from opmkit.cli.output.index import print_built
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import given_flags
from opmkit.cli.progress.command import progress

_IMAGE_FLAGS = ("tag", "push", "platform", "binary-image", "generate", "out-dockerfile", "on-conflict", "settle")
_REBASE_HINT = "pass the index behind the tag as another INDEX, and run the command again if the tag has moved"

OutputDirectory = Annotated[
    Path | None,
    typer.Option(
        "--output-dir",
        metavar="DIR",
        help="New or empty directory to write the catalog to, instead of an image",
        rich_help_panel=RESULT_PANEL,
    ),
]


def merge(
    ctx: typer.Context,
    *,
    indexes: Annotated[list[str], typer.Argument(metavar="INDEX...", help=f"{INDEX_HELP}; at least two")],
    prefer: list[str] | None = flag(
        None,
        "Index to copy a package, or any package, from if its content differs: one of INDEX, or the first or "
        "last that has the package; of several, the first that has it",
        metavar="[PACKAGE=]INDEX|first|last,...",
    ),
    owners: Path | None = flag(
        None,
        "YAML file with the packages that each INDEX may have or change, such as team-a: [lagoon-operator]; "
        "an INDEX that it does not list may have all packages, but the version of the owner is used",
        metavar="FILE",
    ),
    output_dir: OutputDirectory = None,
    tool_flags: ToolFlags,
    target_flags: NamedTargetFlags,
    output_flags: OutputFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Merge indexes into one file-based catalog and build a new index image

    Packages are copied whole. If a package has different content in several indexes, the command lists the differences
    and fails, unless --prefer names the index to copy it from.

    [bold]Examples:[/]
      opm index merge quay.io/me/catalog:1 quay.io/team/catalog:2 --tag quay.io/me/all:1 --push
      opm index merge ./team-a ./team-b index.db --output-dir merged
      opm index merge ./team-a quay.io/me/catalog:1 --prefer ./team-a --tag quay.io/me/catalog:2 --dry-run
      opm index merge quay.io/me/catalog:1 teams/* --owners owners.yaml --tag quay.io/me/catalog:2 --push
    """
    if len(indexes) < 2:
        hint = "run 'opm index build' to build an image from one index"
        raise UsageError("at least two indexes are required", ctx.command_path, hint=hint)
    check_result(ctx, target_flags, output_dir, optional=output_flags.dry_run, rebase_hint=_REBASE_HINT)
    plan = target_flags.plan(None, output_flags)
    opm = tool_flags.opm(registry_flags)
    with progress("Merging indexes") as bars:
        built = opm.merge_indexes(indexes, plan, prefer=prefer or [], owners=owners, output=output_dir, progress=bars)
    print_built(built, output_flags, opm, push=plan.push)


def check_result(
    ctx: typer.Context, target_flags: TargetFlags, output_dir: Path | None, *, optional: bool, rebase_hint: str
) -> None:
    """Check that the flags name one kind of result, and fit to it.

    Args:
        ctx: the context of the command.
        target_flags: the flags of the new image.
        output_dir: the directory to write to.
        optional: whether the command needs no result, as in a dry run.
        rebase_hint: how to use an index that another writer has changed, if changes cannot be applied to it again.

    Raises:
        UsageError: there is no result, there are several, or a flag does not apply to it.
    """
    given = given_flags(ctx)
    if output_dir:
        for flag in (flag for flag in _IMAGE_FLAGS if flag in given):
            raise conflicting_flags("--output-dir", f"--{flag}", ctx.command_path)
    elif not (target_flags.tag or target_flags.generate or optional):
        raise UsageError("no result: pass --tag, --output-dir or --generate", ctx.command_path)
    if target_flags.on_conflict is OnConflict.REBASE and rebase_hint:
        raise UsageError(
            "--on-conflict rebase: unsupported: the new index replaces the old one", ctx.command_path, hint=rebase_hint
        )
