"""Interfaces of the sources and targets of a mirror, and targets by their names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import Reference, is_registry_host

if TYPE_CHECKING:
    from opmkit.imagetools.repository import ImageSource, Repository

_ARCHIVE_PREFIX = "oci-archive:"
_DIRECTORY_PREFIX = "oci:"
_REGISTRY_PREFIX = "docker://"
_PATH_STARTS = ("/", "./", "../")
_HINT = (
    "write REGISTRY[/PREFIX], such as registry.example.com/mirror, the path of a directory, such as ./mirror, or "
    "oci-archive:FILE"
)


class MirrorSource(Protocol):
    """A place that images are mirrored from, such as `RegistryClient`."""

    def repository(self, reference: Reference, /) -> ImageSource:
        """Return the repository that contains an image; raise ImageToolsError if there is none."""
        ...


class MirrorTarget(Protocol):
    """A place that images are mirrored to. Thread-safe."""

    @property
    def shares_blobs(self) -> bool:
        """Whether all of its repositories have the same blobs."""
        ...

    def name(self, source: Reference) -> str:
        """Return the name of the repository for the images of a source's repository.

        Raises:
            InvalidReference: There is no valid name in the target.
        """
        ...

    def repository(self, source: Reference) -> Repository:
        """Return the repository for the images of a source's repository, the same object for the same name.

        A manifest that is put without a tag may be lost unless its index is put with one.
        """
        ...

    def finish(self) -> None:
        """Write what is not written yet. Called after the last image, and after a failure or an interruption."""
        ...


@dataclass(frozen=True, slots=True)
class RegistryLocation:
    """A registry and the first part of the names of its repositories, which may be empty."""

    registry: str
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class ArchiveLocation:
    """The path of an archive."""

    path: Path


MirrorLocation: TypeAlias = RegistryLocation | ArchiveLocation | Path
"""The location of a target: a registry, an archive or a directory."""


def parse_location(text: str) -> MirrorLocation:
    """Parse the name of a target: a registry, an archive or a directory.

    These are ``REGISTRY[/PREFIX]``, ``oci-archive:FILE``, and ``oci:DIR``, ``/...``, ``./...`` or an existing
    directory.

    Raises:
        InvalidReference: The text is invalid.
    """
    if text.startswith(_ARCHIVE_PREFIX) and text != _ARCHIVE_PREFIX:
        return ArchiveLocation(Path(text.removeprefix(_ARCHIVE_PREFIX)))
    if text.startswith(_DIRECTORY_PREFIX) and text != _DIRECTORY_PREFIX:
        return Path(text.removeprefix(_DIRECTORY_PREFIX))
    if text in (".", "..") or text.startswith(_PATH_STARTS):
        return Path(text)
    registry, _, prefix = text.removeprefix(_REGISTRY_PREFIX).removesuffix("/").partition("/")
    if not is_registry_host(registry):
        if not text.startswith(_REGISTRY_PREFIX) and text and Path(text).is_dir():
            return Path(text)
        raise InvalidReference(f"invalid target {text!r}: not a registry with a host name", hint=_HINT)
    try:
        Reference(registry, f"{prefix}/name" if prefix else "name")
    except InvalidReference as error:
        reason = error.message.rpartition(": ")[2]
        raise InvalidReference(f"invalid target {text!r}: {reason}", hint=_HINT) from error
    return RegistryLocation(registry, prefix)


def parse_name_in_target(text: str, location: MirrorLocation) -> Reference:
    """Parse the name that an image gets in a target: ``NAME[:TAG]`` below the prefix of a registry, or a full name.

    The result is a source in the sense of `MirrorTarget.name`.

    Args:
        text: The name. That of a registry may begin with the registry and the prefix.
        location: The target, see `parse_location`.

    Raises:
        InvalidReference: The name is invalid.
    """
    if not isinstance(location, RegistryLocation):
        return Reference.parse(text)
    start = "/".join(filter(None, (location.registry, location.prefix)))
    path = text.removeprefix(f"{start}/")
    first, slash, _ = path.partition("/")
    return Reference.parse(path if slash and is_registry_host(first) else f"{location.registry}/{path}")
