"""The directory of the embedded image store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core.cache import ResultCache
from opmkit.core.environment import data_home
from opmkit.core.private_files import UntrustedFile, check_private, is_shared, private_path, warn_untrusted

if TYPE_CHECKING:
    from collections.abc import Iterable


def store_directory() -> Path:
    """Return ``OPM_STORE``, else the store in the user's data directory.

    Users without a writable home directory, as in many pods, get one in the directory for temporary files.
    """
    configured = os.environ.get("OPM_STORE")
    return (Path(configured) if configured else _default_path()).absolute()


def open_cache(name: str, parts: Iterable[str], store: Path | None = None) -> ResultCache:
    """Return a cache of results in a store, by default that of the user; see `ResultCache.open`.

    To prune the store removes old files two levels below the directory of a cache.
    """
    root = store.absolute() if store else store_directory()
    if is_shared(root):
        from opmkit.imagetools.store.layout import Layout  # slow to import: values of the image specification

        Layout(root, private=True).restrict()
    return ResultCache.open(root, name, parts)


def report_untrusted_store() -> None:
    """Log if the store of the user is not trusted, on behalf of worker processes, whose own messages are discarded."""
    root = store_directory()
    try:
        check_private(root, root)
    except UntrustedFile as error:
        warn_untrusted(root, error)


def _default_path() -> Path:
    data = data_home(os.environ)
    if data and data.is_absolute() and _is_writable(data / "opmkit"):
        return data / "opmkit"
    return private_path() / "store"


def _is_writable(path: Path) -> bool:
    """Return whether a directory, which may not exist yet, can be written to."""
    candidates = (path, *path.parents)
    existing = next(candidate for candidate in candidates if os.path.exists(candidate))  # noqa: PTH110 (never raises)
    return os.access(existing, os.W_OK | os.X_OK)
