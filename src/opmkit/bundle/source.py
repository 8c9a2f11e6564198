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
    is_registry_host,
    parse_image_reference,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.tools.tool import ContainerTool

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
        InvalidReference: For an invalid image reference.
    """
    return Path(text) if text in (".", "..") or text.startswith(_PATH_PREFIXES) else parse_image_reference(text)


def require_equal_platforms(tool: ContainerTool, image: ImageReference) -> ImageReference:
    """Return a name of the bundle image to read, after checking that all platforms of its index have the same bundle.

    Raises:
        ImageToolsError: They have not, or the image cannot be read.
    """
    content = ComparedContent(PREFIX, lambda labels: sorted({*_COMPARED, *labelled_directories(labels)}), MEMORY_LIMITS)
    return tool.require_equal_platforms(image, content)


def parse_registry_image(text: str) -> Reference:
    """Parse the name of an image in a registry; raise InvalidReference with a hint for other places and for paths."""
    from opmkit.imagetools.store.layout_files import LAYOUT_FILE

    location = parse_location(text)
    if isinstance(location, Reference):
        return location
    hint = Hint("copy it with {}", ImageOperation.COPY_IMAGE.with_arguments(f"{text} store:NAME:TAG"))
    if isinstance(location, Path):
        hint = Hint("pass the name of an image, such as quay.io/NAMESPACE/NAME:TAG")
        if (location / LAYOUT_FILE).is_file():
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

    Raises:
        NotFound: Instead of an error that the image does not exist, or that its registry cannot be reached.
    """
    try:
        yield
    except (NotFound, RegistryUnavailable, AuthenticationFailed) as error:
        from opmkit.imagetools.store.layout_files import LAYOUT_FILE

        if not _could_be_path(text):
            raise
        if Path(text).is_dir():
            is_layout = Path(text, LAYOUT_FILE).is_file()
            hint = f"write oci:{text}:TAG for the image layout" if is_layout else f"write ./{text} for the directory"
            raise NotFound(f"{text}: not found as an image: {error.message}", hint=hint) from error
        raise NotFound(
            f"{text}: no such file or directory, and not found as an image: {error.message}",
            hint=f"check the path, or write the full name of the image, such as quay.io/NAMESPACE/{text}:TAG",
        ) from error


def _could_be_path(text: str) -> bool:
    """Return whether a reference names neither a registry nor a tag or digest."""
    first, slash, _ = text.partition("/")
    return not (slash and is_registry_host(first)) and not {":", "@"} & set(text)
