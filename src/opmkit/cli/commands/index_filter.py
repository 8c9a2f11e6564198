"""``opm index filter`` and ``deprecate``: changes that file-based catalogs alone have a place for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.errors import UsageProblem
from opmkit.cli.go_commands import given_flags, require_flags
from opmkit.cli.index_flags import FromIndex, Target, Told, Tool, build_changed
from opmkit.cli.registry_flags import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.operations.deprecate import DeprecationEdit


def filter_index(
    ctx: typer.Context,
    *,
    parts: Annotated[
        list[str], typer.Argument(metavar="PACKAGE[:CHANNEL,...][@RANGE]", help="What to keep of the catalog.")
    ],
    from_index: FromIndex = None,
    default_channel: Annotated[
        list[str] | None,
        typer.Option(
            "--default-channel", metavar="PACKAGE=CHANNEL,...", help="Default channels from now on, where others go."
        ),
    ] = None,
    with_dependencies: Annotated[
        bool, typer.Option("--with-dependencies", help="Keep the packages that provide what bundles require, too.")
    ] = False,
    permissive: Annotated[
        bool, typer.Option("--permissive", help="Ignore packages and channels that are not found, with a warning.")
    ] = False,
    tool: Tool,
    target: Target,
    told: Told,
    connection: Connection,
) -> None:
    """Keep some packages of a file-based catalog, of them some channels, of these some versions.

    Update graphs stay valid, and no update is made up: a bundle that has to stay for that is told with the reason.

    [bold]Examples:[/]

      opm index filter lagoon-operator:stable other-operator -f quay.io/me/catalog:1 -t quay.io/me/small:1 --push

      opm index filter "lagoon-operator@>=0.2.0 <0.4.0" -f ./catalog --dry-run

      opm index filter lagoon-operator:alpha --default-channel lagoon-operator=alpha -f index.db --to-fbc -t me/small:1
    """
    from opmkit.index.operations.filter.change import FilterPackages
    from opmkit.index.operations.filter.package_filter import PackageFilter

    require_flags(ctx, "from-index")
    defaults = dict(_pairs(default_channel or [], ctx.command_path))
    change = FilterPackages(
        list(map(PackageFilter.parse, parts)),
        default_channels=defaults,
        with_dependencies=with_dependencies,
        permissive=permissive,
    )
    build_changed(tool.open(connection), target.plan(from_index, told), change, told)


def _pairs(texts: list[str], command: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        package, equals, channel = text.partition("=")
        if not equals:
            raise UsageProblem(f"--default-channel {text}: write PACKAGE=CHANNEL", command)
        yield package, channel


def deprecate(
    ctx: typer.Context,
    *,
    package: Annotated[str, typer.Option("--package", metavar="NAME", help="The package (required).")] = "",
    channel: Annotated[
        list[str] | None, typer.Option("--channel", metavar="NAME,...", help="Channels of it, not the package.")
    ] = None,
    bundle: Annotated[
        list[str] | None, typer.Option("--bundle", metavar="NAME,...", help="Bundles of it, not the package.")
    ] = None,
    message: Annotated[
        str, typer.Option("--message", "-m", metavar="TEXT", help="What users are told: why, and what to use instead.")
    ] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take back what was said of them.")] = False,
    from_index: FromIndex = None,
    tool: Tool,
    target: Target,
    told: Told,
    connection: Connection,
) -> None:
    """Say in a file-based catalog that a package, channels or bundles are deprecated; they stay where they are.

    To end updates and remove what lies below a bundle there is deprecatetruncate.

    [bold]Examples:[/]

      opm index deprecate --package lagoon-operator --channel alpha -m "Use the channel stable." -f ./catalog

      opm index deprecate --package lagoon-operator --undo -f quay.io/me/catalog:2 -t quay.io/me/catalog:3 --push
    """
    from opmkit.index.operations.deprecate import EditDeprecations

    require_flags(ctx, "from-index", "package")
    if ("message" in given_flags(ctx)) == undo or bool(message) == undo:
        raise UsageProblem("give a --message, or --undo to take back what was said", ctx.command_path)
    edits = list(_deprecation_edits(package, channel or [], bundle or [], message))
    build_changed(tool.open(connection), target.plan(from_index, told), EditDeprecations(edits), told)


def _deprecation_edits(
    package: str, channels: list[str], bundles: list[str], message: str
) -> Iterator[DeprecationEdit]:
    from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, PACKAGE, Deprecation
    from opmkit.index.operations.deprecate import DeprecationEdit

    named = [(CHANNEL, name) for name in channels] + [(BUNDLE, name) for name in bundles]
    for schema, name in named or [(PACKAGE, "")]:
        yield DeprecationEdit(package, Deprecation(schema, name, message))
