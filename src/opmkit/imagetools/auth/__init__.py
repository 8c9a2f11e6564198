"""Registry credentials from the files and credential helpers of docker and podman."""

from opmkit.imagetools.auth.credentials import Credentials
from opmkit.imagetools.auth.keychain import Keychain

__all__ = ["Credentials", "Keychain"]
