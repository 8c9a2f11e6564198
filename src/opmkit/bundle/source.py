"""Sources of bundles: where a bundle is read from, and the image that an index records for it."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.directory import DIRECTORIES
from opmkit.bundle.hint_terms import BundleOperation
from opmkit.bundle.labels import PREFIX, labelled_directories
from opmkit.core.hints import Hint
from opmkit.imagetools.errors import AuthenticationFailed, InvalidReference, NotFound, RegistryUnavailable
from opmkit.imagetools.hint_terms import ImageOperation
from opmkit.imagetools.layer import MEMORY_LIMITS
from opmkit.imagetools.platform_equality import ComparedContent
from opmkit.imagetools.reference import (
    DaemonReference,
    Reference,
    StorageReference,
    StoreReference,
    archive_hint,
    is_registry_host,
    names_image,
    parse_image_reference,
)
from opmkit.imagetools.store.layout_files import is_layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.tools.tool import ContainerTool

_ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz")
_PATH_PREFIXES = ("/", "./", "../")
_REGISTRY_TRANSPORT = "docker://"
_COMPARED = (*DIRECTORIES, "tests")
"""Directories that are equal for all platforms, as those that labels name."""


class BundleSource(Struct, frozen=True):
    """A bundle image or directory, and the image that an index records for it.

    Attributes:
        text: The source as given by the user.
        location: The image or directory to read.
        image: The image to record, or "" for a directory: the index then contains the manifests themselves.
    """

    text: str
    location: ImageReference | Path
    image: str

    @classmethod
    def parse(cls, text: str) -> BundleSource:
        """Parse ``SOURCE[=IMAGE]``, where SOURCE is an image, or a directory written as ``./DIR`` or ``/DIR``.

        IMAGE is the image to record, a name in a registry. By default it is the name of SOURCE in a registry or an
        engine, SOURCE itself for an image in a file, and "" for a directory.

        Raises:
            InvalidReference: For an invalid image reference.
        """
        source, equals, image = text.rpartition("=")
        if not equals:
            location = parse_location(text)
            return cls(text, location, default_image(location, text))
        Reference.parse(image)
        return cls(text, parse_location(source), image.removeprefix(_REGISTRY_TRANSPORT))

    @classmethod
    def from_image(cls, image: str) -> BundleSource:
        """Return the source for an image that an index records.

        Raises:
            InvalidReference: For an invalid image reference.
        """
        return cls(image, parse_image_reference(image), image)

    @property
    def warning(self) -> str:
        """A warning if clusters cannot pull the image to record, otherwise ""."""
        if not self.image or self.image != self.text or isinstance(self.location, Reference):
            return ""
        return (
            f"the index will reference {self.image}, which clusters cannot pull; name it as {self.text}=REGISTRY/IMAGE"
        )


def parse_location(text: str) -> ImageReference | Path:
    """Parse an image reference, or a path that starts with ``/``, ``./`` or ``../``.

    Raises:
        InvalidReference: For an invalid image reference, or an existing path that is written as the short name of an
            image, with what to write instead.
    """
    if _is_path(text):
        return Path(text)
    if _could_be_path(text) and Path(text).exists():
        raise _existing_path(text)
    return parse_image_reference(text)


def parse_image(text: str) -> ImageReference:
    """Parse an image reference, and not a path that could be one: a file or directory, or the name of an archive.

    Raises:
        InvalidReference: For an invalid image reference, or a path, with what to write instead.
    """
    path = Path(text)
    is_archive = text.endswith(_ARCHIVE_SUFFIXES)
    if names_image(text) or not (is_archive or text.startswith((".", "/")) or path.exists()):
        return parse_image_reference(text)
    kind, hint = "a path", Hint("name an image in a directory or file with its kind: oci:DIR:TAG, oci-archive:FILE")
    if is_layout(path):
        kind, hint = "an OCI image layout", Hint(f"write oci:{text}:TAG")
    elif path.is_dir() and any((path / name).is_dir() for name in DIRECTORIES):
        call = BundleOperation.BUILD_BUNDLE.with_arguments(str(path / "manifests"))
        kind, hint = "a bundle directory", Hint("build an image of it with {}", call)
    elif path.is_dir():
        hint = Hint("list what a catalog contains with {}", BundleOperation.LIST_PACKAGES.with_arguments(text))
        kind, hint = "a directory", Hint.any_of(Hint(f"write oci:{text}:TAG for an image layout"), hint)
    elif is_archive or path.is_file():
        kind, hint = "a file", Hint(f"write oci-archive:{text} or docker-archive:{text}")
    raise InvalidReference(f"{text}: {kind}, not an image", hint=hint)


def require_equal_platforms(tool: ContainerTool, image: ImageReference) -> ImageReference:
    """Return a name of the bundle image to read, after checking that all platforms of its index have the same bundle.

    Raises:
        ImageToolsError: They have not, or the image cannot be read.
    """
    content = ComparedContent(PREFIX, lambda labels: sorted({*_COMPARED, *labelled_directories(labels)}), MEMORY_LIMITS)
    return tool.require_equal_platforms(image, content)


def parse_registry_image(text: str) -> Reference:
    """Parse the name of an image in a registry; raise InvalidReference with a hint for other places and for paths.

    A short name is one even if there is a file or directory of this name.
    """
    location = Path(text) if _is_path(text) else parse_image_reference(text)
    if isinstance(location, Reference):
        return location
    hint = Hint("copy it with {}", ImageOperation.COPY_IMAGE.with_arguments(f"{text} store:NAME:TAG"))
    if isinstance(location, Path):
        hint = Hint("pass the name of an image, such as quay.io/NAMESPACE/NAME:TAG")
        if is_layout(location):
            call = ImageOperation.COPY_IMAGE.with_arguments(f"oci:{text}:TAG store:NAME:TAG")
            hint = Hint("copy an image of the layout with {}", call)
        elif (location / "manifests").is_dir():
            call = BundleOperation.BUILD_BUNDLE.with_arguments(str(location / "manifests"))
            hint = Hint("build an image of the bundle with {}", call)
    raise InvalidReference(f"{text}: not an image in a registry", hint=hint)


def default_image(location: ImageReference | Path, text: str) -> str:
    """Return the image to record for a location that was given as ``text``, unless the user names another."""
    if isinstance(location, Path):
        return ""
    if isinstance(location, DaemonReference | StorageReference | StoreReference) and location.reference:
        return location.name
    return text.removeprefix(_REGISTRY_TRANSPORT)


@contextmanager
def path_or_image(text: str) -> Iterator[None]:
    """Mention the path in errors about the image ``text``, if it could have been meant as a path.

    In an existing directory, it is meant as one: anybody can own the name of a removed directory on Docker Hub.

    Raises:
        NotFound: Instead of an error that the image does not exist, or that its registry cannot be reached.
    """
    directory, slash, _ = text.partition("/")
    if slash and _could_be_path(text) and Path(directory).is_dir() and not Path(text).exists():
        hint = f"check the path, or write {_REGISTRY_TRANSPORT}{text} for the image"
        raise NotFound(f"{text}: no such file or directory", hint=hint)
    try:
        yield
    except (NotFound, RegistryUnavailable, AuthenticationFailed) as error:
        if not _could_be_path(text):
            raise
        raise NotFound(
            f"{text}: no such file or directory, and not found as an image: {error.message}",
            hint=f"check the path, or write the full name of the image, such as quay.io/NAMESPACE/{text}:TAG",
        ) from error


def _is_path(text: str) -> bool:
    return text in (".", "..") or text.startswith(_PATH_PREFIXES)


def _existing_path(text: str) -> InvalidReference:
    """Return the error about the name of an existing path, which is not guessed to be an image or not."""
    kind, hint = (
        "a directory",
        f"write ./{text} for the directory, or {_REGISTRY_TRANSPORT}{text.rstrip('/')} for an image",
    )
    if is_layout(Path(text)):
        kind, hint = "an OCI image layout", f"write oci:{text}:TAG"
    elif not Path(text).is_dir():
        kind, hint = "a file", archive_hint(Path(text)) or "pass a directory, or the name of an image"
    return InvalidReference(f"{text}: {kind}, not an image", hint=hint)


def _could_be_path(text: str) -> bool:
    """Return whether a reference names neither a registry nor a tag or digest."""
    first, slash, _ = text.partition("/")
    return bool(text) and not (slash and is_registry_host(first)) and not {":", "@"} & set(text)
