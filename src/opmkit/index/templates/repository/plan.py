"""Values: templates to render, and the catalogs to write from each of them, with their paths."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.validation.openshift import OpenShiftVersion
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.check.policy import FIRST_WITH_METADATA
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.csv_metadata import MigrationLevel

if TYPE_CHECKING:
    from opmkit.core.errors import OpmkitError
    from opmkit.index.fbc.blobs import SourceLocation
    from opmkit.index.templates.render import TemplateType


_FIELD = re.compile(r"\{\{\s*\.(Catalog|Package)\s*\}\}")
_HINT = "write a relative path with {{.Catalog}}, such as v4.17, and {{.Package}}"


class FileFormat(StrEnum):
    """The format of a catalog file; the values are file extensions."""

    YAML = "yaml"
    JSON = "json"

    @classmethod
    def by_extension(cls, path: Path, default: FileFormat) -> FileFormat:
        """Return the format that the extension of a file means, or the default one."""
        return _EXTENSIONS.get(path.suffix, default)


_EXTENSIONS = {".json": FileFormat.JSON, ".yaml": FileFormat.YAML, ".yml": FileFormat.YAML}


class CatalogPath(Struct, frozen=True):
    """The path of a catalog file relative to the output directory; the text may have the fields Catalog and Package."""

    text: str

    @classmethod
    def parse(cls, text: str) -> CatalogPath:
        """Parse a template in a subset of Go's syntax; raise CatalogError if it is invalid."""
        plain = _FIELD.sub("", text)
        path = Path(_FIELD.sub("x", text))
        if "{{" in plain or "}}" in plain:
            raise CatalogError(f"invalid path template {text!r}: unknown field", hint=_HINT)
        if not path.name or path.is_absolute() or ".." in path.parts or not text.isprintable():
            raise CatalogError(f"invalid path template {text!r}: not the relative path of a file", hint=_HINT)
        return cls(text)

    @property
    def needs_package(self) -> bool:
        """Return whether the path contains the package."""
        return any(match[1] == "Package" for match in _FIELD.finditer(self.text))

    @property
    def has_package_directories(self) -> bool:
        """Return whether each catalog is a directory that contains directories of packages."""
        return bool(re.match(rf"{_FIELD.pattern}/{_FIELD.pattern}/", self.text))

    def path(self, catalog: str, package: str, file_format: FileFormat) -> Path:
        """Return the path for a catalog, or "" for the only one, and a package; the format is the default extension."""
        names = {"Catalog": catalog, "Package": package}
        path = Path(_FIELD.sub(lambda match: names[match[1]], self.text).lstrip("/"))
        return path if path.suffix in _EXTENSIONS else path.with_name(f"{path.name}.{file_format}")


DEFAULT_PATH = CatalogPath("{{.Catalog}}/{{.Package}}/catalog")
"""The paths in the repositories of community and certified operators."""

_VERSION = re.compile(r"(?:^|[-_.])v?([45])[.-]([0-9]{1,2})(?=$|[-_.])")


def version_in(name: str) -> OpenShiftVersion | None:
    """Return the OpenShift version that a name contains, such as ``v4.17`` or ``catalog-4-17``."""
    match = _VERSION.search(name)
    return OpenShiftVersion(int(match[1]), int(match[2])) if match else None


class PlanOptions(Struct, frozen=True):
    """Options of finding templates.

    Attributes:
        output_dir: The directory below which catalogs are written.
        versions: OpenShift versions of the catalogs to render, empty for all.
        level: The migration level of all catalogs, None for that of their OpenShift version.
        file_format: The format of catalogs whose path has no extension that determines it.
        path: The paths of catalogs below ``output_dir``.
        compat: The release of Go opm to match.
    """

    output_dir: Path
    versions: tuple[OpenShiftVersion, ...] = ()
    level: MigrationLevel | None = None
    file_format: FileFormat = FileFormat.YAML
    path: CatalogPath = DEFAULT_PATH
    compat: CatalogCompat = CatalogCompat.NEWEST

    def selects(self, version: OpenShiftVersion | None) -> bool:
        """Return whether catalogs of a version, None for catalogs without a version, are rendered."""
        return not self.versions or version in self.versions

    def level_of(self, version: OpenShiftVersion | None) -> MigrationLevel:
        """Return the migration level of the catalogs of an OpenShift version, None for catalogs without a version."""
        if self.level is not None:
            return self.level
        has_metadata = version is not None and version >= FIRST_WITH_METADATA
        return MigrationLevel.CSV_METADATA if has_metadata else MigrationLevel.NONE


class CatalogTarget(Struct, frozen=True):
    """A catalog file to write.

    Attributes:
        catalog: The name of the catalog, or "" for the only one.
        level: The level to which bundles are migrated.
        location: The place that requests the catalog.
        package: The name of the package in paths, or "" for the package of the catalog.
        file: The path of the file, None for that of `PlanOptions`.
    """

    catalog: str
    level: MigrationLevel
    location: SourceLocation
    package: str = ""
    file: Path | None = None

    def path(self, options: PlanOptions, package: str = "") -> Path | None:
        """Return the path of the file, None if the package must be known but is not."""
        if self.file:
            return self.file
        name = self.package or package
        if options.path.needs_package and not name:
            return None
        return options.output_dir / options.path.path(self.catalog, name, options.file_format)


class TemplateJob(Struct, frozen=True):
    """A template, and the catalogs to write from it; without a type, it is a catalog that is only migrated."""

    path: Path
    type: TemplateType | None
    targets: tuple[CatalogTarget, ...]


class Plan(Struct):
    """Templates to render, and the errors and warnings in finding them."""

    jobs: list[TemplateJob] = []
    errors: list[OpmkitError] = []
    warnings: list[str] = []
