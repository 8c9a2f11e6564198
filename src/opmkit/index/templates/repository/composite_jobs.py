"""Composite templates as templates with the catalogs that they write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.files import disk_errors
from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import SourceLocation
from opmkit.index.hint_terms import IndexOperation
from opmkit.index.templates import composite
from opmkit.index.templates.composite import Builder
from opmkit.index.templates.document import MAX_TEMPLATE, TemplateFile
from opmkit.index.templates.render import TemplateType
from opmkit.index.templates.repository.plan import CatalogTarget, PlanOptions, TemplateJob, version_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.core.errors import OpmkitError

_TYPES = {Builder.BASIC: TemplateType.BASIC, Builder.SEMVER: TemplateType.SEMVER, Builder.RAW: None}


def composite_jobs(
    template: TemplateFile, path: Path, options: PlanOptions, errors: list[OpmkitError]
) -> Iterator[TemplateJob]:
    """Yield the templates of a composite template; its paths are relative to the directory of its catalogs file.

    Raises:
        InvalidCatalog: One of the files is invalid; the error lists all findings.
        CatalogError: There is not exactly one catalogs file in the directory of the template, or in the one above.
    """
    catalogs = _find_catalogs(path)
    base = catalogs.parent
    for component in composite.parse_components(TemplateFile.open(catalogs), template, options.compat, base):
        version = version_in(component.name)
        if not options.selects(version):
            continue
        source = base / component.source[0]
        if component.builder is Builder.CUSTOM:
            errors.append(
                CatalogError(
                    f"{component.location}: refusing to run program {component.source[0]!r}",
                    hint=Hint("review the program, then build the component with {}", IndexOperation.RENDER_TEMPLATE),
                )
            )
        elif not source.is_file() or not source.resolve().is_relative_to(base.resolve()):
            errors.append(
                CatalogError(
                    f"{component.location}: input {component.source[0]!r} is not a file below {base}",
                    hint="Write a path of an existing file without '..'.",
                )
            )
        else:
            target = CatalogTarget(component.name, options.level_of(version), component.location, file=component.output)
            yield TemplateJob(source, _TYPES[component.builder], (target,))


def _find_catalogs(path: Path) -> Path:
    """Return the catalogs file for a composite template."""
    for directory in (path.parent, path.resolve().parent.parent):
        found = sorted(filter(_is_catalogs_file, directory.glob("*.y*ml")))
        if len(found) > 1:
            names = ", ".join(map(str, found))
            raise CatalogError(f"{SourceLocation(str(path), 1)}: several catalogs files: {names}", hint="Keep one.")
        if found:
            return found[0]
    raise CatalogError(
        f"{SourceLocation(str(path), 1)}: no file with the schema {composite.CATALOGS_SCHEMA}",
        hint="Add catalogs.yaml to the directory of the template.",
    )


def _is_catalogs_file(path: Path) -> bool:
    with disk_errors(path):
        if not path.is_file() or path.stat().st_size > MAX_TEMPLATE:
            return False
        return composite.CATALOGS_SCHEMA.encode() in path.read_bytes()
