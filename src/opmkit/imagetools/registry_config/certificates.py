"""Certificates for one registry, from a directory as containers-certs.d(5) and docker have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import ImageToolsError

if TYPE_CHECKING:
    from pathlib import Path

_AUTHORITY, _CLIENT, _KEY = ".crt", ".cert", ".key"


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: ``authorities`` to trust beside the system's, ``clients`` (certificate and key) to be known by."""

    authorities: tuple[Path, ...] = ()
    clients: tuple[tuple[Path, Path], ...] = ()

    @classmethod
    def read(cls, directory: Path) -> Certificates | None:
        """What ``directory`` holds: ``*.crt``, and ``*.cert`` with ``*.key``; None if there is no such directory.

        Only names are looked at. Raises ImageToolsError for a client certificate without its key, or the reverse.
        """
        try:
            found = {path.name: path for path in sorted(directory.iterdir())}
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ImageToolsError(
                f"certificate directory {directory}: {error.strerror}", hint="make it readable, or remove it"
            ) from error
        for path in found.values():
            _check_pair(path, found)
        authorities = tuple(path for path in found.values() if path.suffix == _AUTHORITY)
        clients = tuple((path, path.with_suffix(_KEY)) for path in found.values() if path.suffix == _CLIENT)
        return cls(authorities, clients)

    def with_more(self, more: Certificates) -> Certificates:
        """These and more."""
        return Certificates(self.authorities + more.authorities, self.clients + more.clients)


def _check_pair(path: Path, found: dict[str, Path]) -> None:
    other = {_CLIENT: _KEY, _KEY: _CLIENT}.get(path.suffix)
    if other is None or path.with_suffix(other).name in found:
        return
    what = "the client certificate" if path.suffix == _CLIENT else "the key"
    hint = f"add {path.with_suffix(other)}"
    raise ImageToolsError(
        f"{what} {path} has no {path.with_suffix(other).name} beside it",
        hint=f"{hint}; an authority's certificate is named *.crt" if path.suffix == _CLIENT else hint,
    )
