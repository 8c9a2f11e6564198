"""Where a bundle is read from, and the image that an index records for it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import AuthenticationFailed, NotFound, RegistryUnavailable
from opmkit.imagetools.reference import (
    DaemonReference,
    Reference,
    StorageReference,
    StoreReference,
    parse_image_reference,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.reference import ImageReference

_PATHS = ("/", "./", "../")
_REGISTRY_TRANSPORT = "docker://"


@dataclass(frozen=True, slots=True)
class BundleSource:
    """``text`` as it was written, the image or directory that it names, and the ``image`` to record.

    The image is "" for a directory: the index then has the bundle's manifests alone, which clusters apply as they are.
    """

    text: str
    place: ImageReference | Path
    image: str

    @classmethod
    def parse(cls, text: str) -> BundleSource:
        """Read ``SOURCE[=IMAGE]``, where SOURCE is an image, or a directory written as ``./DIR`` or ``/DIR``.

        IMAGE is what to record: a name in a registry. Without it that is the name that SOURCE has in a registry or
        engine, the text of SOURCE for an image in a file, nothing for a directory. Raises InvalidReference.
        """
        source, equals, image = text.rpartition("=")
        if not equals:
            place = parse_place(text)
            return cls(text, place, own_name(place, text))
        Reference.parse(image)
        return cls(text, parse_place(source), image.removeprefix(_REGISTRY_TRANSPORT))

    @classmethod
    def recorded(cls, image: str) -> BundleSource:
        """The source that the image which an index records is; raises InvalidReference."""
        return cls(image, parse_image_reference(image), image)

    @property
    def remark(self) -> str:
        """What there is to say of the image to record, "" if it is fine."""
        if not self.image or self.image != self.text or isinstance(self.place, Reference):
            return ""
        return f"no cluster can pull {self.image}, which the index records: name the image to record as SOURCE=IMAGE"


def parse_place(text: str) -> ImageReference | Path:
    """Read an image reference, or the path of a bundle's directory; raises InvalidReference."""
    return Path(text) if text in (".", "..") or text.startswith(_PATHS) else parse_image_reference(text)


def own_name(place: ImageReference | Path, text: str) -> str:
    """The image to record for a place that was written as ``text``, where nobody names another."""
    if isinstance(place, Path):
        return ""
    if isinstance(place, DaemonReference | StorageReference | StoreReference) and place.reference:
        return place.name
    return text.removeprefix(_REGISTRY_TRANSPORT)


@contextmanager
def path_or_image(text: str) -> Iterator[None]:
    """Name the path as well in errors about the image ``text``, where a path may have been meant.

    Raises:
        NotFound: in place of an error that says that there is no such image, or that its registry can't be asked.
    """
    try:
        yield
    except (NotFound, RegistryUnavailable, AuthenticationFailed) as error:
        if not _may_be_a_path(text):
            raise
        if Path(text).is_dir():
            raise NotFound(
                f"{text}: not found as an image: {error.message}", hint=f"write ./{text} for the directory"
            ) from error
        raise NotFound(
            f"{text}: no such file or directory, and not found as an image: {error.message}",
            hint=f"check the path, or write the full name of the image, such as quay.io/NAMESPACE/{text}:TAG",
        ) from error


def _may_be_a_path(text: str) -> bool:
    """Whether a reference names neither a registry nor a tag or digest."""
    first, slash, _ = text.partition("/")
    names_registry = bool(slash) and ("." in first or first == "localhost")
    return not names_registry and not {":", "@"} & set(text)
