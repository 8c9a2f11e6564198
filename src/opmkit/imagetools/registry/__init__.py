"""Client of the OCI distribution API (OCI distribution-spec 1.1)."""

from opmkit.imagetools.registry.client import RegistryClient
from opmkit.imagetools.registry.options import RegistryOptions
from opmkit.imagetools.registry.repository import RegistryRepository
from opmkit.imagetools.registry.retry import RetryPolicy
from opmkit.imagetools.registry.transfer_stats import TransferStats

__all__ = ["RegistryClient", "RegistryOptions", "RegistryRepository", "RetryPolicy", "TransferStats"]
