"""Flags that run work in other processes or on other machines."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from opmkit.cli.help.panels import SCALE_PANEL
from opmkit.cli.output.errors import UsageError, print_warning
from opmkit.cli.progress.command import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from opmkit import WorkerExecutor
    from opmkit.cli.flags.registry import RegistryFlags
    from opmkit.core.executors import ExecutorLocation
    from opmkit.imagetools.worker_options import WorkerOptions

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class CommandExecutor:
    """The executor of a command that distributes its work itself, with the progress of the command."""

    workers: WorkerExecutor

    @property
    def location(self) -> ExecutorLocation:
        """The place where the workers run."""
        return self.workers.location

    @property
    def worker(self) -> WorkerOptions:
        """The access of the workers to registries."""
        return self.workers.worker

    def check_paths(self, paths: Iterable[str]) -> None:
        """Raise ExecutorError for a path if workers may have other files."""
        self.workers.check_paths(paths)

    def map(
        self, title: str, task: Callable[[Sequence[T]], Sequence[R]], items: Sequence[T], unit: str
    ) -> Generator[R, None, None]:
        """Yield the result of each item in order, and report the progress; see `TaskPool.map`."""
        with progress() as bars, closing(self.workers.map(title, task, items, unit, bars)) as results:
            yield from results


@dataclass(frozen=True, slots=True)
class ExecutorFlags:
    """Flags that run work in other processes or on other machines."""

    executor: Annotated[
        str,
        typer.Option(
            metavar="EXECUTOR",
            help="Where to process images: processes, processes:N, dask://HOST:PORT or dask+tls://HOST:PORT; "
            "default: this process",
            rich_help_panel=SCALE_PANEL,
        ),
    ] = ""
    executor_credentials: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Credentials file to send to the workers; default: workers use their own",
            rich_help_panel=SCALE_PANEL,
        ),
    ] = None

    def parse(self, registry_flags: RegistryFlags) -> CommandExecutor | None:
        """Return the executor, None for this process.

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
        return CommandExecutor(executor)
