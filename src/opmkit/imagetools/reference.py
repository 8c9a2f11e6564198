"""Image references: names in a registry as docker writes them, and ``TRANSPORT:...`` for images in other places.

The transports are spelled as containers-transports(5) has them, with ``store:`` for the embedded image store.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.spec.digests import is_digest

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_REGISTRY = "docker.io"
DEFAULT_TAG = "latest"
REPOSITORY_LENGTH = 255

_LEGACY_REGISTRY = "index.docker.io"
_REGISTRY_TRANSPORT = "docker://"
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_REGISTRY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_TAG_ADVICE = "a tag is up to 128 letters, digits, '_', '.' and '-', and doesn't start with '.' or '-'"
_IMAGE_ID = re.compile(r"[a-f0-9]{64}")
# The grammar of org.opencontainers.image.ref.name in OCI image-spec 1.1, annotations.md.
_REF_COMPONENT = r"[A-Za-z0-9]+(?:(?:[-._:@+]|--)[A-Za-z0-9]+)*"
_REF_NAME = re.compile(rf"{_REF_COMPONENT}(?:/{_REF_COMPONENT})*")


@dataclass(frozen=True, slots=True)
class Reference:
    """A name in a registry, with a tag, a digest, both or neither; the grammar is that of distribution/reference.

    Building one checks every part and raises InvalidReference. ``short_name`` is what stood in place of registry and
    repository where the registry was left out, so that it is docker's default unless the settings know better.
    """

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None
    short_name: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        """Check each part against the grammar."""
        if problem := _part_problem(self.registry, self.repository, self.tag, self.digest):
            raise _invalid(str(self), *problem)

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read a reference as docker does: ``alpine`` is ``docker.io/library/alpine``; ``docker://`` may stand before.

        Raises InvalidReference, with a hint for common slips such as a URL or an image id.
        """
        return _parse_name(text.removeprefix(_REGISTRY_TRANSPORT), text)

    def __str__(self) -> str:
        """The canonical text: registry and full repository always, tag and digest where set."""
        tag = "" if self.tag is None else f":{self.tag}"
        digest = "" if self.digest is None else f"@{self.digest}"
        return f"{self.name}{tag}{digest}"

    @property
    def name(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.repository}"

    @property
    def identifier(self) -> str:
        """What to ask the registry for: the digest, else the tag, else ``latest``."""
        return self.digest or self.tag or DEFAULT_TAG

    def with_tag(self, tag: str) -> Reference:
        """The same repository with this tag and no digest."""
        return replace(self, tag=tag, digest=None)

    def with_digest(self, digest: str) -> Reference:
        """The same repository with this digest and no tag."""
        return replace(self, tag=None, digest=digest)

    def with_default_tag(self) -> Reference:
        """This reference, with the tag ``latest`` where it has neither tag nor digest."""
        return self if self.tag or self.digest else self.with_tag(DEFAULT_TAG)


@dataclass(frozen=True, slots=True)
class LayoutReference:
    """An image in an OCI image layout on disk: ``oci:DIR``, ``oci:DIR:TAG`` or ``oci:DIR@DIGEST``."""

    path: Path
    tag: str | None = None
    digest: str | None = None

    @property
    def identifier(self) -> str:
        """What to ask the layout for: the digest, else the tag, else nothing (its only image)."""
        return self.digest or self.tag or ""

    def __str__(self) -> str:
        """The text that parses to this reference."""
        tag = "" if self.tag is None else f":{self.tag}"
        digest = "" if self.digest is None else f"@{self.digest}"
        slash = "/" if ":" in self.path.name else ""  # what comes after the last one may be a tag or digest
        return f"oci:{self.path}{slash}{tag}{digest}"


@dataclass(frozen=True, slots=True)
class OciArchiveReference:
    """An image in a tar archive of an OCI layout: ``oci-archive:FILE``, with ``:NAME`` or ``@DIGEST``.

    The first colon of FILE ends it; NAME is any that a layout can give an image.
    """

    path: Path
    name: str = ""
    digest: str = ""

    @property
    def identifier(self) -> str:
        """What to ask the archive for: the digest, else the name, else nothing (its only image)."""
        return self.digest or self.name

    def __str__(self) -> str:
        """The text that parses to this reference."""
        name = f":{self.name}" if self.name else ""
        return f"oci-archive:{self.path}{name}{f'@{self.digest}' if self.digest else ''}"


@dataclass(frozen=True, slots=True)
class DockerArchiveReference:
    """An image in an archive of ``docker save``: ``docker-archive:FILE``, with ``:NAME[:TAG]`` or ``:@POSITION``.

    ``name`` is as it was written; positions count from 0.
    """

    path: Path
    name: str = ""
    position: int | None = None

    @property
    def reference(self) -> Reference | None:
        """The name with its registry and tag, where there is one."""
        return Reference.parse(self.name).with_default_tag() if self.name else None

    def __str__(self) -> str:
        """The text that parses to this reference."""
        which = self.name if self.position is None else f"@{self.position}"
        return f"docker-archive:{self.path}{f':{which}' if which else ''}"


@dataclass(frozen=True, slots=True)
class DaemonReference:
    """An image in a docker daemon's storage: ``docker-daemon:NAME[:TAG]``, or ``docker-daemon:sha256:ID``."""

    name: str

    @property
    def reference(self) -> Reference | None:
        """The name with its registry and tag; None for an ID."""
        return None if is_digest(self.name) else Reference.parse(self.name).with_default_tag()

    def __str__(self) -> str:
        """The text that parses to this reference."""
        return f"docker-daemon:{self.name}"


@dataclass(frozen=True, slots=True)
class StorageReference:
    """An image in the storage that podman, buildah and skopeo share: ``containers-storage:NAME[:TAG]``."""

    name: str

    @property
    def reference(self) -> Reference:
        """The name with its registry and tag."""
        return Reference.parse(self.name).with_default_tag()

    def __str__(self) -> str:
        """The text that parses to this reference."""
        return f"containers-storage:{self.name}"


@dataclass(frozen=True, slots=True)
class StoreReference:
    """An image in the embedded image store, whatever its registry has: ``store:NAME[:TAG][@DIGEST]``."""

    name: str

    @property
    def reference(self) -> Reference:
        """The name with its registry and tag."""
        return Reference.parse(self.name).with_default_tag()

    def __str__(self) -> str:
        """The text that parses to this reference."""
        return f"store:{self.name}"


LocalReference = (
    LayoutReference | OciArchiveReference | DockerArchiveReference | DaemonReference | StorageReference | StoreReference
)
"""An image on this machine."""
ImageReference = Reference | LocalReference


def parse_image_reference(text: str) -> ImageReference:
    """Read ``TRANSPORT:...`` or a registry's reference, for which ``docker://`` may be written.

    Raises InvalidReference, which quotes the text as it was given.
    """
    transport, _, rest = text.partition(":")
    parse = _TRANSPORTS.get(transport)
    if parse is not None and not text.startswith(_REGISTRY_TRANSPORT):
        if "\0" in text:
            raise _invalid(text, "a path has no NUL character", "leave it out")
        return parse(rest, text)
    if text.startswith((".", "/")):
        hint = "an image in a file or directory is named by its kind: oci:DIR, oci-archive:FILE, docker-archive:FILE"
        raise _invalid(text, "it is a path", hint)
    return Reference.parse(text)


def _parse_layout(rest: str, text: str) -> LayoutReference:
    directory, slash, last = rest.rpartition("/")
    last, digest = _split_digest(last)
    last, colon, tag = last.partition(":")
    if not directory + slash + last:
        raise _invalid(text, "the directory is missing", "write oci:DIR[:TAG]")
    if colon and not _TAG.fullmatch(tag):
        raise _invalid(text, f"{tag!r} is no tag", _TAG_ADVICE)
    return LayoutReference(Path(directory + slash + last), tag if colon else None, digest or None)


def _parse_oci_archive(rest: str, text: str) -> OciArchiveReference:
    rest, digest = _split_digest(rest)
    path, colon, name = rest.partition(":")
    if not path:
        raise _invalid(text, "the file is missing", "write oci-archive:FILE[:NAME]")
    if colon and not _REF_NAME.fullmatch(name):
        hint = "a name in an archive is letters and digits, parted by single signs of -._:@+ or by '/'"
        raise _invalid(text, f"{name!r} is no image's name", hint)
    return OciArchiveReference(Path(path), name, digest)


def _parse_docker_archive(rest: str, text: str) -> DockerArchiveReference:
    path, colon, name = rest.partition(":")
    if not path:
        raise _invalid(text, "the file is missing", "write docker-archive:FILE[:NAME[:TAG]]")
    if name.startswith("@"):
        if not re.fullmatch("@[0-9]{1,9}", name):
            raise _invalid(text, f"{name!r} is no position", "write docker-archive:FILE:@0 for the first image")
        return DockerArchiveReference(Path(path), position=int(name[1:]))
    if colon:
        _check_engine_name(name, text)
    return DockerArchiveReference(Path(path), name)


def _parse_daemon(rest: str, text: str) -> DaemonReference:
    if not is_digest(rest):
        if _IMAGE_ID.fullmatch(rest):
            raise _invalid(text, "it is an image id without its kind", f"write docker-daemon:sha256:{rest}")
        _check_engine_name(rest, text)
    return DaemonReference(rest)


def _parse_storage(rest: str, text: str) -> StorageReference:
    if rest.startswith("["):
        hint = "leave out the brackets: the storage is the one that podman and buildah are set up for"
        raise _invalid(text, "a place of storage can't be chosen", hint)
    _check_engine_name(rest, text)
    return StorageReference(rest)


def _parse_store(rest: str, text: str) -> StoreReference:
    _parse_name(rest, text)
    return StoreReference(rest)


def _refuse_directory(rest: str, text: str) -> ImageReference:
    hint = (
        "a bundle's directory is written as a path, ./DIR or /DIR; an image in a directory as oci:DIR; "
        f"an image of that name on Docker Hub as docker.io/library/{text}"
    )
    raise _invalid(text, "there are no directories of images here", hint)


_TRANSPORTS: dict[str, Callable[[str, str], ImageReference]] = {
    "oci": _parse_layout,
    "oci-archive": _parse_oci_archive,
    "docker-archive": _parse_docker_archive,
    "docker-daemon": _parse_daemon,
    "containers-storage": _parse_storage,
    "store": _parse_store,
    "dir": _refuse_directory,
}


def _check_engine_name(name: str, text: str) -> None:
    """Engines know images by tags: a digest in a name would be one that they need not have."""
    if _parse_name(name, text).digest:
        raise _invalid(text, "it names a digest", "name the image by its tag")


def _parse_name(name: str, text: str) -> Reference:
    """The reference that ``name`` is; errors quote ``text``, which it is a part of."""
    if "://" in name:
        raise _invalid(text, "it is a URL", f"write {name.split('://', 1)[1]}")
    if _IMAGE_ID.fullmatch(name):
        raise _invalid(text, "it is an image id, not a name", "give the image's name, or NAME@sha256:DIGEST")
    rest, at, digest = name.partition("@")
    registry, remote = _split_registry(rest)
    repository, colon, tag = remote.partition(":")
    if not repository:
        raise _invalid(text, "the name is missing", "write [HOST[:PORT]/]NAME[:TAG][@DIGEST]")
    parts = (registry, repository, tag if colon else None, digest if at else None)
    if problem := _part_problem(*parts):
        raise _invalid(text, *problem)
    return Reference(*parts, short_name="" if _names_registry(rest) else rest.partition(":")[0])


def _split_registry(name: str) -> tuple[str, str]:
    """The registry, docker's default where there is none, and the rest."""
    first, rest = name.split("/", 1) if _names_registry(name) else (DEFAULT_REGISTRY, name)
    if first == _LEGACY_REGISTRY:
        first = DEFAULT_REGISTRY
    if first == DEFAULT_REGISTRY and rest and "/" not in rest:
        rest = f"library/{rest}"
    return first, rest


def _names_registry(name: str) -> bool:
    """Whether what comes before the first slash looks like a host."""
    first, slash, _ = name.partition("/")
    looks_like_host = first == "localhost" or "." in first or ":" in first or first != first.lower()
    return bool(slash) and looks_like_host


def _split_digest(text: str) -> tuple[str, str]:
    """The text without the digest after its last '@', and that digest, "" where there is none."""
    rest, _, digest = text.rpartition("@")
    return (rest, digest) if is_digest(digest) else (text, "")


def _part_problem(registry: str, repository: str, tag: str | None, digest: str | None) -> tuple[str, str] | None:
    """What is wrong with the parts of a name, and a hint; None if nothing is."""
    if not _REGISTRY.fullmatch(registry):
        kinds = ", ".join(kind for kind in _TRANSPORTS if kind != "dir")
        return f"{registry!r} is no registry host", f"write HOST[:PORT]/NAME[:TAG], or KIND:... with one of {kinds}"
    if repository != repository.lower():
        return "the repository name has upper-case letters", f"use lower-case letters: {repository.lower()!r}"
    if not _REPOSITORY.fullmatch(repository):
        hint = "names are lower-case letters and digits, parted by single '.', '_', '/', by '__' or by dashes"
        return f"{repository!r} is no repository name", hint
    if len(repository) > REPOSITORY_LENGTH:
        return f"the repository name is longer than {REPOSITORY_LENGTH} characters", "shorten it"
    if tag is not None and not _TAG.fullmatch(tag):
        return f"{tag!r} is no tag", _TAG_ADVICE
    if digest is not None and not is_digest(digest):
        return f"{digest!r} is no digest", "write '@sha256:' and 64 lower-case hexadecimal digits"
    return None


def _invalid(text: str, reason: str, hint: str) -> InvalidReference:
    return InvalidReference(f"invalid image reference {text!r}: {reason}", hint=hint)
