"""Flags for the new image and the output of commands that change or build an index."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from opmkit import OnConflict
from opmkit.cli.flags.container_tools import PUSH_HELP
from opmkit.cli.help.panels import CATALOG_PANEL, COMPATIBILITY_PANEL
from opmkit.cli.output.console import OutputFormat
from opmkit.cli.output.errors import UsageError, conflicting_flags
from opmkit.cli.parser.declaration import flag

if TYPE_CHECKING:
    from opmkit import IndexPlan, MigrationLevel

RESULT_PANEL = "Result"
WRITERS_PANEL = "Other writers of the tag"


@dataclass(frozen=True, slots=True)
class OutputFlags:
    """Flags for the output of a change."""

    panel: ClassVar[str] = RESULT_PANEL

    dry_run: bool = flag(False, "Show what would change without changing it")
    output: OutputFormat | None = flag(None, "Output format: text (default) or json")

    @property
    def is_requested(self) -> bool:
        """Whether a person or a flag asks for output that Go opm does not print."""
        return self.output is not None or sys.stdout.isatty()

    @property
    def plans_updates(self) -> bool:
        """Whether the output says what clusters do with the changed index."""
        return False


@dataclass(frozen=True, slots=True)
class ChangeOutputFlags(OutputFlags):
    """Flags for the output of a change that can keep installed versions from updates."""

    plan: bool = flag(False, "Show what becomes of installed versions")

    @property
    def plans_updates(self) -> bool:
        """Whether the output says what clusters do with the changed index."""
        return self.plan


@dataclass(frozen=True, slots=True)
class TargetFlags:
    """Flags for the new index image."""

    panel: ClassVar[str] = RESULT_PANEL

    tag: str | None = flag(
        None, "Name of the new image; default: operator-registry-index:latest", "-t", metavar="IMAGE"
    )
    push: bool = flag(False, PUSH_HELP)
    binary_image: str | None = flag(
        None,
        "Base image, or scratch; default: the base of the index to start from, or the last opm image that "
        "serves databases and file-based catalogs",
        "-i",
        metavar="IMAGE",
    )
    to_fbc: bool = flag(False, "Build a file-based catalog, even from a database", panel=CATALOG_PANEL)
    migrate_level: str = flag(
        "",
        "Migration of bundles that are new in a file-based catalog: none, bundle-object-to-csv-metadata or "
        "all; default: as for its other bundles",
        panel=CATALOG_PANEL,
        metavar="LEVEL",
    )
    platform: list[str] | None = flag(
        None, "Platforms of the new image; default: all platforms of the base image", metavar="OS/ARCH[/VARIANT],..."
    )
    on_conflict: OnConflict = flag(
        OnConflict.FAIL,
        "What to do if another writer moves the tag during the run: fail (exit code 4), rebase (start again "
        "from the new image) or overwrite",
        panel=WRITERS_PANEL,
    )
    settle: float = flag(
        1.0,
        "Time that the tag of the index to start from must stay unchanged after its update, to detect other writers",
        panel=WRITERS_PANEL,
        metavar="SECONDS",
        min=0,
    )
    generate: bool = flag(
        False,
        "Write the index and a Dockerfile to the working directory without building an image",
        panel=COMPATIBILITY_PANEL,
    )
    out_dockerfile: str = flag(
        "index.Dockerfile",
        "Name of the Dockerfile to write with --generate",
        "-d",
        panel=COMPATIBILITY_PANEL,
        metavar="FILE",
    )

    @property
    def level(self) -> MigrationLevel | None:
        """Migration level; raises UsageError if it is unknown."""
        from opmkit.cli.output.fbc import parse_level

        return parse_level(self.migrate_level) if self.migrate_level else None

    def plan(self, from_index: str | None, output_flags: OutputFlags, also_tags: tuple[str, ...] = ()) -> IndexPlan:
        """Return the plan of the new index.

        Raises:
            UsageError: the flags conflict.
            ImageToolsError: a platform is invalid.
        """
        from opmkit import IndexPlan, Platform

        if self.generate and self.platform:
            raise conflicting_flags("--platform", "--generate")
        in_place = from_index is not None and Path(from_index).exists() and not self.tag and not self.generate
        if in_place:
            self._check_in_place(from_index, also_tags)
        return IndexPlan(
            tags=() if in_place else (self.tag or _default_tag(), *also_tags),
            from_index=from_index,
            to_catalog=self.to_fbc,
            level=self.level,
            binary_image=self.binary_image,
            platforms=tuple(map(Platform.parse, self.platform or ())),
            push=self.push,
            on_conflict=self.on_conflict,
            settle=self.settle,
            context=Path.cwd() if self.generate else None,
            dockerfile=self.out_dockerfile,
            dry_run=output_flags.dry_run,
            plan_updates=output_flags.plans_updates,
        )

    def plan_with_default_tag(
        self, from_index: str, output_flags: OutputFlags, also_tags: tuple[str, ...]
    ) -> IndexPlan:
        """Return the plan of an image, which has the default name if no name is given."""
        return replace(self, tag=self.tag or _default_tag()).plan(from_index, output_flags, also_tags)

    def _check_in_place(self, from_index: str | None, also_tags: tuple[str, ...]) -> None:
        """Raise UsageError for flags that require an image."""
        flags = {
            "--push": self.push,
            "--platform": self.platform,
            "--binary-image": self.binary_image,
            "--also-tag": also_tags,
        }
        for name in (name for name, value in flags.items() if value):
            raise UsageError(
                f"{name}: unsupported without an image: {from_index} is changed in place",
                hint=f"name the new image with --tag, or omit {name}",
            )


@dataclass(frozen=True, slots=True)
class NamedTargetFlags(TargetFlags):
    """Flags for the new index image of commands that never write to an image with the default name."""

    tag: str | None = flag(None, "Name of the new image", "-t", panel=RESULT_PANEL, metavar="IMAGE")


def _default_tag() -> str:
    """Return the name of an index image that the command line does not name."""
    from opmkit import IndexPlan

    return IndexPlan().tags[0]
