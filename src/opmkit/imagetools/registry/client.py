"""The way to registries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from opmkit.imagetools.auth import Keychain
from opmkit.imagetools.registry.mirrors import MirroredRepository
from opmkit.imagetools.registry.options import RegistryOptions
from opmkit.imagetools.registry.repository import RegistryRepository
from opmkit.imagetools.registry.retry import RetryPolicy
from opmkit.imagetools.registry.transport import Transport
from opmkit.imagetools.registry_config import RegistrySettings

if TYPE_CHECKING:
    from opmkit.imagetools.errors import ImageToolsError
    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.registry.messages import TransferStats
    from opmkit.imagetools.registry_config import RepositoryLocation


class RegistryClient:
    """Repositories of any registries, with shared connections, tokens and count of traffic.

    Safe to use from several threads; as a context manager it closes its connections.
    """

    def __init__(
        self,
        options: RegistryOptions | None = None,
        *,
        retry: RetryPolicy | None = None,
        settings: RegistrySettings | None = None,
    ) -> None:
        """Set up by ``options``, and by ``hosts`` for the machine's settings. Nothing is sent yet.

        Raises ImageToolsError for certificates in ``options`` that can't be used.
        """
        options = options or RegistryOptions()
        self._hosts = settings or RegistrySettings()
        keychain = Keychain(options.authfile, helpers=self._hosts.credential_helpers)
        self._transport = Transport(options, retry or RetryPolicy(), keychain, self._hosts)
        self._failed_mirrors: dict[str, ImageToolsError] = {}

    def repository(self, reference: Reference) -> RegistryRepository:
        """Where to read the image from that a reference names: its repository, or mirrors of it before that.

        Which mirrors there are depends on whether it has a digest. Raises ImageToolsError for settings of the machine
        that can't be understood, and NotFound for a short name that could mean several things.
        """
        reference = self._hosts.resolve_short_name(reference)
        target = self._at(self._hosts.push_location(reference))
        sources = [self._at(place) for place in self._hosts.pull_locations(reference)]
        alone = [source.place for source in sources] == [target.place]
        return target if alone else MirroredRepository(target, sources, self._failed_mirrors)

    def target(self, reference: Reference) -> RegistryRepository:
        """The repository that a reference names itself, where images are sent to; its tag and digest don't matter."""
        return self._at(self._hosts.push_location(self._hosts.resolve_short_name(reference)))

    @property
    def traffic(self) -> TransferStats:
        """The bytes read from and written to the network so far."""
        return self._transport.meter.traffic

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _at(self, place: RepositoryLocation) -> RegistryRepository:
        insecure = place.insecure or not self._transport.options.verify_tls
        return RegistryRepository(self._transport, replace(place, insecure=insecure))

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()
