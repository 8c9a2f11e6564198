"""``opm index deprecate``: edit the deprecations of a file-based catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.container_tools import ToolFlags
from opmkit.cli.flags.index import FromIndex
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.target import OutputFlags, TargetFlags
from opmkit.cli.output.errors import UsageError
from opmkit.cli.output.index import build_and_print
from opmkit.cli.parser.go_commands import given_flags, require_flags

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.operations.deprecate import DeprecationEdit


def deprecate(
    ctx: typer.Context,
    *,
    package: Annotated[str, typer.Option("--package", metavar="NAME", help="Package to deprecate (required)")] = "",
    channel: Annotated[
        list[str] | None,
        typer.Option("--channel", metavar="NAME,...", help="Channels to deprecate instead of the package"),
    ] = None,
    bundle: Annotated[
        list[str] | None,
        typer.Option("--bundle", metavar="NAME,...", help="Bundles to deprecate instead of the package"),
    ] = None,
    message: Annotated[
        str,
        typer.Option("--message", "-m", metavar="TEXT", help="Message to users: the reason and what to use instead"),
    ] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Remove deprecations instead of adding them")] = False,
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
    from opmkit.index.operations.deprecate import EditDeprecations

    require_flags(ctx, "from-index", "package")
    if ("message" in given_flags(ctx)) == undo or bool(message) == undo:
        raise UsageError("pass either --message or --undo", ctx.command_path)
    change = EditDeprecations(list(_deprecation_edits(package, channel or [], bundle or [], message)))
    build_and_print(tool_flags.open(registry_flags), target_flags.plan(from_index, output_flags), change, output_flags)


def _deprecation_edits(
    package: str, channels: list[str], bundles: list[str], message: str
) -> Iterator[DeprecationEdit]:
    from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, PACKAGE, Deprecation
    from opmkit.index.operations.deprecate import DeprecationEdit

    named = [(CHANNEL, name) for name in channels] + [(BUNDLE, name) for name in bundles]
    for schema, name in named or [(PACKAGE, "")]:
        yield DeprecationEdit(package, Deprecation(schema, name, message))
