"""Targets of ``opm mirror``."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.help.panels import ADVANCED_PANEL
from opmkit.cli.output.errors import UsageError, print_to_stderr

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit import RegistryClient
    from opmkit.supply.mirror.description import MirroredImage
    from opmkit.supply.mirror.target import MirrorTarget


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

    def check_target(self, *, is_archive: bool, command: str) -> None:
        """Raise UsageError if the flags do not apply to the target."""
        if self.have and not is_archive:
            raise UsageError("--have requires oci-archive:FILE as the target", command)


@contextmanager
def open_target(
    client: RegistryClient, text: str, flags: ArchiveFlags, max_components: int | None, command: str
) -> Iterator[MirrorTarget]:
    """Open the target of a mirror; release it at the end of the block."""
    from opmkit.supply.mirror import locations
    from opmkit.supply.mirror.target import ArchiveLocation, parse_location

    location = parse_location(text)
    flags.check_target(is_archive=isinstance(location, ArchiveLocation), command=command)
    with locations.open_target(client, location, have=flags.have, max_components=max_components) as target:
        yield target


def commit(target: MirrorTarget, images: Iterable[MirroredImage], flags: ArchiveFlags) -> None:
    """Complete an archive or the description of a directory, and the record of what was carried."""
    from opmkit.supply.mirror.archive_target import ArchiveTarget
    from opmkit.supply.mirror.locations import commit_target

    has_changed = commit_target(target, images, flags.have)
    if isinstance(target, ArchiveTarget):
        print_to_stderr(f"{target.path}: {'written' if has_changed else 'unchanged'}")
