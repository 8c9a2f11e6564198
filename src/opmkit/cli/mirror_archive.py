"""Targets of ``opm mirror``, and mirrors in directories and archives as its source."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.errors import UsageError, print_to_stderr
from opmkit.cli.help_flags import ADVANCED_PANEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.imagetools.mirroring.carried import CarriedContent
    from opmkit.imagetools.mirroring.description import MirroredImage
    from opmkit.imagetools.mirroring.layout_source import LayoutSource
    from opmkit.imagetools.mirroring.target import MirrorTarget
    from opmkit.imagetools.registry import RegistryClient


@dataclass(frozen=True, slots=True)
class ArchiveFlags:
    """Flags for archives."""

    have: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Omit from the archive what earlier archives contain according to FILE, which is created or updated",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None

    def carried(self, *, is_archive: bool, command: str) -> CarriedContent | None:
        """Return what was carried before; raise UsageError if the target is not an archive."""
        if self.have is None:
            return None
        if not is_archive:
            raise UsageError("--have requires oci-archive:FILE as the target", command)
        from opmkit.imagetools.mirroring.carried import CarriedContent

        return CarriedContent.read(self.have)


@contextmanager
def open_target(
    client: RegistryClient, text: str, flags: ArchiveFlags, max_components: int | None, command: str
) -> Iterator[MirrorTarget]:
    """Open the target of a mirror; release it at the end of the block."""
    from opmkit.imagetools.mirroring.archive_target import ArchiveTarget
    from opmkit.imagetools.mirroring.directory_target import DirectoryTarget
    from opmkit.imagetools.mirroring.registry_target import RegistryTarget
    from opmkit.imagetools.mirroring.target import ArchiveLocation, RegistryLocation, parse_location

    location = parse_location(text)
    carried = flags.carried(is_archive=isinstance(location, ArchiveLocation), command=command)
    if isinstance(location, RegistryLocation):
        yield RegistryTarget(client, location, max_components=max_components)
    elif isinstance(location, ArchiveLocation):
        archive = ArchiveTarget(location.path, carried)
        try:
            yield archive
        finally:
            archive.close()
    else:
        yield DirectoryTarget(location)


def commit(target: MirrorTarget, images: Iterable[MirroredImage], flags: ArchiveFlags) -> None:
    """Complete an archive or the description of a directory, and then the record of what was carried."""
    from opmkit.imagetools.mirroring.archive_target import ArchiveTarget
    from opmkit.imagetools.mirroring.directory_target import DirectoryTarget

    if not isinstance(target, ArchiveTarget | DirectoryTarget):
        return
    described = list(images)
    has_changed = target.commit(described)
    if isinstance(target, DirectoryTarget):
        return
    print_to_stderr(f"{target.path}: {'written' if has_changed else 'unchanged'}")
    if flags.have:
        target.carried(described).write(flags.have)


def find_layout_source(text: str) -> LayoutSource | None:
    """Return the directory or archive that a mirror was written to, None if the argument is something else."""
    from opmkit.imagetools.errors import InvalidReference
    from opmkit.imagetools.mirroring.layout_source import open_layout_source
    from opmkit.imagetools.reference import parse_image_reference

    try:
        reference = parse_image_reference(text)
    except InvalidReference:
        reference = None
    return open_layout_source(text, reference)
