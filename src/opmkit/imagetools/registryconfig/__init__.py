"""Where registries are found and whom to trust there: the settings that podman, skopeo and docker keep in files."""

from opmkit.imagetools.registryconfig.certificates import Certificates
from opmkit.imagetools.registryconfig.location import RepositoryLocation
from opmkit.imagetools.registryconfig.settings import AUTH_FILES_HELPER, RegistrySettings

__all__ = ["AUTH_FILES_HELPER", "Certificates", "RegistrySettings", "RepositoryLocation"]
