"""Certificates for a registry, from a directory in the layout of containers-certs.d(5) and docker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.imagetools.errors import ImageToolsError

if TYPE_CHECKING:
    from pathlib import Path

_CA_SUFFIX, _CERTIFICATE_SUFFIX, _KEY_SUFFIX = ".crt", ".cert", ".key"


class Certificates(Struct, frozen=True):
    """Paths of PEM files: additional certificate authorities, and client certificates with their keys."""

    authorities: tuple[Path, ...] = ()
    clients: tuple[tuple[Path, Path], ...] = ()

    @classmethod
    def read(cls, directory: Path) -> Certificates | None:
        """List ``*.crt`` files, and ``*.cert`` files with ``*.key``, without opening them.

        Returns:
            The certificates, or None if the directory does not exist.

        Raises:
            ImageToolsError: The directory is unreadable, or a client certificate or key lacks its counterpart.
        """
        try:
            files = {path.name: path for path in sorted(directory.iterdir())}
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ImageToolsError(
                f"certificate directory {directory}: {error.strerror}", hint="make it readable, or remove it"
            ) from error
        for path in files.values():
            _check_pair(path, files)
        authorities = tuple(path for path in files.values() if path.suffix == _CA_SUFFIX)
        clients = tuple(
            (path, path.with_suffix(_KEY_SUFFIX)) for path in files.values() if path.suffix == _CERTIFICATE_SUFFIX
        )
        return cls(authorities, clients)

    def merge(self, other: Certificates) -> Certificates:
        """Return the certificates of both."""
        return Certificates(self.authorities + other.authorities, self.clients + other.clients)


def _check_pair(path: Path, files: dict[str, Path]) -> None:
    counterpart = {_CERTIFICATE_SUFFIX: _KEY_SUFFIX, _KEY_SUFFIX: _CERTIFICATE_SUFFIX}.get(path.suffix)
    if counterpart is None or path.with_suffix(counterpart).name in files:
        return
    missing = path.with_suffix(counterpart)
    is_certificate = path.suffix == _CERTIFICATE_SUFFIX
    raise ImageToolsError(
        f"{'client certificate' if is_certificate else 'client key'} {path}: {missing.name} not found next to it",
        hint=f"add {missing}{', or name the certificate of an authority *.crt' if is_certificate else ''}",
    )
