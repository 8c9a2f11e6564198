"""Discovery of settings files, in the order of containers-registries.conf(5) and containers-registries.conf.d(5)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core.xdg import cache_home, config_home
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.registry_config.registries_conf import RegistriesConf

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
