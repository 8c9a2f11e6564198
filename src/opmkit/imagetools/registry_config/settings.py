"""What the settings of this machine and user come to, for a reference or a registry."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import ImageToolsError, InvalidReference, NotFound
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry_config.certificates import Certificates
from opmkit.imagetools.registry_config.files import (
    SYSTEM,
    certificate_directories,
    read_recorded_aliases,
    read_settings,
)
from opmkit.imagetools.registry_config.location import RepositoryLocation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opmkit.imagetools.registry_config.registries_conf import RegistriesConf, Registry

AUTH_FILES_HELPER = "containers-auth.json"
"""Stands among credential helpers for the files of credentials."""

_log = logging.getLogger(__name__)


class RegistrySettings:
    """The settings for registries, read when they are first needed and once; safe to share between threads.

    Every method raises ImageToolsError, with file and line, for settings that can't be understood.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ, *, system: Path = SYSTEM) -> None:
        """``system`` is the directory of the machine's settings, ``/etc``."""
        self._environ = environ
        self._system = system
        self._read: RegistriesConf | None = None
        self._recorded: Mapping[str, str] | None = None
        self._lock = threading.Lock()
        self._certificates: dict[str, Certificates] = {}

    def resolve_short_name(self, reference: Reference) -> Reference:
        """The reference that a short name stands for; others stay as they are.

        An alias decides, else the only ``unqualified-search-registries`` entry, else docker's default. Several entries
        leave open what is meant: NotFound.
        """
        name = reference.short_name
        if not name:
            return reference
        registries = dict.fromkeys(self._settings.search or ())
        if alias := self._alias(name):
            full = Reference.parse(alias)
        elif len(registries) == 1:
            full = Reference.parse(f"{next(iter(registries))}/{name}")
        elif not registries:
            return reference
        else:
            candidates = ", ".join(f"{registry}/{name}" for registry in registries)
            raise NotFound(f"{name}: several registries may be meant", hint=f"write one of {candidates}")
        _log.debug("short name %s: %s", name, full.name)
        return Reference(full.registry, full.repository, reference.tag, reference.digest)

    def pull_locations(self, reference: Reference) -> tuple[RepositoryLocation, ...]:
        """Where to look for an image, in this order: the mirrors for it, then the place itself."""
        registry = self._settings.registry_for(reference.name)
        if registry is None:
            return (RepositoryLocation(reference.registry, reference.repository),)
        mirrors = [
            self._place(registry, mirror.location, reference, mirror.insecure)
            for mirror in registry.mirrors
            if (mirror.for_digests if reference.digest else mirror.for_tags)
        ]
        return (*mirrors, self._place(registry, registry.location, reference, registry.insecure, own=True))

    def push_location(self, reference: Reference) -> RepositoryLocation:
        """Where to send an image: where its name says, since mirrors and locations are for reading alone."""
        registry = self._settings.registry_for(reference.name)
        insecure, blocked_by = (registry.insecure, _blocking(registry)) if registry else (False, "")
        return RepositoryLocation(reference.registry, reference.repository, insecure, blocked_by)

    def certificates(self, registry: str) -> Certificates:
        """What the first directory for the registry holds that is there (containers-certs.d(5), docker's last)."""
        if registry not in self._certificates:
            folders = (path / registry for path in certificate_directories(self._environ, self._system))
            found = (Certificates.read(folder) for folder in folders if os.access(folder, os.F_OK))
            self._certificates[registry] = next(filter(None, found), Certificates())
        return self._certificates[registry]

    def credential_helpers(self) -> tuple[str, ...]:
        """The names of the programs to ask for credentials, AUTH_FILES_HELPER standing for the files."""
        return self._settings.helpers or (AUTH_FILES_HELPER,)

    @property
    def _settings(self) -> RegistriesConf:
        with self._lock:
            if self._read is None:
                self._read = read_settings(self._environ, self._system)
            return self._read

    def _alias(self, name: str) -> str:
        """The name that a short name is an alias of, "" if it is none."""
        aliases = self._settings.aliases
        with self._lock:
            if self._recorded is None:
                self._recorded = read_recorded_aliases(self._environ)
        return self._recorded.get(name, aliases.get(name, ""))

    def _place(
        self, registry: Registry, location: str, reference: Reference, insecure: bool, *, own: bool = False
    ) -> RepositoryLocation:
        """Where ``reference``, to which ``registry`` applies, is in ``location``."""
        name = location + reference.name[registry.matched(reference.name) :] if location else reference.name
        host, _, repository = name.partition("/")
        try:
            Reference(host, repository)
        except InvalidReference as error:
            raise ImageToolsError(
                f"{reference}: the location {location} makes {name} of its name, which is none of an image",
                hint=f"correct the entry for {registry.prefix} in {registry.file}",
            ) from error
        there = self._settings.registry_for(name)
        blockers = (entry for entry in (registry if own else None, there) if entry)
        return RepositoryLocation(host, repository, insecure, next(filter(None, map(_blocking, blockers)), ""))


def _blocking(registry: Registry) -> str:
    return str(registry.file) if registry.blocked else ""
