"""Where registries are found and whom to trust there: the settings that podman, skopeo and docker keep in files."""

from opmkit.imagetools.registry_config.certificates import Certificates
from opmkit.imagetools.registry_config.location import RepositoryLocation
from opmkit.imagetools.registry_config.settings import AUTH_FILES_HELPER, RegistrySettings

__all__ = ["AUTH_FILES_HELPER", "Certificates", "RegistrySettings", "RepositoryLocation"]
