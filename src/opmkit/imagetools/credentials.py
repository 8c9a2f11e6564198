"""Registry credentials: lookup in the files and credential helpers of docker and podman."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.core.environment import config_home, home
from opmkit.core.files import read_limited
from opmkit.core.hints import Hint
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.hint_terms import ImageSetting
from opmkit.imagetools.registry_config import AUTH_FILES_HELPER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    RunHelper = Callable[[str, str], "Credentials | None"]


class Credentials(Struct, frozen=True):
    """A user name with a password, or a token. Secrets are not part of ``repr``.

    Attributes:
        username: User name; empty with a token.
        password: Password.
        identity_token: OAuth2 refresh token, for the token server.
        registry_token: Bearer token, for the registry itself.
        source: The file or program that provided the credentials.
    """

    username: str
    password: str = ""
    identity_token: str = ""
    registry_token: str = ""
    source: str = ""

    def __repr__(self) -> str:
        """Return the user name and the source."""
        return f"Credentials(username={self.username!r}, source={self.source!r})"

    def basic(self) -> str:
        """Return the value of an Authorization header (RFC 7617)."""
        pair = f"{self.username}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


TIMEOUT = 30.0
"""Seconds for a helper to answer; the helpers of cloud providers use the network."""

MAX_OUTPUT = 1 << 20
"""Bytes of the answer of a helper."""

_TOKEN_USERNAME = "<token>"  # noqa: S105 - not a secret
_NOT_FOUND = "credentials not found"


def run_credential_helper(name: str, server: str, timeout: float = TIMEOUT) -> Credentials | None:
    """Get the credentials for ``server`` from a helper.

    If the helper is missing, fails or times out, log a warning and return None: the image may be public, or another
    source may have the credentials.
    """
    from opmkit.core.programs import ProgramLimits, run_limited  # most runs need no helper
    from opmkit.core.search_paths import find_program

    program = f"docker-credential-{name}"
    path = None if "/" in name else find_program(program)  # a path would lead into the working directory
    if path is None:
        _log.warning("credential helper %s for %s: not found in PATH", program, server)
        return None
    try:
        done = run_limited([path, "get"], ProgramLimits(timeout, MAX_OUTPUT), server.encode())
    except OSError as error:
        _log.warning("credential helper %s for %s: %s", program, server, error.strerror or error)
        return None
    if done.status != 0:
        if _NOT_FOUND not in done.stdout.decode(errors="replace"):
            _log.warning("credential helper %s for %s: exit code %d", program, server, done.status)
        return None
    return _parse(program, server, done.stdout)


def _parse(program: str, server: str, output: bytes) -> Credentials | None:
    try:
        fields = json.loads(output)
        username, secret = fields["Username"], fields["Secret"]
    except (ValueError, KeyError, TypeError, RecursionError):
        username = secret = None
    if not isinstance(username, str) or not isinstance(secret, str) or not _is_encodable(username, secret):
        _log.warning("credential helper %s for %s: invalid JSON in its output", program, server)
        return None
    if username == _TOKEN_USERNAME:
        return Credentials("", identity_token=secret, source=program)
    return Credentials(username, secret, source=program)


_DOCKER_HUB = "docker.io"
_DOCKER_HUB_KEY = "https://index.docker.io/v1/"
_DOCKER_HUB_HOSTS = frozenset({"index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})
_DOCKERCFG = ".dockercfg"
"""The file of docker before 1.7, whose content is that of ``auths``."""
_API_VERSIONS = frozenset({"v1", "v2"})


class AuthFile(Struct, frozen=True):
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
            except ValueError:  # of base64, ASCII or UTF-8
                raise _invalid(self.path, f'"auth" for {key} is not base64') from None
            username, _, password = decoded.partition(":")
        identity_token, registry_token = _string(entry, "identitytoken"), _string(entry, "registrytoken")
        if not _is_encodable(username, password, identity_token, registry_token):
            raise _invalid(self.path, f"the entry for {key} contains lone surrogates")
        if not (registry_token.isascii() and registry_token.isprintable()):
            raise _invalid(self.path, f'"registrytoken" for {key} is not a token')
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


def _is_encodable(*texts: str) -> bool:
    """Report whether texts have no lone surrogates, which escapes in JSON can produce."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _invalid(path: Path, reason: str) -> ImageToolsError:
    return ImageToolsError(
        f"credentials file {path}: {reason}",
        hint="correct or remove it, then log in again with `podman login` or `docker login`",
    )


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
