"""Signatures outside registries, in the places that registries.d names: containers-registries.d(5)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from opmkit.core.environment import home
from opmkit.core.files import read_limited
from opmkit.documents.errors import DocumentError
from opmkit.imagetools.errors import ImageToolsError, InvalidImage, NotFound
from opmkit.imagetools.signatures.identity import scopes_of
from opmkit.imagetools.spec import check_digest
from opmkit.imagetools.spec.fields import Fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.registry import RegistryOptions

MAX_SIGNATURES = 128
_MAX_SIGNATURE_SIZE = 4 << 20
_DIRECTORY = "containers/registries.d"
_SYSTEM_STORAGE, _USER_STORAGE = "/var/lib/containers/sigstore", ".local/share/containers/sigstore"
_SIMPLE_SIGNING = b"\x00simple-signing\n"
_HINT = "see containers-registries.d(5)"


class LookasideSettings(Struct, frozen=True):
    """Locations of signatures by scope, as the files in registries.d name them; "" is the scope of all images."""

    locations: Mapping[str, str]

    @classmethod
    def load(cls, environ: Mapping[str, str], system: Path) -> LookasideSettings:
        """Load the directory of the user, or else that of the system.

        Raises:
            ImageToolsError: A file is invalid, or a scope is in several.
        """
        directory = home(environ)
        user = directory and directory / ".config" / _DIRECTORY
        chosen = user if user and os.access(user, os.F_OK) else system / _DIRECTORY
        locations: dict[str, str] = {}
        for path in sorted(chosen.glob("*.yaml")):
            for scope, location in _read(path).items():
                if scope in locations:
                    raise ImageToolsError(f"{path}: {scope or 'default-docker'}: also set in another file", hint=_HINT)
                locations[scope] = location
        storage = Path(_SYSTEM_STORAGE) if os.geteuid() == 0 or directory is None else directory / _USER_STORAGE
        default = locations.get("") or storage.as_uri()
        return cls({**{scope: location for scope, location in locations.items() if location}, "": default})

    def location(self, image: Reference) -> str:
        """Return the URL below which the signatures of an image are, given its canonical name."""
        found = next(self.locations[scope] for scope in scopes_of(image) if scope in self.locations)
        return f"{found}/{image.repository}"


class Lookaside(Struct, frozen=True):
    """Signatures by the settings of the machine.

    Attributes:
        options: TLS settings of servers with signatures.
        environ: The environment of the user.
        system: The directory of the system's settings.
    """

    options: RegistryOptions
    environ: Mapping[str, str]
    system: Path

    def signatures(self, image: Reference, digest: str) -> Iterator[bytes]:
        """Yield the OpenPGP messages about an image.

        Args:
            image: The canonical name of the image.
            digest: The digest of its manifest.

        Raises:
            ImageToolsError: The settings are invalid, or the place cannot be read.
        """
        base = LookasideSettings.load(self.environ, self.system).location(image)
        for number in range(1, MAX_SIGNATURES + 1):
            try:
                content = self._read(f"{base}@{check_digest(digest).replace(':', '=')}/signature-{number}")
            except NotFound:
                return
            if content.startswith(_SIMPLE_SIGNING) or not content.startswith(b"\x00"):  # else in a format of sigstore
                yield content.removeprefix(_SIMPLE_SIGNING)

    def _read(self, url: str) -> bytes:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https"):
            from opmkit.imagetools.registry.transport import download

            return download(url, _MAX_SIGNATURE_SIZE, self.options)
        if parts.scheme != "file" or parts.netloc:
            raise ImageToolsError(f"{url}: unsupported location of signatures", hint="use file:///, https or http")
        path = Path(unquote(parts.path))
        try:
            return read_limited(path, _MAX_SIGNATURE_SIZE)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(f"{path}: not found") from error
        except OSError as error:
            raise ImageToolsError(f"{path}: {error.strerror or error}", hint="check the permissions") from error


def _read(path: Path) -> dict[str, str]:
    """Return the locations in a file by scope."""
    from opmkit.documents import go_yaml  # slow to import: few policies require signatures outside registries

    try:
        fields = Fields.from_value(go_yaml.load(read_limited(path)) or {}, str(path))
        docker = fields.nested("docker")
        namespaces = {scope: docker.nested(scope) for scope in docker.values}
        if "default-docker" in fields.values:
            namespaces[""] = fields.nested("default-docker")
        return {
            scope: (entry.string("lookaside", "") or entry.string("sigstore", "")).rstrip("/")
            for scope, entry in namespaces.items()
        }
    except OSError as error:
        raise ImageToolsError(f"{path}: {error.strerror or error}", hint="check the permissions") from error
    except (DocumentError, InvalidImage) as error:
        raise ImageToolsError(f"{path}: {error.message.removeprefix(f'{path}: ')}", hint=_HINT) from error
