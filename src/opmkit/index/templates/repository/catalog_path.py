"""Paths of catalog files, as a template with the name of the catalog and of the package."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from opmkit.index.errors import CatalogError

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


@dataclass(frozen=True, slots=True)
class CatalogPath:
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
