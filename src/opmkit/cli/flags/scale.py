"""Flags that distribute work over processes and machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.help.panels import SCALE_PANEL
from opmkit.core.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Iterable

_LIST_PREFIX = "@"

ShardOption = Annotated[
    str,
    typer.Option(
        "--shard",
        metavar="K/N",
        help="Process only part K of N of the references, chosen by their hashes",
        rich_help_panel=SCALE_PANEL,
    ),
]


def expand_references(references: Iterable[str], shard: str) -> list[str]:
    """Replace each ``@FILE`` by the references that the file lists, and return the references of a shard.

    Args:
        references: references and lists of references.
        shard: the shard as ``K/N``; empty for all references.

    Raises:
        InvalidShard: The shard is not K/N.
        NotABundle, DiskError: A list cannot be read.
    """
    part = Shard.parse(shard) if shard else None
    expanded: list[str] = []
    for reference in references:
        if reference.startswith(_LIST_PREFIX):
            from opmkit.bundle.validation.sources import read_list

            expanded += read_list(Path(reference.removeprefix(_LIST_PREFIX)))
        else:
            expanded.append(reference)
    return part.select(expanded) if part else expanded
