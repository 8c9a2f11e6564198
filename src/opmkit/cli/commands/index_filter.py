"""``opm index filter``: keep parts of a file-based catalog."""

from __future__ import annotations

from typing import Annotated

import typer

from opmkit.cli.flags.container_tools import ToolFlags
from opmkit.cli.flags.index import DefaultChannels, FromIndex, Permissive, parse_default_channels
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.target import OutputFlags, TargetFlags
from opmkit.cli.output.index import change_and_print
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import require_flags


def filter_index(
    ctx: typer.Context,
    *,
    filters: Annotated[
        list[str],
        typer.Argument(metavar="PACKAGE[:CHANNEL,...][@RANGE]", help="Packages, channels and versions to keep"),
    ],
    from_index: FromIndex = None,
    default_channel: DefaultChannels = None,
    with_dependencies: bool = flag(False, "Also keep packages that retained bundles depend on"),
    permissive: Permissive = False,
    tool_flags: ToolFlags,
    target_flags: TargetFlags,
    output_flags: OutputFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Keep only some packages, channels and versions of a file-based catalog

    Update graphs stay valid, and no update edges are invented. Bundles that are retained only for this are listed with
    the reason.

    [bold]Examples:[/]
      opm index filter lagoon-operator:stable other-operator -f quay.io/me/catalog:1 -t quay.io/me/small:1 --push
      opm index filter "lagoon-operator@>=0.2.0 <0.4.0" -f ./catalog --dry-run
      opm index filter lagoon-operator:alpha --default-channel lagoon-operator=alpha -f index.db --to-fbc -t me/small:1
    """
    from opmkit import FilterPackages

    require_flags(ctx, "from-index")
    change = FilterPackages.parse(
        filters,
        default_channels=dict(parse_default_channels(default_channel or [], ctx.command_path)),
        with_dependencies=with_dependencies,
        permissive=permissive,
    )
    opm = tool_flags.opm(registry_flags)
    change_and_print(opm, change, target_flags.plan(from_index, output_flags), output_flags)
