"""Flags that distribute work over processes and machines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from opmkit.cli.help.panels import SCALE_PANEL
from opmkit.cli.output.errors import UsageError, print_warning
from opmkit.cli.parser.declaration import flag
from opmkit.core.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit import WorkerExecutor
    from opmkit.cli.flags.registry import RegistryFlags


@dataclass(frozen=True, slots=True)
class ExecutorFlags:
    """Flags that run work in other processes or on other machines."""

    panel: ClassVar[str] = SCALE_PANEL

    executor: str = flag(
        "",
        "Where to process images: processes, processes:N, dask://HOST:PORT or dask+tls://HOST:PORT; "
        "default: this process",
        metavar="EXECUTOR",
    )
    executor_credentials: Path | None = flag(
        None, "Credentials file to send to the workers; default: workers use their own", metavar="FILE"
    )

    def parse(self, registry_flags: RegistryFlags) -> WorkerExecutor | None:
        """Return the executor, None to process images in this process.

        Raises:
            ExecutorError: The name of the executor is invalid.
            DiskError: The credentials file cannot be read.
            UsageError: Credentials are given without an executor.
        """
        if not self.executor:
            if self.executor_credentials:
                raise UsageError("--executor-credentials requires --executor")
            return None
        from opmkit import WorkerExecutor

        executor = WorkerExecutor.parse(self.executor, registry_flags.options(), self.executor_credentials)
        if executor.is_exposed:
            print_warning(
                f"--executor-credentials: sent to {self.executor} without encryption; use dask+tls://HOST:PORT"
            )
        return executor


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
