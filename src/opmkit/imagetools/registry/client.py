"""The way to registries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from opmkit.imagetools.auth import Keychain
from opmkit.imagetools.registry.endpoint import Endpoint
from opmkit.imagetools.registry.options import RegistryOptions
from opmkit.imagetools.registry.repository import RegistryRepository
from opmkit.imagetools.registry.retry import RetryPolicy
from opmkit.imagetools.registry.transport import Transport

if TYPE_CHECKING:
    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.registry.exchange import Traffic


class RegistryClient:
    """Repositories of any registries, with shared connections, tokens and count of traffic.

    Safe to use from several threads; as a context manager it closes its connections.
    """

    def __init__(self, options: RegistryOptions | None = None, *, retry: RetryPolicy | None = None) -> None:
        """Set up by ``options``; raises ImageToolsError if their ``ca_file`` can't be used. Nothing is sent yet."""
        options = options or RegistryOptions()
        self._transport = Transport(options, retry or RetryPolicy(), Keychain(options.authfile))

    def repository(self, reference: Reference) -> RegistryRepository:
        """The repository that a reference names; its tag and digest don't matter."""
        endpoint = Endpoint(self._transport.prefix, reference.registry, reference.repository)
        return RegistryRepository(self._transport, endpoint)

    @property
    def traffic(self) -> Traffic:
        """The bytes read from and written to the network so far."""
        return self._transport.meter.traffic

    def close(self) -> None:
        """Close the connections."""
        self._transport.session.close()

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()
