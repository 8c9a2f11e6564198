"""The catalog image of a mirror: that of the source, or a new one with some of its packages."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.core.environment import source_date_epoch
from opmkit.core.hints import Hint
from opmkit.core.scratch import ScratchDirectory
from opmkit.imagetools.reference import (
    DEFAULT_TAG,
    DaemonReference,
    DockerArchiveReference,
    Reference,
    StorageReference,
    StoreReference,
)
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.image.source import INDEXES, IndexSource
from opmkit.index.operations.related_images import index_images
from opmkit.supply.mirror.model import MirrorRequest, digest_tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.image import Image, ImageIndex
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.spec import Platform
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.change import AppliedChange, Change
    from opmkit.index.operations.related_images import ImageUse


class CatalogSelection(Struct, frozen=True):
    """The part of an index to mirror, and the name of its catalog image.

    Attributes:
        change: The change of the index that selects packages and bundles; None for the whole index.
        platforms: Platforms of a new catalog image.
        binary_image: Base of a new catalog image. By default that of the index, or for a directory or database file
            the one of `IndexPlan`.
        name: Name of the catalog image, from which its repository in the target is derived, with its tag there. By
            default that of the index.
        tag: Its tag in the target, "" to name it by digest only. By default that of ``name``, else of the index.
    """

    change: Change | None = None
    platforms: tuple[Platform, ...] = ()
    binary_image: str | None = None
    name: Reference | None = None
    tag: str | None = None


class MirrorCatalog(Struct, frozen=True):
    """The catalog image of a mirror, and the images that its bundles use.

    Attributes:
        name: The name that its repository in the target is derived from.
        tag: Its tag in the target.
        uses: The images that its bundles use.
        request: The request to copy it unchanged from its registry, or None.
        image: The image otherwise: a new one, or one from this machine.
        change: The result of the filter, or None for the whole index.
    """

    name: Reference
    tag: str
    uses: tuple[ImageUse, ...]
    request: MirrorRequest | None = None
    image: Image | ImageIndex | None = None
    change: AppliedChange | None = None

    @property
    def digest(self) -> str:
        """The digest of the image."""
        return self.image.digest if self.image else str(self.request and self.request.reference.digest)


@contextmanager
def open_catalog(tool: RegistryTool, text: str, selection: CatalogSelection) -> Iterator[MirrorCatalog]:
    """Read an index, and build a new catalog image if it is filtered, or is not an image.

    A whole index image is copied unchanged. Without ``SOURCE_DATE_EPOCH`` a new image only depends on the index, its
    base and the filters, so that its digest is the same in the next run. The files of the image exist within the block.

    Raises:
        CatalogError: ``text`` is not an index, its catalog has no name, or a package or channel does not exist.
        ImageToolsError: The index cannot be read.
    """
    source = IndexSource.resolve(lambda: tool, text)
    source.require(INDEXES)
    name = selection.name or _name(source)
    tag = _tag(source, selection)
    if source.image is not None and selection.change is None:
        uses = tuple(index_images(source))
        if isinstance(source.image, Reference):
            request = MirrorRequest(source.image, ("the mirrored catalog",), name, tag, last=True)
            yield MirrorCatalog(name, tag or digest_tag(str(source.image.digest)), uses, request)
        else:
            image = tool.load(source.image)
            yield MirrorCatalog(name, tag or digest_tag(image.digest), uses, image=image)
        return
    with ScratchDirectory("opm-mirror-") as scratch:
        yield _build(tool, source, selection, name, tag, Path(scratch))


def _build(
    tool: RegistryTool, source: IndexSource, selection: CatalogSelection, name: Reference, tag: str, directory: Path
) -> MirrorCatalog:
    from opmkit.index.image.build import apply_change, build_image, prepare_index  # slow to import
    from opmkit.index.image.plan import IndexPlan

    plan = IndexPlan(
        tags=(),
        from_index=source.text,
        to_catalog=True,
        binary_image=selection.binary_image,
        platforms=selection.platforms,
    )
    base, content = prepare_index(tool, plan, source.location, directory)
    change = None
    if selection.change:
        content, change = apply_change(plan, selection.change, content, directory)
    spec = content.build_spec(source_date_epoch())
    image = build_image(base, spec, directory, image_format=tool.image_format)
    uses = tuple(index_images(IndexSource(source.text, content.path, lambda: tool)))
    return MirrorCatalog(name, tag or digest_tag(image.digest), uses, image=image, change=change)


def _name(source: IndexSource) -> Reference:
    """Return the name of the index in a registry; raise CatalogError if it has none."""
    image: ImageReference | None = source.image
    match image:
        case Reference():
            return image
        case StoreReference() | StorageReference():
            return image.reference
        case DaemonReference() | DockerArchiveReference() if image.reference:
            return image.reference
    raise CatalogError(
        f"{source.text}: the catalog has no name in a registry",
        hint=Hint("name it with {}", IndexSetting.TARGET_CATALOG.with_value("NAME:TAG")),
    )


def _tag(source: IndexSource, selection: CatalogSelection) -> str:
    """Return the tag of the catalog in the target, or "" if it is named by digest only."""
    if selection.tag is not None:
        return selection.tag
    if selection.name:
        return selection.name.tag or DEFAULT_TAG
    name = _name(source)
    given = Reference.parse(source.text) if isinstance(source.image, Reference) else name
    return given.tag or ("" if given.digest else DEFAULT_TAG)
