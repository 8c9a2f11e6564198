"""Credentials for registries, from the files and helpers that docker and podman keep them in."""

from opmkit.imagetools.auth.credentials import Credentials
from opmkit.imagetools.auth.keychain import Keychain

__all__ = ["Credentials", "Keychain"]
