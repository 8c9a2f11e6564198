"""Images that signatures can be attached to: in registries and image layouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from opmkit.core.hints import Hint
from opmkit.imagetools.errors import UnsupportedImage, prefix_errors
from opmkit.imagetools.hint_terms import ImageOperation
from opmkit.imagetools.reference import LayoutReference, OciArchiveReference, Reference
from opmkit.imagetools.store import LayoutRepository

if TYPE_CHECKING:
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.repository import ImageSource, Repository
    from opmkit.imagetools.spec import Descriptor

S = TypeVar("S", bound="ImageSource")


@dataclass(frozen=True, slots=True)
class Target(Generic[S]):
    """An image with the place that it is in.

    Attributes:
        source: The place.
        image: The descriptor of the image.
        repository: The name of the repository, "" in an image layout.
        location: The reference without tag and digest.
    """

    source: S
    image: Descriptor
    repository: str
    location: str

    @property
    def name(self) -> str:
        """The reference by digest."""
        return self.name_of(self.image)

    def name_of(self, image: Descriptor) -> str:
        """Return the reference of an image of the same repository by digest."""
        return f"{self.location}@{image.digest}"


def open_for_signing(reference: ImageReference, client: RegistryClient) -> Target[Repository]:
    """Resolve an image whose repository can be written to.

    Raises:
        UnsupportedImage: Archives, engines and the embedded store cannot store signatures.
        NotFound: The image does not exist.
    """
    match reference:
        case Reference():
            return _target(client.target(reference), reference, reference.name)
        case LayoutReference():
            return _target(LayoutRepository(reference.path), reference)
        case _:
            raise _unsupported(reference)


def open_for_verification(reference: ImageReference, client: RegistryClient) -> Target[ImageSource]:
    """Resolve an image whose signatures can be read, in a registry or its mirrors, a layout or an archive of one.

    Raises:
        UnsupportedImage: The place stores no signatures.
        NotFound: The image does not exist.
    """
    match reference:
        case Reference():
            return _target(client.repository(reference), reference, reference.name)
        case LayoutReference():
            return _target(LayoutRepository(reference.path), reference)
        case OciArchiveReference():
            from opmkit.imagetools.archive import ArchivedLayout, TarArchive
            from opmkit.imagetools.store.reader import LayoutReader

            return _target(LayoutReader(ArchivedLayout(TarArchive.open(reference.path))), reference)
        case _:
            raise _unsupported(reference)


def _target(source: S, reference: Reference | LayoutReference | OciArchiveReference, repository: str = "") -> Target[S]:
    with prefix_errors(str(reference), repository):
        image = source.resolve(reference.identifier)
    if isinstance(reference, Reference):
        return Target(source, image, repository, repository)
    scheme = "oci" if isinstance(reference, LayoutReference) else "oci-archive"
    return Target(source, image, "", f"{scheme}:{reference.path}")


def _unsupported(reference: ImageReference) -> UnsupportedImage:
    return UnsupportedImage(
        f"{reference}: signatures are only supported in registries and OCI image layouts",
        hint=Hint("copy the image to one with {}", ImageOperation.COPY_IMAGE),
    )
