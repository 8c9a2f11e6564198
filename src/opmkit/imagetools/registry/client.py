"""Registry client entry point."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from msgspec import structs

from opmkit.imagetools.credentials import Keychain
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry.mirrors import MirroredRepository
from opmkit.imagetools.registry.options import RegistryOptions
from opmkit.imagetools.registry.repository import RegistryRepository
from opmkit.imagetools.registry.retry import RetryPolicy
from opmkit.imagetools.registry.transport import RegistryTransport
from opmkit.imagetools.registry.trust_policy import TrustPolicy
from opmkit.imagetools.registry_config import RegistrySettings

if TYPE_CHECKING:
    from opmkit.core.errors import OpmkitError
    from opmkit.core.progress import TransferObserver
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.registry.sessions import TransferStats
    from opmkit.imagetools.registry_config import RepositoryLocation
    from opmkit.imagetools.repository import ImageSource
    from opmkit.imagetools.signatures.lookaside import Lookaside


class RegistryClient:
    """A client of all registries, with shared connections and tokens. Thread-safe.

    As a context manager it closes its connections.
    """

    def __init__(
        self,
        options: RegistryOptions | None = None,
        *,
        retry: RetryPolicy | None = None,
        settings: RegistrySettings | None = None,
        keychain: Keychain | None = None,
    ) -> None:
        """Create a client, without sending anything yet.

        Raises:
            ImageToolsError: A certificate file in ``options`` cannot be read or is invalid.
        """
        options = options or RegistryOptions()
        self._settings = settings or RegistrySettings()
        self._keychain = keychain or Keychain(options.authfile, helpers=self._settings.credential_helpers)
        self._transport = RegistryTransport(options, retry or RetryPolicy(), self._keychain, self._settings)
        self._policy = TrustPolicy(options, self._settings.environ, self._settings.system)
        self._failed_mirrors: dict[str, OpmkitError] = {}

    def resolve_short_name(self, reference: Reference) -> Reference:
        """Return a reference with the full name that is read for it: by alias, or in the registry to search.

        Mirrors are not part of the name.

        Raises:
            ImageToolsError: A settings file of the machine is invalid.
            NotFound: The reference is an ambiguous short name.
        """
        return replace(self._settings.resolve_short_name(reference), short_name="")

    def load_credentials(self) -> None:
        """Read the credentials files now, so that they can be removed; raises ImageToolsError."""
        self._keychain.load()

    def repository(self, reference: Reference) -> RegistryRepository:
        """Return the repository of a reference for reading, including its mirrors.

        Whether a mirror applies depends on whether the reference has a digest.

        Raises:
            ImageToolsError: A settings file of the machine is invalid.
            NotFound: The reference is an ambiguous short name.
        """
        reference = self._settings.resolve_short_name(reference)
        target = self._repository_at(self._settings.push_location(reference))
        sources = [self._repository_at(location) for location in self._settings.pull_locations(reference)]
        if [source.location for source in sources] == [target.location]:
            return target
        return MirroredRepository(target, sources, self._failed_mirrors)

    def target(self, reference: Reference) -> RegistryRepository:
        """Return the repository of a reference for writing, without mirrors; its tag and digest are ignored."""
        return self._repository_at(self._settings.push_location(self._settings.resolve_short_name(reference)))

    def open_image(self, reference: Reference) -> tuple[RegistryRepository, str]:
        """Return the repository of an image that satisfies the policy, and the tag or digest to read there.

        Raises:
            VerificationFailed: The image does not satisfy the policy.
            ImageToolsError: See `repository` and `admit`.
        """
        repository = self.repository(reference)
        return repository, self.admit(reference, repository, reference.identifier)

    def admit(self, reference: ImageReference, source: ImageSource, identifier: str) -> str:
        """Check an image with the policy of the machine, and return the identifier to read, see `TrustPolicy.admit`."""
        return self._policy.admit(self._full_name(reference), source, identifier)

    def accepts_unsigned(self, reference: ImageReference) -> bool:
        """Return whether the policy of the machine accepts an image without a signature."""
        return self._policy.accepts_unsigned(self._full_name(reference))

    @property
    def lookaside(self) -> Lookaside:
        """The signatures outside registries."""
        from opmkit.imagetools.signatures.lookaside import Lookaside

        return Lookaside(self._transport.options, self._settings.environ, self._settings.system)

    def _full_name(self, reference: ImageReference) -> ImageReference:
        return self.resolve_short_name(reference) if isinstance(reference, Reference) else reference

    @property
    def transfer_stats(self) -> TransferStats:
        """The bytes read from and written to the network so far."""
        return self._transport.counter.stats

    @property
    def transfers(self) -> TransferObserver:
        """The observer of the reads of images."""
        return self._transport.options.transfers

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _repository_at(self, location: RepositoryLocation) -> RegistryRepository:
        insecure = location.insecure or not self._transport.options.verify_tls
        return RegistryRepository(self._transport, structs.replace(location, insecure=insecure))

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()
