"""Where registries are found and whom to trust there: the settings that podman, skopeo and docker keep in files."""

from opmkit.imagetools.hosts.certificates import Certificates
from opmkit.imagetools.hosts.hosts import AUTH_FILES, Hosts
from opmkit.imagetools.hosts.place import Place

__all__ = ["AUTH_FILES", "Certificates", "Hosts", "Place"]
