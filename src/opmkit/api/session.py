"""Settings and connections that all operations share."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.imagetools.registry.options import RegistryOptions

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.store import ImageStore
    from opmkit.imagetools.tools.registry import RegistryTool

_CREATION = threading.Lock()


@dataclass(frozen=True)
class Session:
    """The settings of `Opm`, and the connections that are created on first use."""

    registries: RegistryOptions = field(default_factory=RegistryOptions)
    store: Path | None = None
    _clients: list[RegistryClient] = field(default_factory=list, init=False, repr=False, compare=False)
    _tools: list[RegistryTool] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def _client(self) -> RegistryClient:
        """The registry client, created on first use."""
        from opmkit.imagetools.registry import RegistryClient

        with _CREATION:
            if not self._clients:
                self._clients.append(RegistryClient(self.registries))
            return self._clients[0]

    @property
    def _store(self) -> ImageStore:
        """The embedded image store."""
        from opmkit.imagetools.store import ImageStore

        return ImageStore.open(self.store)

    @property
    def _tool(self) -> RegistryTool:
        """The tool, created on first use."""
        from opmkit.imagetools.tools.registry import RegistryTool

        client, store = self._client, self._store
        with _CREATION:
            if not self._tools:
                self._tools.append(RegistryTool(client, store))
            return self._tools[0]
