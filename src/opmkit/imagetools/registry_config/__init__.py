"""Registry settings shared with podman, skopeo and docker: registries.conf, certs.d and short-name aliases."""

from opmkit.imagetools.registry_config.certificates import Certificates
from opmkit.imagetools.registry_config.location import RepositoryLocation
from opmkit.imagetools.registry_config.settings import AUTH_FILES_HELPER, RegistrySettings

__all__ = ["AUTH_FILES_HELPER", "Certificates", "RegistrySettings", "RepositoryLocation"]
