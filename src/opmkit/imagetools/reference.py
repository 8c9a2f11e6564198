"""Image references: names in registries, and ``TRANSPORT:...`` as in containers-transports(5).

``store:`` is an additional transport for the embedded image store.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core.escape import without_logins
from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.spec.descriptor import is_digest

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_REGISTRY = "docker.io"
DEFAULT_TAG = "latest"
SCRATCH = "scratch"
"""The name of the empty base image in a Dockerfile."""
MAX_REPOSITORY_LENGTH = 255

_LEGACY_REGISTRY = "index.docker.io"
_REGISTRY_TRANSPORT = "docker://"
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_REGISTRY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_TAG_HINT = "use up to 128 letters, digits, '_', '.' and '-', and do not start with '.' or '-'"
_IMAGE_ID = re.compile(r"[a-f0-9]{64}")
# The grammar of org.opencontainers.image.ref.name in OCI image-spec 1.1, annotations.md.
_REF_COMPONENT = r"[A-Za-z0-9]+(?:(?:[-._:@+]|--)[A-Za-z0-9]+)*"
_REF_NAME = re.compile(rf"{_REF_COMPONENT}(?:/{_REF_COMPONENT})*")


@dataclass(frozen=True, slots=True)
class Reference:
    """A name in a registry, with a tag, a digest, both or neither, in the grammar of distribution/reference.

    Creating one validates every part and raises InvalidReference. ``short_name`` is the name as it was written if it
    had no registry; ``registry`` is then docker.io, unless the registry settings resolve the name otherwise.
    """

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None
    short_name: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        """Validate each part."""
        if problem := _part_problem(self.registry, self.repository, self.tag, self.digest):
            raise _invalid(str(self), *problem)

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Parse a reference as docker does: ``alpine`` is ``docker.io/library/alpine``. ``docker://`` is optional.

        Raises:
            InvalidReference: The text is not a valid reference; the hint covers mistakes such as URLs and image IDs.
        """
        return _parse_name(text.removeprefix(_REGISTRY_TRANSPORT), text)

    def __str__(self) -> str:
        """Return the canonical text, which always has the registry and the full repository."""
        tag = "" if self.tag is None else f":{self.tag}"
        digest = "" if self.digest is None else f"@{self.digest}"
        return f"{self.name}{tag}{digest}"

    @property
    def name(self) -> str:
        """Registry and repository, separated by a slash."""
        return f"{self.registry}/{self.repository}"

    @property
    def identifier(self) -> str:
        """The digest, else the tag, else ``latest``."""
        return self.digest or self.tag or DEFAULT_TAG

    def with_tag(self, tag: str) -> Reference:
        """Return a copy with this tag and without a digest."""
        return replace(self, tag=tag, digest=None)

    def with_digest(self, digest: str) -> Reference:
        """Return a copy with this digest and without a tag."""
        return replace(self, tag=None, digest=digest)

    def with_default_tag(self) -> Reference:
        """Return a copy with the tag ``latest`` if the reference has neither a tag nor a digest."""
        return self if self.tag or self.digest else self.with_tag(DEFAULT_TAG)


@dataclass(frozen=True, slots=True)
class LayoutReference:
    """An image in an OCI image layout on disk: ``oci:DIR``, ``oci:DIR:TAG`` or ``oci:DIR@DIGEST``."""

    path: Path
    tag: str | None = None
    digest: str | None = None

    @property
    def identifier(self) -> str:
        """The digest, else the tag, else "" for the only image of the layout."""
        return self.digest or self.tag or ""

    def __str__(self) -> str:
        """Return the text of this reference, which parses to an equal one."""
        tag = "" if self.tag is None else f":{self.tag}"
        digest = "" if self.digest is None else f"@{self.digest}"
        slash = "/" if ":" in self.path.name else ""  # a colon after the last slash begins a tag
        return f"oci:{self.path}{slash}{tag}{digest}"


@dataclass(frozen=True, slots=True)
class OciArchiveReference:
    """An image in a tar archive of an OCI image layout: ``oci-archive:FILE``, with ``:NAME`` or ``@DIGEST``.

    FILE cannot contain a colon. NAME is any ``org.opencontainers.image.ref.name``.
    """

    path: Path
    name: str = ""
    digest: str = ""

    @property
    def identifier(self) -> str:
        """The digest, else the name, else "" for the only image of the archive."""
        return self.digest or self.name

    def __str__(self) -> str:
        """Return the text of this reference, which parses to an equal one."""
        name = f":{self.name}" if self.name else ""
        return f"oci-archive:{self.path}{name}{f'@{self.digest}' if self.digest else ''}"


@dataclass(frozen=True, slots=True)
class DockerArchiveReference:
    """An image in an archive of ``docker save``: ``docker-archive:FILE``, with ``:NAME[:TAG]`` or ``:@POSITION``.

    ``name`` is unparsed. The first position is 0.
    """

    path: Path
    name: str = ""
    position: int | None = None

    @property
    def reference(self) -> Reference | None:
        """The parsed name with its registry and tag, or None without a name."""
        return Reference.parse(self.name).with_default_tag() if self.name else None

    def __str__(self) -> str:
        """Return the text of this reference, which parses to an equal one."""
        which = self.name if self.position is None else f"@{self.position}"
        return f"docker-archive:{self.path}{f':{which}' if which else ''}"


@dataclass(frozen=True, slots=True)
class DaemonReference:
    """An image of the docker daemon: ``docker-daemon:NAME[:TAG]`` or ``docker-daemon:sha256:ID``."""

    name: str

    @property
    def reference(self) -> Reference | None:
        """The parsed name with its registry and tag, or None for an ID."""
        return None if is_digest(self.name) else Reference.parse(self.name).with_default_tag()

    def __str__(self) -> str:
        """Return the text of this reference, which parses to an equal one."""
        return f"docker-daemon:{self.name}"


@dataclass(frozen=True, slots=True)
class StorageReference:
    """An image in the storage of podman, buildah and skopeo: ``containers-storage:NAME[:TAG]``."""

    name: str

    @property
    def reference(self) -> Reference:
        """The parsed name with its registry and tag."""
        return Reference.parse(self.name).with_default_tag()

    def __str__(self) -> str:
        """Return the text of this reference, which parses to an equal one."""
        return f"containers-storage:{self.name}"


@dataclass(frozen=True, slots=True)
class StoreReference:
    """An image in the embedded image store: ``store:NAME[:TAG][@DIGEST]``. Its registry is not consulted."""

    name: str

    @property
    def reference(self) -> Reference:
        """The parsed name with its registry and tag."""
        return Reference.parse(self.name).with_default_tag()

    def __str__(self) -> str:
        """Return the text of this reference, which parses to an equal one."""
        return f"store:{self.name}"


LocalReference = (
    LayoutReference | OciArchiveReference | DockerArchiveReference | DaemonReference | StorageReference | StoreReference
)
"""A reference to an image on this machine."""
ImageReference = Reference | LocalReference


def is_registry_host(text: str) -> bool:
    """Return whether the first part of a name is the host of a registry: it is localhost, or has a dot or a port."""
    return text == "localhost" or "." in text or ":" in text


def parse_image_reference(text: str) -> ImageReference:
    """Parse ``TRANSPORT:...`` or a reference to a registry, with or without ``docker://``.

    Raises:
        InvalidReference: The text is not a valid reference.
    """
    transport, _, rest = text.partition(":")
    parse = _TRANSPORTS.get(transport)
    if parse is not None and not text.startswith(_REGISTRY_TRANSPORT):
        if "\0" in text:
            raise _invalid(text, "it contains a NUL character", "remove it")
        return parse(rest, text)
    if text == "-":
        raise _invalid(text, "standard input is not read", "write the input to a file or directory, and pass its path")
    if text.startswith((".", "/")):
        hint = "name an image in a file or directory with its kind: oci:DIR, oci-archive:FILE, docker-archive:FILE"
        raise _invalid(text, "it is a path", hint)
    return Reference.parse(text)


_HOST_NAME = re.compile(r"localhost|.*\.[A-Za-z]{2,}|\d+(?:\.\d+){3}|.*:\d+")
"""Names of hosts, unlike versions and other names with dots that directories have."""


def named_path(text: str) -> Path | None:
    """Return the existing file or directory that a text names, None if it does not exist, or an image is named.

    Raises:
        InvalidReference: It is the name of an image in a registry as well. Whoever can write to the working directory,
            such as the author of a change that is checked, could replace the image by such a file.
    """
    path = Path(text)
    if _has_transport(text) or not path.exists():
        return None
    if names_image(text):
        hint = f"write ./{text} for the file or directory, or {_REGISTRY_TRANSPORT}{text} for the image"
        raise InvalidReference(f"{text}: both an image and a file or directory have this name", hint=hint)
    return path


def archive_hint(path: Path) -> str:
    """Return what to write for the image in a tar archive, "" for other files."""
    from tarfile import is_tarfile  # slow to import: needed for mistakes only

    return f"write oci-archive:{path} or docker-archive:{path} for the image in the archive" if is_tarfile(path) else ""


def _has_transport(text: str) -> bool:
    transport, colon, _ = text.partition(":")
    return bool(colon) and (transport in _TRANSPORTS or text.startswith(_REGISTRY_TRANSPORT))


def names_image(text: str) -> bool:
    """Return whether a text has the transport, the tag, the digest or the registry of an image, unlike most paths."""
    if _has_transport(text):
        return True
    if text.startswith((".", "/")):
        return False
    try:
        reference = Reference.parse(text)
    except InvalidReference:
        return False
    host, slash, _ = text.partition("/")
    return bool(reference.tag or reference.digest or (slash and _HOST_NAME.fullmatch(host)))


def pin_reference(reference: ImageReference, digest: str) -> ImageReference:
    """Return a reference to the image with this digest in the same place, which a moved tag does not affect.

    References of other kinds than registries, layouts and their archives cannot contain a digest and are unchanged.
    """
    match reference:
        case Reference():
            return reference.with_digest(digest)
        case LayoutReference():
            return replace(reference, tag=None, digest=digest)
        case OciArchiveReference():
            return replace(reference, name="", digest=digest)
        case _:
            return reference


def _parse_layout(rest: str, text: str) -> LayoutReference:
    directory, slash, last = rest.rpartition("/")
    last, digest = _split_digest(last)
    last, colon, tag = last.partition(":")
    if not directory + slash + last:
        raise _invalid(text, "the directory is missing", "write oci:DIR[:TAG]")
    if colon and not _TAG.fullmatch(tag):
        raise _invalid(text, f"invalid tag {tag!r}", _TAG_HINT)
    return LayoutReference(Path(directory + slash + last), tag if colon else None, digest or None)


def _parse_oci_archive(rest: str, text: str) -> OciArchiveReference:
    rest, digest = _split_digest(rest)
    path, colon, name = rest.partition(":")
    if not path:
        raise _invalid(text, "the file is missing", "write oci-archive:FILE[:NAME]")
    if colon and not _REF_NAME.fullmatch(name):
        hint = "use letters and digits, separated by a single '-', '.', '_', ':', '@', '+' or '/'"
        raise _invalid(text, f"invalid image name {name!r}", hint)
    return OciArchiveReference(Path(path), name, digest)


def _parse_docker_archive(rest: str, text: str) -> DockerArchiveReference:
    path, colon, name = rest.partition(":")
    if not path:
        raise _invalid(text, "the file is missing", "write docker-archive:FILE[:NAME[:TAG]]")
    if name.startswith("@"):
        if not re.fullmatch("@[0-9]{1,9}", name):
            raise _invalid(text, f"invalid position {name!r}", "write docker-archive:FILE:@0 for the first image")
        return DockerArchiveReference(Path(path), position=int(name[1:]))
    if colon:
        _check_engine_name(name, text)
    return DockerArchiveReference(Path(path), name)


def _parse_daemon(rest: str, text: str) -> DaemonReference:
    if not is_digest(rest):
        if _IMAGE_ID.fullmatch(rest):
            raise _invalid(text, "it is an image ID without its algorithm", f"write docker-daemon:sha256:{rest}")
        _check_engine_name(rest, text)
    return DaemonReference(rest)


def _parse_storage(rest: str, text: str) -> StorageReference:
    if rest.startswith("["):
        hint = "remove the brackets; the storage is the one that podman and buildah are configured for"
        raise _invalid(text, "selecting a storage location is not supported", hint)
    _check_engine_name(rest, text)
    return StorageReference(rest)


def _parse_store(rest: str, text: str) -> StoreReference:
    _parse_name(rest, text)
    return StoreReference(rest)


def _reject_directory(rest: str, text: str) -> ImageReference:
    hint = (
        "write ./DIR or /DIR for the directory of a bundle, oci:DIR for an image in a directory, "
        f"or docker.io/library/{text} for an image on Docker Hub"
    )
    raise _invalid(text, "unsupported transport dir", hint)


_TRANSPORTS: dict[str, Callable[[str, str], ImageReference]] = {
    "oci": _parse_layout,
    "oci-archive": _parse_oci_archive,
    "docker-archive": _parse_docker_archive,
    "docker-daemon": _parse_daemon,
    "containers-storage": _parse_storage,
    "store": _parse_store,
    "dir": _reject_directory,
}


def _check_engine_name(name: str, text: str) -> None:
    """Validate the name of an image in an engine, which need not have the digest that the registry has."""
    if _parse_name(name, text).digest:
        raise _invalid(text, "digests are not supported here", "name the image by its tag")


def _parse_name(name: str, text: str) -> Reference:
    """Parse ``name``, a part of ``text``; errors quote ``text``."""
    if "://" in name:
        raise _invalid(text, "it is a URL", f"write {without_logins(name).split('://', 1)[1]}")
    if _IMAGE_ID.fullmatch(name):
        raise _invalid(text, "it is an image ID, not a name", "give the image's name, or NAME@sha256:DIGEST")
    rest, at, digest = name.partition("@")
    registry, remote = _split_registry(rest)
    repository, colon, tag = remote.partition(":")
    if not repository:
        raise _invalid(text, "the name is missing", "write [HOST[:PORT]/]NAME[:TAG][@DIGEST]")
    parts = (registry, repository, tag if colon else None, digest if at else None)
    if problem := _part_problem(*parts):
        if without_logins(name) != name:  # what seems to be a tag can be a password
            problem = "it contains a user name and a password", "remove them, and log in with podman or docker"
        raise _invalid(text, *problem)
    return Reference(*parts, short_name="" if _has_registry(rest) else rest.partition(":")[0])


def _split_registry(name: str) -> tuple[str, str]:
    """Split the registry, by default docker.io, from the rest."""
    first, rest = name.split("/", 1) if _has_registry(name) else (DEFAULT_REGISTRY, name)
    if first == _LEGACY_REGISTRY:
        first = DEFAULT_REGISTRY
    if first == DEFAULT_REGISTRY and rest and "/" not in rest:
        rest = f"library/{rest}"
    return first, rest


def _has_registry(name: str) -> bool:
    """Return whether the part before the first slash is a registry; repository names have no upper-case letters."""
    first, slash, _ = name.partition("/")
    return bool(slash) and (is_registry_host(first) or first != first.lower())


def _split_digest(text: str) -> tuple[str, str]:
    """Split the digest after the last '@' from the text; the digest is "" if there is none."""
    rest, _, digest = text.rpartition("@")
    return (rest, digest) if is_digest(digest) else (text, "")


def _part_problem(registry: str, repository: str, tag: str | None, digest: str | None) -> tuple[str, str] | None:
    """Return the reason and the hint for an invalid part, or None if all are valid."""
    if not _REGISTRY.fullmatch(registry):
        kinds = ", ".join(kind for kind in _TRANSPORTS if kind != "dir")
        return f"invalid registry host {registry!r}", f"write HOST[:PORT]/NAME[:TAG], or KIND:... with one of {kinds}"
    if repository != repository.lower():
        return "the repository name contains upper-case letters", f"use lower-case letters: {repository.lower()!r}"
    if not _REPOSITORY.fullmatch(repository):
        hint = "use lower-case letters and digits, separated by a single '.', '_' or '/', by '__' or by dashes"
        return f"invalid repository name {repository!r}", hint
    if len(repository) > MAX_REPOSITORY_LENGTH:
        return f"the repository name exceeds {MAX_REPOSITORY_LENGTH} characters", "shorten it"
    if tag is not None and not _TAG.fullmatch(tag):
        return f"invalid tag {tag!r}", _TAG_HINT
    if digest is not None and not is_digest(digest):
        return f"invalid digest {digest!r}", "write '@sha256:' and 64 lower-case hexadecimal digits"
    return None


def _invalid(text: str, reason: str, hint: str) -> InvalidReference:
    return InvalidReference(f"invalid image reference {text!r}: {reason}", hint=hint)
