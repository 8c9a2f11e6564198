"""Lookup of registry settings by reference: mirrors, short names, certificates and credential helpers."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import ImageToolsError, InvalidReference, NotFound
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry_config.certificates import Certificates
from opmkit.imagetools.registry_config.files import (
    SYSTEM_DIRECTORY,
    certificate_directories,
    load_recorded_aliases,
    load_registries_conf,
)
from opmkit.imagetools.registry_config.location import RepositoryLocation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opmkit.imagetools.registry_config.registries_conf import RegistriesConf, Registry

AUTH_FILES_HELPER = "containers-auth.json"
"""The name among credential helpers that stands for credentials files (containers-registries.conf(5))."""

_log = logging.getLogger(__name__)


class RegistrySettings:
    """The registry settings of this machine and user, loaded on first use. Thread-safe.

    All methods raise ImageToolsError, with file and line, if a settings file is invalid.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ, *, system: Path = SYSTEM_DIRECTORY) -> None:
        """Create settings from ``environ`` and the directory ``system``, without reading any file yet."""
        self._environ = environ
        self._system = system
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
            directories = (path / registry for path in certificate_directories(self._environ, self._system))
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
                self._loaded_conf = load_registries_conf(self._environ, self._system)
            return self._loaded_conf

    def _alias(self, name: str) -> str:
        """Return the full name of a short name, "" if there is no alias."""
        aliases = self._conf.aliases
        with self._lock:
            if self._loaded_aliases is None:
                self._loaded_aliases = load_recorded_aliases(self._environ)
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
