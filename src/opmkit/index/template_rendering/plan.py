"""Values: templates to render, and the catalogs to write from each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from opmkit.bundle.validation.openshift import OpenShiftVersion
from opmkit.index.fbc.check.policy import FIRST_WITH_METADATA
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.migrate import MigrationLevel

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.errors import OpmkitError
    from opmkit.index.fbc.blobs import SourceLocation
    from opmkit.index.fbc.templates.render import TemplateType


_VERSION = re.compile(r"(?:^|[-_.])v?([45])[.-]([0-9]{1,2})(?=$|[-_.])")


class FileFormat(StrEnum):
    """The format of a catalog file; the values are file extensions."""

    YAML = "yaml"
    JSON = "json"


def version_in(name: str) -> OpenShiftVersion | None:
    """Return the OpenShift version that a name contains, such as ``v4.17`` or ``catalog-4-17``."""
    match = _VERSION.search(name)
    return OpenShiftVersion(int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of finding templates.

    Attributes:
        output_dir: The directory below which catalogs are written.
        versions: OpenShift versions of the catalogs to render, empty for all.
        level: The migration level of all catalogs, None for that of their OpenShift version.
        file_format: The format of catalogs.
        compat: The release of Go opm to match.
    """

    output_dir: Path
    versions: tuple[OpenShiftVersion, ...] = ()
    level: MigrationLevel | None = None
    file_format: FileFormat = FileFormat.YAML
    compat: Compat = Compat.NEWEST

    def selects(self, version: OpenShiftVersion | None) -> bool:
        """Return whether catalogs of a version, None for catalogs without a version, are rendered."""
        return not self.versions or version in self.versions

    def level_of(self, version: OpenShiftVersion | None) -> MigrationLevel:
        """Return the migration level of the catalogs of an OpenShift version, None for catalogs without a version."""
        if self.level is not None:
            return self.level
        has_metadata = version is not None and version >= FIRST_WITH_METADATA
        return MigrationLevel.CSV_METADATA if has_metadata else MigrationLevel.NONE


@dataclass(frozen=True, slots=True)
class CatalogTarget:
    """A catalog file to write.

    Attributes:
        directory: The directory of the package's directory, or of the file if ``file`` is set.
        level: The level to which bundles are migrated.
        location: The place that requests the catalog.
        package: The name of the package's directory, "" for the package of the catalog.
        file: The path of the file below ``directory``, "" for ``PACKAGE/catalog.FORMAT``.
    """

    directory: Path
    level: MigrationLevel
    location: SourceLocation
    package: str = ""
    file: str = ""

    def path(self, file_format: FileFormat, package: str = "") -> Path | None:
        """Return the path of the file, None if the package must be known but is not."""
        if self.file:
            return self.directory / self.file
        name = self.package or package
        return self.directory / name / f"catalog.{file_format}" if name else None

    def encoding(self, file_format: FileFormat) -> FileFormat:
        """Return the format of the file: by its extension, or the given one."""
        extension = self.file.rpartition(".")[2]
        return FileFormat(extension) if extension in list(FileFormat) else file_format


@dataclass(frozen=True, slots=True)
class TemplateJob:
    """A template, and the catalogs to write from it; without a type, it is a catalog that is only migrated."""

    path: Path
    type: TemplateType | None
    targets: tuple[CatalogTarget, ...]


@dataclass(slots=True)
class Plan:
    """Templates to render, and the errors in finding them."""

    jobs: list[TemplateJob] = field(default_factory=list)
    errors: list[OpmkitError] = field(default_factory=list)
