"""Access to registries from worker processes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

from opmkit._version import __version__
from opmkit.core.executors import ExecutorError
from opmkit.core.progress import NO_TRANSFERS
from opmkit.core.scratch import ScratchDirectory

if TYPE_CHECKING:
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.registry.options import RegistryOptions
    from opmkit.imagetools.tools.registry import RegistryTool


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
