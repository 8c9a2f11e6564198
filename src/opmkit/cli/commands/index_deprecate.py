"""``opm index deprecate``: edit the deprecations of a file-based catalog."""

from __future__ import annotations

import typer

from opmkit.cli.flags.container_tools import ToolFlags
from opmkit.cli.flags.index import FromIndex
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.target import OutputFlags, TargetFlags
from opmkit.cli.output.errors import UsageError
from opmkit.cli.output.index import change_and_print
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import given_flags, require_flags


def deprecate(
    ctx: typer.Context,
    *,
    package: str = flag("", "Package to deprecate (required)", metavar="NAME"),
    channel: list[str] | None = flag(None, "Channels to deprecate instead of the package", metavar="NAME,..."),
    bundle: list[str] | None = flag(None, "Bundles to deprecate instead of the package", metavar="NAME,..."),
    message: str = flag("", "Message to users: the reason and what to use instead", "-m", metavar="TEXT"),
    undo: bool = flag(False, "Remove deprecations instead of adding them"),
    from_index: FromIndex = None,
    tool_flags: ToolFlags,
    target_flags: TargetFlags,
    output_flags: OutputFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Deprecate a package, channels or bundles in a file-based catalog without removing them

    Use deprecatetruncate to end updates and to remove the bundles below a bundle.

    [bold]Examples:[/]
      opm index deprecate --package lagoon-operator --channel alpha -m "Use the channel stable." -f ./catalog
      opm index deprecate --package lagoon-operator --undo -f quay.io/me/catalog:2 -t quay.io/me/catalog:3 --push
    """
    from opmkit import EditDeprecations

    require_flags(ctx, "from-index", "package")
    if ("message" in given_flags(ctx)) == undo or bool(message) == undo:
        raise UsageError("pass either --message or --undo", ctx.command_path)
    change = EditDeprecations.of_package(package, message, channels=channel or [], bundles=bundle or [])
    opm = tool_flags.opm(registry_flags)
    change_and_print(opm, change, target_flags.plan(from_index, output_flags), output_flags)
