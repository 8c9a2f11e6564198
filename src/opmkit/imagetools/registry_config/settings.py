"""Lookup of registry settings by reference: mirrors, short names, certificates and credential helpers."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core.environment import cache_home, config_home
from opmkit.imagetools.errors import ImageToolsError, InvalidReference, NotFound
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry_config.certificates import Certificates
from opmkit.imagetools.registry_config.mirror_rules import RepositoryLocation
from opmkit.imagetools.registry_config.registries_conf import RegistriesConf

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.imagetools.registry_config.registries_conf import Registry


MAIN_VARIABLE, OVERRIDE_VARIABLE = "CONTAINERS_REGISTRIES_CONF", "CONTAINERS_REGISTRIES_CONF_OVERRIDE"
SYSTEM_DIRECTORY = Path("/etc")

_NAME = "registries.conf"
_ALIASES = "containers/short-name-aliases.conf"


def load_registries_conf(environ: Mapping[str, str], system: Path = SYSTEM_DIRECTORY) -> RegistriesConf:
    """Load and merge all registries.conf files that apply to this user.

    The main file is the one that ``CONTAINERS_REGISTRIES_CONF`` names, else the user's, else the system's. The drop-in
    files of the system and then those of the user override it, in the order of their names; with the user's main file
    only the user's drop-in files apply. The file that ``CONTAINERS_REGISTRIES_CONF_OVERRIDE`` names comes last.

    Raises:
        ImageToolsError: A file is invalid, or a file named by a variable does not exist.
    """
    system_directory, user_directories = system / "containers", _user_directories(environ)
    directories = [system_directory, *user_directories]
    main = _from_variable(environ, MAIN_VARIABLE)
    if main is None and user_directories and (main := _read_user_file(user_directories[0] / _NAME)):
        directories = user_directories
    settings = main or RegistriesConf.read(system_directory / _NAME) or RegistriesConf()
    for path in (path for directory in directories for path in _drop_ins(directory / f"{_NAME}.d")):
        settings = settings.overridden_by(RegistriesConf.read(path) or RegistriesConf())
    return settings.overridden_by(_from_variable(environ, OVERRIDE_VARIABLE) or RegistriesConf())


def load_recorded_aliases(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Load the short-name aliases that podman recorded for this user; they take precedence over the settings."""
    cache = Path("/var/cache") if os.getuid() == 0 else cache_home(environ)
    recorded = _read_user_file(cache / _ALIASES) if cache else None
    return recorded.aliases if recorded else {}


def certificate_directories(environ: Mapping[str, str], system: Path = SYSTEM_DIRECTORY) -> list[Path]:
    """Return the certs.d directories in order of precedence, whether they exist or not."""
    directories = [*_user_directories(environ), system / "containers", system / "docker"]
    return [directory / "certs.d" for directory in directories]


def _user_directories(environ: Mapping[str, str]) -> list[Path]:
    """Return the user's settings directory, or an empty list for a user without a home directory."""
    directory = config_home(environ)
    return [directory / "containers"] if directory else []


def _from_variable(environ: Mapping[str, str], variable: str) -> RegistriesConf | None:
    path = environ.get(variable)
    if not path:
        return None
    settings = RegistriesConf.read(Path(path))
    if settings is None:
        raise ImageToolsError(f"registry settings {path}: file does not exist", hint=f"correct or unset {variable}")
    return settings


def _read_user_file(path: Path) -> RegistriesConf | None:
    """Read a file, or return None if it is missing or in another user's home, as may happen in containers."""
    return RegistriesConf.read(path) if os.access(path, os.F_OK) else None


def _drop_ins(directory: Path) -> Iterator[Path]:
    if os.access(directory, os.R_OK | os.X_OK):
        yield from sorted(path for path in directory.glob("*.conf") if not path.is_dir())


AUTH_FILES_HELPER = "containers-auth.json"
"""The name among credential helpers that stands for credentials files (containers-registries.conf(5))."""

_log = logging.getLogger(__name__)


class RegistrySettings:
    """The registry settings of this machine and user, loaded on first use. Thread-safe.

    All methods raise ImageToolsError, with file and line, if a settings file is invalid.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ, *, system: Path = SYSTEM_DIRECTORY) -> None:
        """Create settings from ``environ`` and the directory ``system``, without reading any file yet."""
        self.environ = environ
        self.system = system
        self._loaded_conf: RegistriesConf | None = None
        self._loaded_aliases: Mapping[str, str] | None = None
        self._lock = threading.Lock()
        self._certificates: dict[str, Certificates] = {}

    def resolve_short_name(self, reference: Reference) -> Reference:
        """Resolve a short name by alias, else by the only unqualified-search registry, else to Docker Hub.

        References with a registry are returned unchanged.

        Raises:
            NotFound: Several unqualified-search registries are configured, so that the name is ambiguous.
        """
        name = reference.short_name
        if not name:
            return reference
        registries = dict.fromkeys(self._conf.search_registries or ())
        if alias := self._alias(name):
            resolved = Reference.parse(alias)
        elif len(registries) == 1:
            resolved = Reference.parse(f"{next(iter(registries))}/{name}")
        elif not registries:
            return reference
        else:
            candidates = ", ".join(f"{registry}/{name}" for registry in registries)
            raise NotFound(f"{name}: ambiguous short name", hint=f"write one of {candidates}")
        _log.debug("short name %s: %s", name, resolved.name)
        return Reference(resolved.registry, resolved.repository, reference.tag, reference.digest)

    def pull_locations(self, reference: Reference) -> tuple[RepositoryLocation, ...]:
        """Return the locations to read an image from, in this order: its mirrors, then the repository itself."""
        registry = self._conf.registry_for(reference.name)
        if registry is None:
            return (RepositoryLocation(reference.registry, reference.repository),)
        mirrors = [
            self._location(registry, mirror.location, reference, mirror.insecure)
            for mirror in registry.mirrors
            if (mirror.for_digests if reference.digest else mirror.for_tags)
        ]
        own = self._location(registry, registry.location, reference, registry.insecure, is_mirror=False)
        return (*mirrors, own)

    def push_location(self, reference: Reference) -> RepositoryLocation:
        """Return the location to write an image to; mirrors and ``location`` apply to reading only."""
        registry = self._conf.registry_for(reference.name)
        insecure, blocked_by = (registry.insecure, _blocked_by(registry)) if registry else (False, "")
        return RepositoryLocation(reference.registry, reference.repository, insecure, blocked_by)

    def certificates(self, registry: str) -> Certificates:
        """Return the certificates from the first directory that exists for the registry, /etc/docker/certs.d last."""
        if registry not in self._certificates:
            directories = (path / registry for path in certificate_directories(self.environ, self.system))
            existing = (Certificates.read(directory) for directory in directories if os.access(directory, os.F_OK))
            self._certificates[registry] = next(filter(None, existing), Certificates())
        return self._certificates[registry]

    def credential_helpers(self) -> tuple[str, ...]:
        """Return the names of credential helpers in order of precedence, including AUTH_FILES_HELPER."""
        return self._conf.credential_helpers or (AUTH_FILES_HELPER,)

    @property
    def _conf(self) -> RegistriesConf:
        with self._lock:
            if self._loaded_conf is None:
                self._loaded_conf = load_registries_conf(self.environ, self.system)
            return self._loaded_conf

    def _alias(self, name: str) -> str:
        """Return the full name of a short name, or "" if there is no alias."""
        aliases = self._conf.aliases
        with self._lock:
            if self._loaded_aliases is None:
                self._loaded_aliases = load_recorded_aliases(self.environ)
        return self._loaded_aliases.get(name, aliases.get(name, ""))

    def _location(
        self, registry: Registry, location: str, reference: Reference, insecure: bool, *, is_mirror: bool = True
    ) -> RepositoryLocation:
        """Return where ``location``, of a mirror or of ``registry``, has the repository of ``reference``."""
        name = location + reference.name[registry.match_length(reference.name) :] if location else reference.name
        host, _, repository = name.partition("/")
        try:
            Reference(host, repository)
        except InvalidReference as error:
            raise ImageToolsError(
                f"{reference}: location {location} leads to the invalid name {name}",
                hint=f"correct the entry for {registry.prefix} in {registry.file}",
            ) from error
        entries = (None if is_mirror else registry, self._conf.registry_for(name))
        return RepositoryLocation(host, repository, insecure, next(filter(None, map(_blocked_by, entries)), ""))


def _blocked_by(registry: Registry | None) -> str:
    return str(registry.file) if registry and registry.blocked else ""
