"""Registries over HTTP: oras' client, with what it lacks around it."""

from opmkit.imagetools.registry.client import RegistryClient
from opmkit.imagetools.registry.messages import TransferStats
from opmkit.imagetools.registry.options import RegistryOptions
from opmkit.imagetools.registry.repository import RegistryRepository
from opmkit.imagetools.registry.retry import RetryPolicy

__all__ = ["RegistryClient", "RegistryOptions", "RegistryRepository", "RetryPolicy", "TransferStats"]
