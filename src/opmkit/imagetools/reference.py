"""Image references: names in a registry as docker writes them, and OCI layouts on disk as ``oci:DIR[:TAG]``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.spec.digests import is_digest

DEFAULT_REGISTRY = "docker.io"
DEFAULT_TAG = "latest"
REPOSITORY_LENGTH = 255

_LEGACY_REGISTRY = "index.docker.io"
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_REGISTRY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_IMAGE_ID = re.compile(r"[a-f0-9]{64}")
_ARCHIVES = ("oci-archive:", "docker-archive:")


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
        if not _REGISTRY.fullmatch(self.registry):
            raise _invalid(str(self), f"{self.registry!r} is no registry host", "write HOST[:PORT]/NAME[:TAG]")
        if self.repository != self.repository.lower():
            raise _invalid(
                str(self), "the repository name has upper-case letters", f"write {self.repository.lower()!r}"
            )
        if not _REPOSITORY.fullmatch(self.repository):
            advice = "names are lower-case letters and digits, parted by single '.', '_', '/', by '__' or by dashes"
            raise _invalid(str(self), f"{self.repository!r} is no repository name", advice)
        if len(self.repository) > REPOSITORY_LENGTH:
            raise _invalid(
                str(self), f"the repository name is longer than {REPOSITORY_LENGTH} characters", "shorten it"
            )
        if self.tag is not None:
            _check_tag(str(self), self.tag)
        if self.digest is not None and not is_digest(self.digest):
            advice = "write '@sha256:' and 64 lower-case hexadecimal digits"
            raise _invalid(str(self), f"{self.digest!r} is no digest", advice)

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read a reference as docker does: ``alpine`` is ``docker.io/library/alpine``.

        Raises InvalidReference, with advice for common slips such as a URL or an image id.
        """
        if "://" in text:
            raise _invalid(text, "it is a URL", f"leave out {text.split('://', 1)[0]}://")
        if _IMAGE_ID.fullmatch(text):
            raise _invalid(text, "it is an image id, not a name", "give the image's name, or NAME@sha256:DIGEST")
        rest, at, digest = text.partition("@")
        registry, remote = _split_registry(rest)
        repository, colon, tag = remote.partition(":")
        if not repository:
            raise _invalid(text, "the name is missing", "write [HOST[:PORT]/]NAME[:TAG][@DIGEST]")
        short_name = "" if _names_registry(rest) else rest.partition(":")[0]
        return cls(registry, repository, tag if colon else None, digest if at else None, short_name)

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
        return f"oci:{self.path}{tag}{digest}"


ImageReference = Reference | LayoutReference


def parse_image_reference(text: str) -> ImageReference:
    """Read ``oci:DIR[:TAG]`` or a registry's reference; a colon after the last slash of DIR starts the tag.

    Raises InvalidReference.
    """
    if text.startswith("oci:"):
        return _parse_layout(text)
    if text.startswith(_ARCHIVES):
        kind, _, path = text.partition(":")
        raise _invalid(text, f"{kind} is not read directly", f"copy it first: skopeo copy {kind}:{path} oci:DIR:TAG")
    return Reference.parse(text)


def _parse_layout(text: str) -> LayoutReference:
    directory, slash, last = text.removeprefix("oci:").rpartition("/")
    last, at, digest = last.partition("@") if is_digest(last.partition("@")[2]) else (last, "", "")
    last, colon, tag = last.partition(":")
    if not directory + slash + last:
        raise _invalid(text, "the directory is missing", "write oci:DIR[:TAG]")
    if "\0" in text:
        raise _invalid(text, "a path has no NUL character", "write oci:DIR[:TAG]")
    if colon:
        _check_tag(text, tag)
    return LayoutReference(Path(directory + slash + last), tag if colon else None, digest if at else None)


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


def _check_tag(reference: str, tag: str) -> None:
    if not _TAG.fullmatch(tag):
        advice = "a tag is up to 128 letters, digits, '_', '.' and '-', and doesn't start with '.' or '-'"
        raise _invalid(reference, f"{tag!r} is no tag", advice)


def _invalid(text: str, reason: str, advice: str) -> InvalidReference:
    return InvalidReference(f"invalid image reference {text!r}: {reason}", advice=advice)
