"""Access to registries from worker processes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from opmkit._version import __version__
from opmkit.core.executors import ExecutorError, ExecutorLocation
from opmkit.core.files import disk_errors, read_limited
from opmkit.core.hints import Hint
from opmkit.core.progress import NO_PROGRESS, NO_TRANSFERS
from opmkit.core.scratch import ScratchDirectory
from opmkit.imagetools.hint_terms import ImageSetting
from opmkit.imagetools.store.directory import report_untrusted_store

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from opmkit.core.progress import Progress
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.registry.options import RegistryOptions
    from opmkit.imagetools.tools.registry import RegistryTool

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options of access to registries from workers.

    Attributes:
        registry: Options of their registry clients.
        credentials: Content of a credentials file to use instead of those of the worker, or empty.
        release: Release of this program, which workers must have, too.
    """

    registry: RegistryOptions
    credentials: bytes = field(default=b"", repr=False)
    release: str = __version__

    @classmethod
    def create(cls, registry: RegistryOptions, credentials: bytes = b"", *, is_remote: bool) -> Self:
        """Return the options for workers; remote ones have another file system, and thus their own credentials file."""
        authfile = None if is_remote or credentials else registry.authfile
        return cls(replace(registry, authfile=authfile, transfers=NO_TRANSFERS), credentials)

    def tool(self) -> RegistryTool:
        """Return the tool of this process; raise ExecutorError if this program is another release than the caller."""
        self._check_release()
        return _open_tool(self)

    def client(self) -> RegistryClient:
        """Return the client of this process; raise ExecutorError if this program is another release than the caller."""
        self._check_release()
        return _open_client(self)

    def _check_release(self) -> None:
        if self.release != __version__:
            raise ExecutorError(
                f"a worker has release {__version__} of opmkit, but the command is {self.release}",
                hint="install the same release on all workers",
            )


@dataclass(frozen=True, slots=True)
class WorkerExecutor:
    """Workers that process images: local processes, or those of a scheduler.

    Attributes:
        location: Where the workers run.
        worker: How they access registries.
    """

    location: ExecutorLocation
    worker: WorkerOptions

    @classmethod
    def parse(cls, text: str, registry: RegistryOptions, credentials: Path | None = None) -> Self:
        """Parse the name of an executor.

        Args:
            text: ``processes``, ``processes:N``, ``dask://HOST:PORT`` or ``dask+tls://HOST:PORT``.
            registry: Options of the registry clients of the workers.
            credentials: Credentials file to send to the workers; by default, workers use their own.

        Raises:
            ExecutorError: The name of the executor is invalid.
            DiskError: The credentials file cannot be read.
        """
        location, content = ExecutorLocation.parse(text), b""
        if credentials:
            with disk_errors(credentials):
                content = read_limited(credentials)
        return cls(location, WorkerOptions.create(registry, content, is_remote=location.is_remote))

    @property
    def is_exposed(self) -> bool:
        """Whether credentials are sent to remote workers without encryption."""
        return bool(self.worker.credentials) and self.location.is_remote and not self.location.is_encrypted

    def check_paths(self, paths: Iterable[str]) -> None:
        """Raise ExecutorError for a path if workers may have other files."""
        first = next(iter(paths), None)
        if self.location.is_remote and first is not None:
            raise ExecutorError(
                f"{first}: files on this machine cannot be sent to {self.location.text}",
                hint=Hint("pass images, or use {}", ImageSetting.EXECUTOR.with_value("processes")),
            )

    def map(
        self,
        title: str,
        task: Callable[[Sequence[T]], Sequence[R]],
        items: Sequence[T],
        unit: str,
        progress: Progress = NO_PROGRESS,
    ) -> Generator[R, None, None]:
        """Yield the result of each item in order, and report the progress; see `TaskPool.map`."""
        if not self.location.is_remote:
            report_untrusted_store()
        with self.location.open() as pool:
            progress.begin(title, len(items), unit=unit)
            try:
                with closing(pool.map(task, items)) as results:
                    for result in results:
                        yield result
                        progress.advance(1)
            finally:
                progress.end()


@lru_cache(maxsize=8)
def _open_tool(options: WorkerOptions) -> RegistryTool:
    from opmkit.imagetools.store import ImageStore
    from opmkit.imagetools.tools.registry import RegistryTool

    return RegistryTool(_open_client(options), ImageStore.open())


@lru_cache(maxsize=8)
def _open_client(options: WorkerOptions) -> RegistryClient:
    from opmkit.imagetools.registry import RegistryClient

    if not options.credentials:
        return RegistryClient(options.registry)
    with ScratchDirectory("opm-worker-") as directory:  # the file exists only while it is read
        path = Path(directory, "auth.json")
        path.touch(mode=0o600)
        path.write_bytes(options.credentials)
        client = RegistryClient(replace(options.registry, authfile=path))
        client.load_credentials()
    return client
