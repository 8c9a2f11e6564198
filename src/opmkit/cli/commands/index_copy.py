"""``opm index copy``: copy packages and their dependencies from one index to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.commands.index_merge import OutputDirectory, check_result
from opmkit.cli.flags.container_tools import ToolFlags
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.target import NamedTargetFlags, OutputFlags
from opmkit.cli.output.index import print_built
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import require_flags
from opmkit.cli.progress.command import progress


def copy(
    ctx: typer.Context,
    *,
    packages: Annotated[
        list[str],
        typer.Argument(metavar="PACKAGE[:CHANNEL,...][@RANGE]...", help="Packages, or parts of them, to copy"),
    ],
    from_: str | None = flag(None, "Index to copy from (required)", "--from", metavar="INDEX"),
    to: str | None = flag(
        None,
        "Index to copy to: an image, or a database or directory to change in place; default: a new file-based catalog",
        metavar="INDEX",
    ),
    no_dependencies: bool = flag(False, "Do not copy packages that the copied ones depend on"),
    prefer: list[str] | None = flag(
        None,
        "Index whose version the result has if a package has different content in both; first is --to",
        metavar="[PACKAGE=]INDEX|first|last,...",
    ),
    output_dir: OutputDirectory = None,
    tool_flags: ToolFlags,
    target_flags: NamedTargetFlags,
    output_flags: OutputFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Copy packages and the packages that they depend on from one index to another

    Dependencies that the other index provides are not copied. Each package is listed with the reason to copy it. If
    the other index has a package with different content, the command lists the differences and fails, unless --prefer
    names the one to use.

    [bold]Examples:[/]
      opm index copy lagoon-operator --from quay.io/me/test:1 --to quay.io/me/prod:1 --tag quay.io/me/prod:2 --push
      opm index copy lagoon-operator:stable other-operator --from quay.io/me/catalog:1 --output-dir catalog
      opm index copy lagoon-operator --from quay.io/me/test:1 --to ./catalog --prefer last --dry-run
    """
    require_flags(ctx, "from")
    in_place = to is not None and Path(to).exists()
    optional = in_place or output_flags.dry_run
    rebase_hint = "" if to else "pass the index behind the tag with --to"
    check_result(ctx, target_flags, output_dir, optional=optional, rebase_hint=rebase_hint)
    opm = tool_flags.opm(registry_flags)
    plan = target_flags.plan(to, output_flags)
    with progress("Copying packages") as bars:
        built = opm.copy_packages(
            packages,
            from_ or "",
            plan,
            dependencies=not no_dependencies,
            prefer=prefer or [],
            output=output_dir,
            progress=bars,
        )
    print_built(built, output_flags, opm, push=plan.push)
