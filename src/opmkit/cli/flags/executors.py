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

    from opmkit.cli.flags.registry import RegistryFlags
    from opmkit.core.executors import ExecutorLocation
    from opmkit.imagetools.worker_options import WorkerOptions

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class CommandExecutor:
    """The executor of one command."""

    location: ExecutorLocation
    worker: WorkerOptions

    def check_paths(self, paths: Iterable[str]) -> None:
        """Raise UsageError for a path if workers may have other files."""
        first = next(iter(paths), None)
        if self.location.is_remote and first is not None:
            raise UsageError(
                f"{first}: files on this machine cannot be sent to {self.location.text}",
                hint="pass images, or use --executor processes",
            )

    def map(
        self, title: str, task: Callable[[Sequence[T]], Sequence[R]], items: Sequence[T], unit: str
    ) -> Generator[R, None, None]:
        """Yield the result of each item in order, and report the progress; see `TaskPool.map`."""
        with progress() as bars, self.location.open() as pool:
            bars.begin(title, len(items), unit=unit)
            try:
                with closing(pool.map(task, items)) as results:
                    for result in results:
                        yield result
                        bars.advance(1)
            finally:
                bars.end()


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
        from opmkit.core.executors import ExecutorLocation
        from opmkit.core.files import disk_errors, read_limited
        from opmkit.imagetools.worker_options import WorkerOptions

        location = ExecutorLocation.parse(self.executor)
        credentials = b""
        if self.executor_credentials:
            with disk_errors(self.executor_credentials):
                credentials = read_limited(self.executor_credentials)
            if location.is_remote and not location.is_encrypted:
                print_warning(
                    f"--executor-credentials: sent to {location.text} without encryption; use dask+tls://HOST:PORT"
                )
        options = registry_flags.options()
        return CommandExecutor(location, WorkerOptions.create(options, credentials, is_remote=location.is_remote))
