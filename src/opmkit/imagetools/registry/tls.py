"""Connections to registries: how many, and which certificates are trusted."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from requests.adapters import HTTPAdapter

from opmkit.imagetools.errors import ImageToolsError

if TYPE_CHECKING:
    from opmkit.imagetools.registry.options import RegistryOptions

_POOL = 16
"""Connections kept open to one host; as many as threads that use it at a time."""


class Adapter(HTTPAdapter):
    """Keeps enough connections, and trusts the system's certificates and ``ca_file`` besides those of certifi."""

    def __init__(self, options: RegistryOptions) -> None:
        """Load the certificates, unless nothing is going to be checked; ImageToolsError if ``ca_file`` is no good."""
        self._tls = _context(options) if options.verify_tls and not options.plain_http else None
        super().__init__(pool_maxsize=_POOL)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **kwargs: Any) -> None:
        """Give the pool the trust that was set up."""
        super().init_poolmanager(connections, maxsize, block, **kwargs, ssl_context=self._tls)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        """The same for connections through a proxy."""
        return super().proxy_manager_for(proxy, **kwargs, ssl_context=self._tls)


def _context(options: RegistryOptions) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if options.ca_file is not None:
        try:
            context.load_verify_locations(cafile=options.ca_file)
        except OSError as error:
            reason = "holds no PEM certificate" if isinstance(error, ssl.SSLError) else error.strerror
            raise ImageToolsError(
                f"certificate file {options.ca_file}: {reason}", advice="give a PEM file of certificate authorities"
            ) from error
    return context
