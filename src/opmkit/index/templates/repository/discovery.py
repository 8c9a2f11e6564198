"""Find the templates in directories, and the catalogs to render from each.

An operator with a catalog mapping in ``ci.yaml`` determines both. Other templates are found by their schemas, and name
the OpenShift version of their catalog in the name of the file or of a directory: ``catalog-templates/v4.17.yaml``.
"""

from __future__ import annotations

import glob
import os
import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

from opmkit.bundle.validation.openshift import OpenShiftVersion
from opmkit.core.errors import OpmkitError
from opmkit.core.files import disk_errors
from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import SourceLocation
from opmkit.index.fbc.load import parse_blobs, read_file
from opmkit.index.hint_terms import IndexOperation
from opmkit.index.templates import composite
from opmkit.index.templates.ci_config import CI_FILE, TEMPLATES, CatalogMapping, read_catalog_mapping
from opmkit.index.templates.composite import Builder
from opmkit.index.templates.document import MAX_TEMPLATE, TemplateFile
from opmkit.index.templates.render import SCHEMAS, TemplateType
from opmkit.index.templates.repository.plan import CatalogTarget, Plan, PlanOptions, TemplateJob, version_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path


MAX_DEPTH = 64
"""Depth of nested directories."""
_EXTENSIONS = (".yaml", ".yml", ".json")
_SCHEMA = re.compile(rb"""schema["']?\s*:\s*["']?olm\.(?:template\.|semver\b|composite\b)""", re.IGNORECASE)
_CATALOG = re.compile(rb"""schema["']?\s*:\s*["']?olm\.(?:package|channel|bundle|deprecations)\b""", re.IGNORECASE)
_NO_MAPPING = CatalogMapping(enabled=True, templates=())


def find_templates(paths: Sequence[Path], options: PlanOptions) -> Plan:
    """Return the templates in files and directories, with all errors in finding them."""
    finder = _Finder(options)
    for path in dict.fromkeys(paths):
        with finder.collect_errors():
            finder.add(path)
    plan = finder.plan
    if not plan.jobs and not plan.errors:
        names = ", ".join(map(str, paths))
        plan.errors.append(
            CatalogError(
                f"{names}: no templates found" + (" for the OpenShift versions" if options.versions else ""),
                hint=f"pass template files, or directories that contain templates or operators with {CI_FILE}",
            )
        )
    return plan


class _ErrorCollector(Struct):
    """A context manager that adds an error to a list instead of raising it."""

    errors: list[OpmkitError]

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> bool:
        """Suppress an error of opmkit."""
        if isinstance(error, OpmkitError):
            self.errors.append(error)
            return True
        return False


class _Finder(Struct):
    options: PlanOptions
    plan: Plan = field(default_factory=Plan)
    _seen: set[Path] = set()

    def collect_errors(self) -> _ErrorCollector:
        return _ErrorCollector(self.plan.errors)

    def add(self, path: Path) -> None:
        """Add the template in a file, or those below a directory."""
        with disk_errors(path):
            if path.is_dir():
                self._search(path, path, 0)
            elif not path.exists():
                raise CatalogError(f"{path}: no such file or directory", hint="check the path")
            elif not path.is_file():
                raise CatalogError(f"{path}: not a regular file", hint="pass a template file")
            else:
                self._add_file(path, path.parent, required=True)

    def _search(self, directory: Path, root: Path, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise CatalogError(f"{directory}: directories are nested too deeply", hint="pass a directory further down")
        mapping = self._read_mapping(directory / CI_FILE)
        if mapping is None or not mapping.enabled:
            return
        if mapping.templates:
            self._add_mapped(directory, mapping)
            return
        with os.scandir(directory) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
        for entry in entries:
            path = directory / entry.name
            with self.collect_errors(), disk_errors(path):
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if not self._is_output(path) and not _is_bundle(path):
                        self._search(path, root, depth + 1)
                elif entry.name.endswith(_EXTENSIONS) and (
                    _is_file_below(path, root) if entry.is_symlink() else entry.is_file()
                ):
                    self._add_file(path, root, required=False)

    def _is_output(self, path: Path) -> bool:
        output = self.options.output_dir
        return path.name == output.resolve().name and output.exists() and path.samefile(output)

    def _read_mapping(self, path: Path) -> CatalogMapping | None:
        """Return the mapping of an operator, an empty one without a configuration, None if it is invalid."""
        if not _is_file_below(path, path.parent):
            return _NO_MAPPING
        with self.collect_errors():
            return read_catalog_mapping(path)
        return None

    def _add_mapped(self, directory: Path, mapping: CatalogMapping) -> None:
        package = directory.resolve().name
        self.plan.warnings += mapping.warnings
        self._warn_of_unmapped_catalogs(package, mapping)
        for template in mapping.templates:
            path = directory / TEMPLATES / template.name
            targets = [
                CatalogTarget(name, self.options.level_of(version), location, package)
                for name, location in template.catalogs
                if self.options.selects(version := version_in(name))
            ]
            if not targets:
                continue
            if not _is_file_below(path, directory):
                message = f"{template.location}: template {template.name} does not exist in {TEMPLATES}"
                self.plan.errors.append(CatalogError(message, hint="Write the name of a file in that directory."))
                continue
            self._add_job(path, template.type, targets)

    def _warn_of_unmapped_catalogs(self, package: str, mapping: CatalogMapping) -> None:
        """Warn of catalogs of an operator that its configuration does not list (any more)."""
        mapped = {name for template in mapping.templates for name, _ in template.catalogs}
        if not self.options.path.has_package_directories:
            return
        for path in sorted(self.options.output_dir.glob(f"*/{glob.escape(package)}/")):
            if path.parent.name not in mapped:
                hint = "remove it if it is obsolete"
                self.plan.warnings.append(f"{path}: no template is mapped to the catalog {path.parent.name}; {hint}")

    def _add_job(self, path: Path, type_: TemplateType | None, targets: Iterable[CatalogTarget]) -> None:
        self.plan.jobs.append(TemplateJob(path, type_, tuple(targets)))

    def _add_file(self, path: Path, root: Path, *, required: bool) -> None:
        """Add a template or composite file; other files are an error if ``required``."""
        if path.stat().st_size > MAX_TEMPLATE and not required:
            return
        raw = read_file(path)
        is_contribution = required or path.parent.name == TEMPLATES
        if not _SCHEMA.search(raw) and not (is_contribution and _CATALOG.search(raw)):
            if required:
                hint = f"Set the schema to one of {', '.join((*SCHEMAS, composite.SCHEMA))}."
                raise CatalogError(f"{path}: not a template", hint=hint)
            return
        resolved = path.resolve()
        if resolved in self._seen:
            return
        self._seen.add(resolved)
        template = TemplateFile.open(path)
        if template.schema == composite.SCHEMA:
            self.plan.jobs += composite_jobs(template, path, self.options, self.plan.errors)
        elif template.schema in SCHEMAS:
            self._add_plain(path, root, SCHEMAS[template.schema])
        elif is_contribution and _CATALOG.search(raw):
            self._add_plain(path, root, _contribution_type(raw, path))
        elif required:
            hint = f"Set the schema to one of {', '.join((*SCHEMAS, composite.SCHEMA))}."
            raise CatalogError(f"{path}:1: unsupported template schema {template.schema!r}", hint=hint)

    def _add_plain(self, path: Path, root: Path, type_: TemplateType | None) -> None:
        """Add a template for the OpenShift version in its name, or for all selected versions."""
        version = _version_of(path, root)
        if version and not self.options.selects(version):
            return
        versions = (version,) if version else self.options.versions or (None,)
        location = SourceLocation(str(path))
        self._add_job(
            path,
            type_,
            (
                CatalogTarget(f"v{target}" if target else "", self.options.level_of(target), location)
                for target in versions
            ),
        )


def _contribution_type(raw: bytes, path: Path) -> TemplateType | None:
    """Return the type of a catalog: a basic template in the older form if a bundle has only an image."""
    bundles = parse_blobs(raw, str(path)).bundles
    return TemplateType.BASIC if any(not bundle.properties for bundle in bundles) else None


def _version_of(path: Path, root: Path) -> OpenShiftVersion | None:
    """Return the OpenShift version in the name of a file, or of the closest directory that is named by a version."""
    version = version_in(path.name.removesuffix(path.suffix))
    if version:
        return version
    base = root.resolve()
    for parent in (path.parent.resolve(), *path.parent.resolve().parents):
        if not parent.is_relative_to(base):
            break
        try:
            return OpenShiftVersion.parse(parent.name.replace("-", "."))
        except ValueError:
            continue
    return None


def _is_bundle(path: Path) -> bool:
    return (path / "manifests").is_dir() and (path / "metadata").is_dir()


def _is_file_below(path: Path, root: Path) -> bool:
    """Return whether a regular file exists, and is not a link that leads out of ``root``."""
    return path.is_file() and path.resolve().is_relative_to(root.resolve())


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
