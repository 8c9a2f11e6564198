"""Opening of the targets of mirrors, and of mirrors in directories and archives, by their names."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import parse_image_reference
from opmkit.supply.mirror.archive_target import ArchiveTarget
from opmkit.supply.mirror.carried import CarriedContent
from opmkit.supply.mirror.directory_target import DirectoryTarget
from opmkit.supply.mirror.layout_source import open_layout_source
from opmkit.supply.mirror.registry_target import RegistryTarget
from opmkit.supply.mirror.target import ArchiveLocation, RegistryLocation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from opmkit.imagetools.registry import RegistryClient
    from opmkit.supply.mirror.description import MirroredImage
    from opmkit.supply.mirror.layout_source import LayoutSource
    from opmkit.supply.mirror.target import MirrorTarget


@contextmanager
def open_target(
    client: RegistryClient,
    location: RegistryLocation | ArchiveLocation | Path,
    *,
    have: Path | None = None,
    max_components: int | None = None,
) -> Iterator[MirrorTarget]:
    """Open the target of a mirror; release it at the end of the block.

    Args:
        client: Writes to a registry.
        location: The target, see `opmkit.supply.mirror.target.parse_location`.
        have: The record of what earlier archives contain, for an archive.
        max_components: Components of a repository name in a registry.
    """
    if isinstance(location, RegistryLocation):
        yield RegistryTarget(client, location, max_components=max_components)
    elif isinstance(location, ArchiveLocation):
        archive = ArchiveTarget(location.path, CarriedContent.read(have) if have else None)
        try:
            yield archive
        finally:
            archive.close()
    else:
        yield DirectoryTarget(location)


def commit_target(target: MirrorTarget, images: Iterable[MirroredImage], have: Path | None = None) -> bool:
    """Complete an archive or the description of a directory, and the record of what was carried.

    Returns:
        Whether the archive or the description has changed, False for a registry.
    """
    if not isinstance(target, ArchiveTarget | DirectoryTarget):
        return False
    described = list(images)
    has_changed = target.commit(described)
    if have and isinstance(target, ArchiveTarget):
        target.added(described).add_to(have)
    return has_changed


def find_layout_source(text: str) -> LayoutSource | None:
    """Return the directory or archive that a mirror was written to, None if the name is of something else."""
    try:
        reference = parse_image_reference(text)
    except InvalidReference:
        reference = None
    return open_layout_source(text, reference)
