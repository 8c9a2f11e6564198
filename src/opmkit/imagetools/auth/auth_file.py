"""Credentials files in the common format of docker's ``config.json`` and podman's ``auth.json``."""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.core.files import read_limited
from opmkit.imagetools.auth.credential_helper import run_credential_helper
from opmkit.imagetools.auth.credentials import Credentials
from opmkit.imagetools.errors import ImageToolsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    RunHelper = Callable[[str, str], Credentials | None]

_DOCKER_HUB = "docker.io"
_DOCKER_HUB_KEY = "https://index.docker.io/v1/"
_DOCKER_HUB_HOSTS = frozenset({"index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})
_DOCKERCFG = ".dockercfg"
"""The file of docker before 1.7, whose content is that of ``auths``."""
_API_VERSIONS = frozenset({"v1", "v2"})


@dataclass(frozen=True, slots=True)
class AuthFile:
    """The content of a credentials file.

    Attributes:
        path: The file.
        auths: Entries by REGISTRY or REGISTRY/PATH.
        helpers: Names of credential helpers by REGISTRY or REGISTRY/PATH (``credHelpers``).
        store: Name of the credential helper for all other registries (``credsStore``).
    """

    path: Path
    auths: Mapping[str, Mapping[str, object]]
    helpers: Mapping[str, str]
    store: str = ""

    @classmethod
    def read(cls, path: Path) -> AuthFile | None:
        """Read a file.

        Returns:
            The content, or None if the file does not exist.

        Raises:
            ImageToolsError: The file cannot be read or is invalid; the message quotes none of it.
        """
        try:
            text = read_limited(path)
            content = json.loads(text) if text.strip() else {}
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _invalid(path, error.strerror or "cannot be read") from error
        except (ValueError, RecursionError) as error:
            line = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
            raise _invalid(path, f"invalid JSON{line}") from None
        if not isinstance(content, dict):
            raise _invalid(path, "expected a JSON object")
        if path.name == _DOCKERCFG:
            content = {"auths": content}
        auths = _object(path, content, "auths")
        helpers = _object(path, content, "credHelpers")
        return cls(
            path,
            {_normalize(key): entry for key, entry in auths.items() if isinstance(entry, dict)},
            {_normalize(key): name for key, name in helpers.items() if isinstance(name, str) and name},
            str(content.get("credsStore") or ""),
        )

    def find(self, registry: str, repository: str, run_helper: RunHelper = run_credential_helper) -> Credentials | None:
        """Return the credentials of the entry with the longest path of ``registry/repository``, else the store's."""
        registry = _normalize(registry)
        for key in _keys(registry, repository):
            if (helper := self.helpers.get(key)) and (credentials := run_helper(helper, server_key(key))):
                return credentials
            if (entry := self.auths.get(key)) and (credentials := self._from_entry(key, entry)):
                return credentials
        return run_helper(self.store, server_key(registry)) if self.store else None

    def _from_entry(self, key: str, entry: Mapping[str, object]) -> Credentials | None:
        username, password = _string(entry, "username"), _string(entry, "password")
        if encoded := _string(entry, "auth"):
            try:
                decoded = base64.b64decode(encoded, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                raise _invalid(self.path, f'"auth" for {key} is not base64') from None
            username, _, password = decoded.partition(":")
        identity_token, registry_token = _string(entry, "identitytoken"), _string(entry, "registrytoken")
        if not identity_token and not registry_token and not password:
            return None
        return Credentials(username, password.rstrip("\0"), identity_token, registry_token, source=str(self.path))


def server_key(key: str) -> str:
    """Return the name by which credential helpers know a registry."""
    return _DOCKER_HUB_KEY if key == _DOCKER_HUB else key


def _keys(registry: str, repository: str) -> Iterator[str]:
    """Yield ``quay.io/a/b``, ``quay.io/a`` and ``quay.io``."""
    key = f"{registry}/{repository}"
    while key:
        yield key
        key = key.rpartition("/")[0]


def _normalize(key: str) -> str:
    """Remove the scheme, and the API version of old keys such as ``https://index.docker.io/v1/``."""
    bare = re.sub(r"^https?://", "", key.strip())
    host, _, path = bare.strip("/").partition("/")
    if bare != key.strip() or path in _API_VERSIONS:
        path = ""
    if host in _DOCKER_HUB_HOSTS:
        host = _DOCKER_HUB
    return f"{host}/{path}" if path else host


def _object(path: Path, content: Mapping[str, object], key: str) -> dict[str, object]:
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise _invalid(path, f'"{key}" is not a JSON object')
    return value


def _string(entry: Mapping[str, object], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def _invalid(path: Path, reason: str) -> ImageToolsError:
    return ImageToolsError(
        f"credentials file {path}: {reason}",
        hint="correct or remove it, then log in again with `podman login` or `docker login`",
    )
