"""The file ``ci.yaml`` of operators in the repositories of community and certified operators.

Its ``fbc.catalog_mapping`` lists the templates in ``catalog-templates``, with the catalogs to render from each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.validation.operator_directory import CI_FILE, TEMPLATES
from opmkit.index.templates.document import TemplateFile
from opmkit.index.templates.render import SCHEMAS, TemplateType

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.index.fbc.blobs import SourceLocation
    from opmkit.index.fbc.fields import FieldReader

__all__ = ["CI_FILE", "TEMPLATES", "CatalogMapping", "MappedTemplate", "read_catalog_mapping"]

_MAX_NAME = 255
_HINT = "Correct the value; the fields are described in the documentation of the operator pipelines."


class MappedTemplate(Struct, frozen=True):
    """A template, and the names of the catalogs to render from it."""

    name: str
    type: TemplateType
    catalogs: tuple[tuple[str, SourceLocation], ...]
    location: SourceLocation


class CatalogMapping(Struct, frozen=True):
    """The mapping of templates to catalogs, with warnings; file-based catalogs of an operator may also be disabled."""

    enabled: bool
    templates: tuple[MappedTemplate, ...]
    warnings: tuple[str, ...] = ()


def read_catalog_mapping(path: Path) -> CatalogMapping:
    """Read the mapping of a configuration file.

    Raises:
        InvalidCatalog: The mapping is invalid; the error lists all findings.
        DiskError: The file can't be read.
    """
    file = TemplateFile.open(path)
    if not file.documents or file.documents[0].value is None:
        return CatalogMapping(enabled=True, templates=())
    fbc = file.mapping(_HINT).mapping("fbc")
    mapped = tuple(_read_templates(file, fbc)) if fbc else ()
    enabled = fbc is None or fbc.boolean("enabled") is not False
    file.raise_findings()
    return CatalogMapping(enabled, mapped, tuple(map(str, file.warnings)))


def is_safe_name(name: str) -> bool:
    """Return whether a name is that of a visible file or directory, without a path."""
    return bool(name) and len(name) <= _MAX_NAME and "/" not in name and not name.startswith(".") and name.isprintable()


def _read_templates(file: TemplateFile, fbc: FieldReader) -> Iterator[MappedTemplate]:
    for entry in fbc.mappings("catalog_mapping"):
        file.check_foreign_fields(entry, "template_name", "catalog_names", "type")
        name, schema = entry.string("template_name"), entry.string("type")
        if not is_safe_name(name):
            hint = f"Write the name of a file in the directory {TEMPLATES}."
            file.report((*entry.path, "template_name"), f"invalid template_name {name!r}", hint=hint)
        if schema not in SCHEMAS:
            file.report((*entry.path, "type"), f"unsupported type {schema!r}", hint=f"Use one of {', '.join(SCHEMAS)}.")
        catalogs = tuple(_read_catalogs(file, entry))
        if not catalogs:
            file.report(entry.path, "no catalog_names", hint="List the catalogs to render, such as v4.17.")
        yield MappedTemplate(name, SCHEMAS.get(schema, TemplateType.BASIC), catalogs, file.location(entry.path))


def _read_catalogs(file: TemplateFile, entry: FieldReader) -> Iterator[tuple[str, SourceLocation]]:
    for number, name in enumerate(entry.items("catalog_names")):
        path = (*entry.path, "catalog_names", number)
        if isinstance(name, str) and is_safe_name(name):
            yield name, file.location(path)
        else:
            hint = "Write the name of a directory without a path, as a string."
            file.report(path, f"invalid catalog name {name!r}", hint=hint)
