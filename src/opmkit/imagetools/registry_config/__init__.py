"""Registry settings shared with podman, skopeo and docker: registries.conf, certs.d and short-name aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.lazy import lazy_exports

if TYPE_CHECKING:
    from opmkit.imagetools.registry_config.certificates import Certificates
    from opmkit.imagetools.registry_config.mirror_rules import RepositoryLocation
    from opmkit.imagetools.registry_config.settings import AUTH_FILES_HELPER, RegistrySettings

__all__ = ["AUTH_FILES_HELPER", "Certificates", "RegistrySettings", "RepositoryLocation"]

__getattr__ = lazy_exports(
    __name__,
    {
        "certificates": ("Certificates",),
        "mirror_rules": ("RepositoryLocation",),
        "settings": ("AUTH_FILES_HELPER", "RegistrySettings"),
    },
)
