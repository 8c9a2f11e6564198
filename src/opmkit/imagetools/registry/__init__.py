"""Client of the OCI distribution API (OCI distribution-spec 1.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.lazy import lazy_exports

if TYPE_CHECKING:
    from opmkit.imagetools.registry.client import RegistryClient
    from opmkit.imagetools.registry.options import RegistryOptions
    from opmkit.imagetools.registry.repository import RegistryRepository
    from opmkit.imagetools.registry.retry import RetryPolicy
    from opmkit.imagetools.registry.sessions import TransferStats

__all__ = ["RegistryClient", "RegistryOptions", "RegistryRepository", "RetryPolicy", "TransferStats"]

# Modules are imported on first use: commands that read directories only need the options.
__getattr__ = lazy_exports(
    __name__,
    {
        "client": ("RegistryClient",),
        "options": ("RegistryOptions",),
        "repository": ("RegistryRepository",),
        "retry": ("RetryPolicy",),
        "sessions": ("TransferStats",),
    },
)
