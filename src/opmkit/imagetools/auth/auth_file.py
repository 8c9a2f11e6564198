"""One file of credentials: docker's ``config.json`` or podman's ``auth.json``, which share their form."""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.imagetools.auth.credentials import Credentials
from opmkit.imagetools.auth.helpers import ask_helper
from opmkit.imagetools.errors import ImageToolsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    AskHelper = Callable[[str, str], Credentials | None]

_DOCKER_HUB = "docker.io"
_DOCKER_HUB_KEY = "https://index.docker.io/v1/"
_DOCKER_HUB_HOSTS = frozenset({"index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})
_OLD_NAME = ".dockercfg"
"""docker's file before version 1.7, which has entries alone."""
_API_VERSIONS = frozenset({"v1", "v2"})


@dataclass(frozen=True, slots=True)
class AuthFile:
    """The entries of a file: ``auths`` and ``helpers`` by registry or registry/path, ``store`` for the rest."""

    path: Path
    auths: Mapping[str, Mapping[str, object]]
    helpers: Mapping[str, str]
    store: str = ""

    @classmethod
    def read(cls, path: Path) -> AuthFile | None:
        """Read a file, None if there is none; ImageToolsError, that tells none of it, if it can't be understood."""
        try:
            text = path.read_bytes()
            content = json.loads(text) if text.strip() else {}
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unusable(path, error.strerror or "can't be read") from error
        except (ValueError, RecursionError) as error:
            where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
            raise _unusable(path, f"is no JSON{where}") from None
        if not isinstance(content, dict):
            raise _unusable(path, "is no JSON object")
        if path.name == _OLD_NAME:
            content = {"auths": content}
        auths = _objects(path, content, "auths")
        helpers = _objects(path, content, "credHelpers")
        return cls(
            path,
            {_normal(key): entry for key, entry in auths.items() if isinstance(entry, dict)},
            {_normal(key): name for key, name in helpers.items() if isinstance(name, str) and name},
            str(content.get("credsStore") or ""),
        )

    def find(self, registry: str, repository: str, ask: AskHelper = ask_helper) -> Credentials | None:
        """The credentials for ``registry/repository``: the entry with the longest matching path, else the store's."""
        registry = _normal(registry)
        for key in _keys(registry, repository):
            if (helper := self.helpers.get(key)) and (found := ask(helper, server_key(key))):
                return found
            if (entry := self.auths.get(key)) and (found := self._from_entry(key, entry)):
                return found
        return ask(self.store, server_key(registry)) if self.store else None

    def _from_entry(self, key: str, entry: Mapping[str, object]) -> Credentials | None:
        username, password = _text(entry, "username"), _text(entry, "password")
        if encoded := _text(entry, "auth"):
            try:
                decoded = base64.b64decode(encoded, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                raise _unusable(self.path, f'has an "auth" for {key} that is not base64') from None
            username, _, password = decoded.partition(":")
        identity, ready = _text(entry, "identitytoken"), _text(entry, "registrytoken")
        if not identity and not ready and not password:
            return None
        return Credentials(username, password.rstrip("\0"), identity, ready, source=str(self.path))


def _keys(registry: str, repository: str) -> Iterator[str]:
    """``quay.io/a/b``, ``quay.io/a``, ``quay.io``."""
    key = f"{registry}/{repository}"
    while key:
        yield key
        key = key.rpartition("/")[0]


def _normal(key: str) -> str:
    """A key without scheme, and without the API version of old forms such as ``https://index.docker.io/v1/``."""
    bare = re.sub(r"^https?://", "", key.strip())
    host, _, path = bare.strip("/").partition("/")
    if bare != key.strip() or path in _API_VERSIONS:
        path = ""
    if host in _DOCKER_HUB_HOSTS:
        host = _DOCKER_HUB
    return f"{host}/{path}" if path else host


def server_key(key: str) -> str:
    """What a helper knows the registry by."""
    return _DOCKER_HUB_KEY if key == _DOCKER_HUB else key


def _objects(path: Path, content: Mapping[str, object], key: str) -> dict[str, object]:
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise _unusable(path, f'has an "{key}" that is no JSON object')
    return value


def _text(entry: Mapping[str, object], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def _unusable(path: Path, reason: str) -> ImageToolsError:
    return ImageToolsError(
        f"credentials file {path}: {reason}",
        hint="correct or remove it, then log in again with `podman login` or `docker login`",
    )
