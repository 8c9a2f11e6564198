"""Where credentials are looked for, and in which order."""

from __future__ import annotations

import logging
import os
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.auth.auth_file import AuthFile, server_key
from opmkit.imagetools.auth.helpers import ask_helper
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.hints import Hint, Setting
from opmkit.imagetools.registry_config import AUTH_FILES_HELPER
from opmkit.imagetools.xdg import config_home, home

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opmkit.imagetools.auth.credentials import Credentials

_log = logging.getLogger(__name__)
_VARIABLE = "REGISTRY_AUTH_FILE"


def check_authfile(path: Path) -> None:
    """Raise ImageToolsError if an explicit credentials file does not exist."""
    if not path.exists():
        raise ImageToolsError(
            f"{path}: credentials file does not exist",
            hint=Hint.any_of(
                f"create it with 'podman login --authfile {path} REGISTRY'", Hint("omit {}", Setting.AUTHFILE)
            ),
        )


class Keychain:
    """Credentials by registry and repository; safe to share between threads.

    With ``authfile`` that file alone is asked. Else ``helpers`` gives the names of credential helpers, asked in their
    order; AUTH_FILES_HELPER stands for the files. A file named by ``REGISTRY_AUTH_FILE``, or else the one in
    ``DOCKER_CONFIG``, is the only one, as it is for podman. Without these variables the places are those of
    containers-auth.json(5): ``$XDG_RUNTIME_DIR/containers/auth.json`` (``/run/containers/UID/auth.json`` without that
    variable), ``$XDG_CONFIG_HOME/containers/auth.json``, ``~/.docker/config.json`` and ``~/.dockercfg``. Files are read
    when they are first needed, and the first that has something for the registry wins.
    """

    def __init__(
        self,
        authfile: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        *,
        helpers: Callable[[], tuple[str, ...]] = lambda: (AUTH_FILES_HELPER,),
    ) -> None:
        """Fix the places; nothing is read yet."""
        self._authfile = authfile
        self._helpers = helpers if authfile is None else lambda: (AUTH_FILES_HELPER,)
        self.places: tuple[Path, ...] = (authfile,) if authfile else tuple(_places(environ))
        self._from_environment = Path(environ[_VARIABLE]) if environ.get(_VARIABLE) and not authfile else None
        self._files: dict[Path, AuthFile | None] = {}
        self._ask = cache(ask_helper)
        self._lock = threading.Lock()

    def find(self, registry: str, repository: str) -> Credentials | None:
        """The credentials for a repository, None where there are none.

        Raises ImageToolsError for a broken file, and for an explicit ``authfile`` that isn't there.
        """
        with self._lock:
            for helper in self._helpers():
                if helper == AUTH_FILES_HELPER:
                    found = self._in_files(registry, repository)
                else:
                    found = self._ask(helper, server_key(registry))
                if found:
                    return found
            return None

    def _in_files(self, registry: str, repository: str) -> Credentials | None:
        for place in self.places:
            file = self._read(place)
            if file and (found := file.find(registry, repository, self._ask)):
                return found
        return None

    def _read(self, place: Path) -> AuthFile | None:
        if place not in self._files:
            self._files[place] = AuthFile.read(place) if self._may_read(place) else None
            if self._files[place] is None and place == self._from_environment:  # podman and skopeo go on, too
                _log.warning("%s: credentials file %s does not exist; using no credentials", _VARIABLE, place)
        if self._files[place] is None and place == self._authfile:
            check_authfile(place)
        return self._files[place]

    def _may_read(self, place: Path) -> bool:
        """Whether to look into a file: of several, one that is somebody else's, as in a container, is passed by."""
        if len(self.places) == 1 or os.access(place, os.R_OK) or not os.access(place, os.F_OK):
            return True
        _log.warning("credentials file %s can't be read and is left out", place)
        return False


def _places(environ: Mapping[str, str]) -> list[Path]:
    if named := environ.get(_VARIABLE):
        return [Path(named)]
    if folder := environ.get("DOCKER_CONFIG"):
        return [Path(folder, "config.json")]
    runtime = environ.get("XDG_RUNTIME_DIR")
    places = [Path(runtime, "containers/auth.json") if runtime else Path(f"/run/containers/{os.getuid()}/auth.json")]
    if config := config_home(environ):
        places.append(config / "containers/auth.json")
    if own := home(environ):
        places += [own / ".docker/config.json", own / ".dockercfg"]
    return places
