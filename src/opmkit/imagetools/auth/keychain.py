"""Where credentials are looked for, and in which order."""

from __future__ import annotations

import os
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.auth.authfile import AuthFile
from opmkit.imagetools.auth.helpers import ask_helper
from opmkit.imagetools.errors import ImageToolsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.imagetools.auth.credentials import Credentials


class Keychain:
    """Credentials by registry and repository; safe to share between threads.

    With ``authfile`` that file alone is asked. Else the places are podman's (containers-auth.json(5)), then docker's:
    ``REGISTRY_AUTH_FILE``, ``$XDG_RUNTIME_DIR/containers/auth.json`` (``/run/containers/UID`` without that variable),
    ``$XDG_CONFIG_HOME/containers/auth.json`` and ``$DOCKER_CONFIG/config.json``. Files are read when they are first
    needed, and the first that has something for the registry wins.
    """

    def __init__(self, authfile: Path | None = None, environ: Mapping[str, str] = os.environ) -> None:
        """Fix the places; nothing is read yet."""
        self._authfile = authfile
        self.places: tuple[Path, ...] = (authfile,) if authfile else tuple(_places(environ))
        self._files: dict[Path, AuthFile | None] = {}
        self._ask = cache(ask_helper)
        self._lock = threading.Lock()

    def find(self, registry: str, repository: str) -> Credentials | None:
        """The credentials for a repository, None where there are none.

        Raises ImageToolsError for a broken file, and for an explicit ``authfile`` that isn't there.
        """
        with self._lock:
            for place in self.places:
                file = self._read(place)
                if file and (found := file.find(registry, repository, self._ask)):
                    return found
            return None

    def _read(self, place: Path) -> AuthFile | None:
        if place not in self._files:
            self._files[place] = AuthFile.read(place)
        if self._files[place] is None and place == self._authfile:
            raise ImageToolsError(
                f"credentials file {place} is not there",
                advice=f"make it with `podman login --authfile {place} REGISTRY`, or leave --authfile out",
            )
        return self._files[place]


def _places(environ: Mapping[str, str]) -> list[Path]:
    home = Path(environ.get("HOME") or Path.home())
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/containers/{os.getuid()}"
    runtime_file = "containers/auth.json" if environ.get("XDG_RUNTIME_DIR") else "auth.json"
    named = environ.get("REGISTRY_AUTH_FILE")
    return [
        *([Path(named)] if named else []),
        Path(runtime, runtime_file),
        Path(environ.get("XDG_CONFIG_HOME") or home / ".config", "containers/auth.json"),
        Path(environ.get("DOCKER_CONFIG") or home / ".docker", "config.json"),
    ]
