"""Which files hold the settings, in the order of containers-registries.conf(5) and containers-registries.conf.d(5)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.registry_config.registries_conf import RegistriesConf
from opmkit.imagetools.xdg import cache_home, config_home

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAIN_VARIABLE, LAST_VARIABLE = "CONTAINERS_REGISTRIES_CONF", "CONTAINERS_REGISTRIES_CONF_OVERRIDE"
SYSTEM = Path("/etc")

_NAME = "registries.conf"
_ALIASES = "containers/short-name-aliases.conf"


def read_settings(environ: Mapping[str, str], system: Path = SYSTEM) -> RegistriesConf:
    """All settings that hold for this user.

    The main file is the one that ``CONTAINERS_REGISTRIES_CONF`` names, else the user's, else the system's. The system's
    drop-ins and then the user's override it, in the order of their names; beside a main file of the user's only the
    user's do. Last comes the file that ``CONTAINERS_REGISTRIES_CONF_OVERRIDE`` names. Raises ImageToolsError for a file
    that is broken, or named by a variable and not there.
    """
    base, user = system / "containers", _user_directory(environ)
    folders = [base, *user]
    main = _named(environ, MAIN_VARIABLE)
    if main is None and user and (main := _read_own(user[0] / _NAME)):
        folders = user
    settings = main or RegistriesConf.read(base / _NAME) or RegistriesConf()
    for path in (path for folder in folders for path in _drop_ins(folder / f"{_NAME}.d")):
        settings = settings.overridden_by(RegistriesConf.read(path) or RegistriesConf())
    return settings.overridden_by(_named(environ, LAST_VARIABLE) or RegistriesConf())


def read_recorded_aliases(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The short names that podman's users decided about, which precede those of the settings."""
    caches = Path("/var/cache") if os.getuid() == 0 else cache_home(environ)
    recorded = _read_own(caches / _ALIASES) if caches else None
    return recorded.aliases if recorded else {}


def certificate_directories(environ: Mapping[str, str], system: Path = SYSTEM) -> list[Path]:
    """Where a directory for a registry's certificates may be; the first that is there is used."""
    folders = [*_user_directory(environ), system / "containers", system / "docker"]
    return [folder / "certs.d" for folder in folders]


def _user_directory(environ: Mapping[str, str]) -> list[Path]:
    """The user's directory of settings, in a list that is empty for a user without a home."""
    folder = config_home(environ)
    return [folder / "containers"] if folder else []


def _named(environ: Mapping[str, str], variable: str) -> RegistriesConf | None:
    path = environ.get(variable)
    if not path:
        return None
    settings = RegistriesConf.read(Path(path))
    if settings is None:
        raise ImageToolsError(f"registry settings {path}: there is no such file", hint=f"correct or unset {variable}")
    return settings


def _read_own(path: Path) -> RegistriesConf | None:
    """A file of the user's; none where the home is that of another user, as it may be in a container."""
    return RegistriesConf.read(path) if os.access(path, os.F_OK) else None


def _drop_ins(folder: Path) -> Iterator[Path]:
    if os.access(folder, os.R_OK | os.X_OK):
        yield from sorted(path for path in folder.glob("*.conf") if not path.is_dir())
