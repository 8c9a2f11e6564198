"""``opm index``: create, change, compare and draw indexes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.container_tools import PullTool, SeparateToolFlags, ToolFlags
from opmkit.cli.flags.index import (
    INDEX_HELP,
    AddFlags,
    AllowPackageRemoval,
    AlsoTag,
    FromIndex,
    Packages,
    Permissive,
    PlacementFlags,
)
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.target import ChangeOutputFlags, OutputFlags, TargetFlags
from opmkit.cli.output.errors import UsageError, conflicting_flags
from opmkit.cli.output.index import change_and_print, fatal_if_not_removed, print_built
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import given_flags, require_flags
from opmkit.cli.progress.command import progress

if TYPE_CHECKING:
    from collections.abc import Collection

    from opmkit import AddOptions, IndexUpdate

Bundles = Annotated[
    list[str] | None,
    typer.Option(
        "--bundles",
        "-b",
        metavar="IMAGE,...",
        help="Bundle images, or bundle directories as ./DIR (required, may be empty)",
    ),
]


def add(
    ctx: typer.Context,
    *,
    bundles: Bundles = None,
    from_index: FromIndex = None,
    add_flags: AddFlags,
    placement_flags: PlacementFlags,
    tool_flags: SeparateToolFlags,
    target_flags: TargetFlags,
    output_flags: ChangeOutputFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Add bundles to an index and build a new index image

    Bundles are pulled in parallel. If the command fails, nothing changes; the tag is moved last.

    [bold]Examples:[/]
      opm index add --bundles quay.io/me/lagoon:0.1.0 --tag quay.io/me/catalog:1 --push
      opm index add -b quay.io/me/lagoon:0.2.0 -f quay.io/me/catalog:1 -t quay.io/me/catalog:2 --push
      opm index add -b quay.io/me/lagoon:0.2.0 -f quay.io/me/catalog:1 --dry-run
      opm index add -b ./lagoon/0.2.0=quay.io/me/lagoon:0.2.0 -t oci-archive:catalog.tar:2
      opm index add -b quay.io/me/lagoon:0.2.0 -f ./catalog --channel stable --replaces lagoon-operator.v0.1.0
    """
    hint = "pass bundle images, or run 'opm index build' to build the image of an index as it is"
    require_flags(ctx, "bundles", hint=hint)
    placement = placement_flags.placement(ctx, bundles or [])
    opm = tool_flags.opm(registry_flags, ctx.command_path)
    options = add_flags.options(placement, target_flags.level)
    plan = target_flags.plan(from_index, output_flags)
    signature = add_flags.require_signature
    with progress("Adding bundles") as bars:
        built = opm.add_bundles(bundles or [], plan, options, require_signature=signature, progress=bars)
    print_built(built, output_flags, opm, push=plan.push, as_go=True)


def rm(
    ctx: typer.Context,
    *,
    operators: list[str] | None = flag(None, "Packages to remove (required)", "-o", metavar="NAME,..."),
    from_index: FromIndex = None,
    permissive: Permissive = False,
    tool_flags: SeparateToolFlags,
    target_flags: TargetFlags,
    output_flags: ChangeOutputFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Remove packages from an index and build a new index image

    [bold]Example:[/] opm index rm --operators lagoon-operator -f quay.io/me/catalog:1 -t quay.io/me/catalog:2 --push
    """
    from opmkit import RemovePackages

    require_flags(ctx, "from-index", "operators")
    opm = tool_flags.opm(registry_flags, ctx.command_path)
    change = RemovePackages(operators or [], permissive=permissive)
    with fatal_if_not_removed(output_flags):
        change_and_print(opm, change, target_flags.plan(from_index, output_flags), output_flags, as_go=True)


def prune(
    ctx: typer.Context,
    *,
    packages: Packages = None,
    from_index: FromIndex = None,
    permissive: Permissive = False,
    tool_flags: ToolFlags,
    target_flags: TargetFlags,
    output_flags: ChangeOutputFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Remove all packages except those named from an index and build a new index image

    [bold]Example:[/] opm index prune --packages lagoon-operator -f quay.io/me/catalog:1 -t quay.io/me/small:1 --push
    """
    from opmkit import PrunePackages

    require_flags(ctx, "from-index", "packages")
    opm = tool_flags.opm(registry_flags)
    change = PrunePackages(packages or [], permissive=permissive)
    change_and_print(opm, change, target_flags.plan(from_index, output_flags), output_flags, as_go=True)


def prune_stranded(
    ctx: typer.Context,
    *,
    from_index: FromIndex = None,
    tool_flags: ToolFlags,
    target_flags: TargetFlags,
    output_flags: OutputFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Remove bundles that are in no channel from an index and build a new index image

    [bold]Example:[/] opm index prune-stranded -f quay.io/me/catalog:1 -t quay.io/me/catalog:2 --push
    """
    from opmkit import PruneStranded

    require_flags(ctx, "from-index")
    opm = tool_flags.opm(registry_flags)
    change_and_print(opm, PruneStranded(), target_flags.plan(from_index, output_flags), output_flags, as_go=True)


def deprecatetruncate(
    ctx: typer.Context,
    *,
    bundles: Bundles = None,
    from_index: FromIndex = None,
    permissive: Permissive = False,
    allow_package_removal: AllowPackageRemoval = False,
    tool_flags: SeparateToolFlags,
    target_flags: TargetFlags,
    output_flags: ChangeOutputFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Deprecate bundles, remove the bundles that they replace, and build a new index image

    [bold]Example:[/] opm index deprecatetruncate -b quay.io/me/lagoon:0.1.0 -f quay.io/me/catalog:2 -t quay.io/me/new:3
    """
    from opmkit import TruncateBundles

    require_flags(ctx, "bundles")
    opm = tool_flags.opm(registry_flags, ctx.command_path)
    change = TruncateBundles(bundles or [], permissive=permissive, allow_package_removal=allow_package_removal)
    change_and_print(opm, change, target_flags.plan(from_index, output_flags), output_flags, as_go=True)


@dataclass(frozen=True, slots=True)
class UpdateFlags:
    """Flags for the changes of ``opm index update``."""

    add: list[str] | None = flag(None, "Bundle images or directories (./DIR) to add", metavar="IMAGE,...")
    rm: list[str] | None = flag(None, "Packages to remove", metavar="NAME,...")
    prune_to: list[str] | None = flag(None, "Packages to keep", metavar="NAME,...")
    deprecate: list[str] | None = flag(None, "Bundle images to deprecate", metavar="IMAGE,...")

    def update(self, given: Collection[str], options: AddOptions, *, allow_package_removal: bool) -> IndexUpdate:
        """Return the update for the given flags."""
        from opmkit import IndexUpdate

        return IndexUpdate(
            remove=(self.rm or []) if "rm" in given else None,
            keep=(self.prune_to or []) if "prune-to" in given else None,
            add=(self.add or []) if "add" in given else None,
            deprecate=(self.deprecate or []) if "deprecate" in given else None,
            options=options,
            allow_package_removal=allow_package_removal,
        )


def update(
    ctx: typer.Context,
    *,
    update_flags: UpdateFlags,
    from_index: FromIndex = None,
    also_tag: AlsoTag = None,
    allow_package_removal: AllowPackageRemoval = False,
    add_flags: AddFlags,
    placement_flags: PlacementFlags,
    tool_flags: SeparateToolFlags,
    target_flags: TargetFlags,
    output_flags: ChangeOutputFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Remove, prune, add and deprecate, in this order, and build one new index image

    Either all changes are made or none.

    [bold]Examples:[/]
      opm index update --add quay.io/me/lagoon:0.3.0 --rm old-operator --deprecate quay.io/me/lagoon:0.1.0
        -f quay.io/me/catalog:2 -t quay.io/me/catalog:3 --also-tag quay.io/me/catalog:latest --push
      opm index update --add quay.io/me/lagoon:0.3.0 --skip-present -f quay.io/me/catalog:2 --dry-run --output json
    """
    placement = placement_flags.placement(ctx, update_flags.add or [])
    opm = tool_flags.opm(registry_flags, ctx.command_path)
    options = add_flags.options(placement, target_flags.level)
    index_update = update_flags.update(given_flags(ctx), options, allow_package_removal=allow_package_removal)
    if index_update.is_empty:
        raise UsageError("no changes: pass --add, --rm, --prune-to or --deprecate", ctx.command_path)
    plan = target_flags.plan(from_index, output_flags, tuple(also_tag or ()))
    signature = add_flags.require_signature
    with progress("Changing the index") as bars:
        built = opm.update_index(index_update, plan, require_signature=signature, progress=bars)
    print_built(built, output_flags, opm, push=plan.push)


def export(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    index: str = flag("", f"{INDEX_HELP} (required)", "-i", metavar="INDEX"),
    package: list[str] | None = flag(None, "Packages to export; default: all", "-p", metavar="NAME,..."),
    xpackage: list[str] | None = flag(None, "", "-o"),
    download_folder: Path = flag(Path("downloaded"), "Directory to write the packages to", "-f", metavar="DIR"),
    container_tool: PullTool = "none",
) -> None:
    """Write packages of an index to a directory in the package manifest format

    [bold]Example:[/] opm index export --index quay.io/me/catalog:1 --package lagoon-operator --download-folder out
    """
    require_flags(ctx, "index")
    if package and xpackage:
        raise conflicting_flags("--package", "--xpackage", ctx.command_path)
    opm = registry_flags.opm(container_tool)
    with progress(f"Exporting {index}") as bars:
        opm.export_packages(index, download_folder, package or xpackage or [], progress=bars)
