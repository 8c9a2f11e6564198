"""Lookup of credentials in files and credential helpers, in order of precedence."""

from __future__ import annotations

import logging
import os
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core.hints import Hint
from opmkit.core.xdg import config_home, home
from opmkit.imagetools.auth.auth_file import AuthFile, server_key
from opmkit.imagetools.auth.credential_helper import run_credential_helper
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.hint_terms import ImageSetting
from opmkit.imagetools.registry_config import AUTH_FILES_HELPER

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
                f"create it with 'podman login --authfile {path} REGISTRY'", Hint("omit {}", ImageSetting.AUTHFILE)
            ),
        )


class Keychain:
    """Credentials by registry and repository. Thread-safe.

    As in podman, the file named by ``REGISTRY_AUTH_FILE``, or else the one in ``DOCKER_CONFIG``, is the only one.
    Without these variables the files are those of containers-auth.json(5): ``$XDG_RUNTIME_DIR/containers/auth.json``
    (``/run/containers/UID/auth.json`` without that variable), ``$XDG_CONFIG_HOME/containers/auth.json``,
    ``~/.docker/config.json`` and ``~/.dockercfg``. Files are read on first use. The first match wins.

    Attributes:
        paths: The credentials files in order of precedence, whether they exist or not.
    """

    def __init__(
        self,
        authfile: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        *,
        helpers: Callable[[], tuple[str, ...]] = lambda: (AUTH_FILES_HELPER,),
    ) -> None:
        """Create a keychain, without reading any file yet.

        Args:
            authfile: A file to use exclusively.
            environ: The environment variables.
            helpers: A function that returns the names of credential helpers in order of precedence, among which
                AUTH_FILES_HELPER stands for the files.
        """
        self._authfile = authfile
        self._helpers = helpers if authfile is None else lambda: (AUTH_FILES_HELPER,)
        self.paths: tuple[Path, ...] = (authfile,) if authfile else tuple(_default_paths(environ))
        self._from_variable = Path(environ[_VARIABLE]) if environ.get(_VARIABLE) and not authfile else None
        self._files: dict[Path, AuthFile | None] = {}
        self._run_helper = cache(run_credential_helper)
        self._lock = threading.Lock()

    def find(self, registry: str, repository: str) -> Credentials | None:
        """Return the credentials for a repository, or None if there are none.

        Raises:
            ImageToolsError: A file is invalid, or the explicit ``authfile`` does not exist.
        """
        with self._lock:
            for helper in self._helpers():
                if helper == AUTH_FILES_HELPER:
                    credentials = self._find_in_files(registry, repository)
                else:
                    credentials = self._run_helper(helper, server_key(registry))
                if credentials:
                    return credentials
            return None

    def load(self) -> None:
        """Read the files now, so that they can be removed; raises ImageToolsError."""
        with self._lock:
            for path in self.paths:
                self._read(path)

    def _find_in_files(self, registry: str, repository: str) -> Credentials | None:
        for path in self.paths:
            file = self._read(path)
            if file and (credentials := file.find(registry, repository, self._run_helper)):
                return credentials
        return None

    def _read(self, path: Path) -> AuthFile | None:
        if path not in self._files:
            self._files[path] = AuthFile.read(path) if self._is_readable(path) else None
            if self._files[path] is None and path == self._from_variable:  # podman and skopeo continue as well
                _log.warning("%s: credentials file %s does not exist; using no credentials", _VARIABLE, path)
        if self._files[path] is None and path == self._authfile:
            check_authfile(path)
        return self._files[path]

    def _is_readable(self, path: Path) -> bool:
        """Return False, with a warning, for one of several files that another user owns, as in some containers."""
        if len(self.paths) == 1 or os.access(path, os.R_OK) or not os.access(path, os.F_OK):
            return True
        _log.warning("credentials file %s: permission denied; skipping it", path)
        return False


def _default_paths(environ: Mapping[str, str]) -> list[Path]:
    if path := environ.get(_VARIABLE):
        return [Path(path)]
    if directory := environ.get("DOCKER_CONFIG"):
        return [Path(directory, "config.json")]
    runtime = environ.get("XDG_RUNTIME_DIR")
    paths = [Path(runtime, "containers/auth.json") if runtime else Path(f"/run/containers/{os.getuid()}/auth.json")]
    if config := config_home(environ):
        paths.append(config / "containers/auth.json")
    if user_home := home(environ):
        paths += [user_home / ".docker/config.json", user_home / ".dockercfg"]
    return paths
