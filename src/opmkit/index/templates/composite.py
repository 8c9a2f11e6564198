"""Composite templates of Go opm up to v1.43: several catalogs, each built from a source by a builder.

A contribution lists components, each with a builder: ``basic`` and ``semver`` render a template, ``raw`` copies a
catalog, ``custom`` runs a program. Another file, the catalogs configuration, says where the results go.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.core.files import disk_errors, is_below, make_output_directory, write_files
from opmkit.core.hints import Hint
from opmkit.core.search_paths import find_program
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.blobs import SourceLocation
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.compat import CatalogCompat, ReleaseChange
from opmkit.index.fbc.csv_metadata import MigrationLevel
from opmkit.index.fbc.findings import raise_findings
from opmkit.index.fbc.load import parse_blobs, read_blobs, read_file
from opmkit.index.fbc.write import sort_blobs, to_json, to_yaml
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.templates.document import TemplateFile
from opmkit.index.templates.render import TemplateType, render_template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.fbc.fields import FieldReader
    from opmkit.index.templates.renderer import BundleRenderer

SCHEMA = "olm.composite"
CATALOGS_SCHEMA = "olm.composite.catalogs"
MAX_STDERR = 2000
"""Characters of a program's standard error in a message."""


class Builder(StrEnum):
    """The builder of a component; the values are schemas."""

    BASIC = "olm.builder.basic"
    SEMVER = "olm.builder.semver"
    RAW = "olm.builder.raw"
    CUSTOM = "olm.builder.custom"


@dataclass(frozen=True, slots=True)
class Component:
    """A catalog to build.

    Attributes:
        name: The name of the catalog.
        builder: Its builder.
        source: The file, or the program with its arguments.
        root: The working directory.
        directory: The directory that is validated after the build.
        output: The file to write, below ``directory``.
        location: The location of the component.
    """

    name: str
    builder: Builder
    source: tuple[str, ...]
    root: Path
    directory: Path
    output: Path
    location: SourceLocation = field(default=SourceLocation(), compare=False)


class _CatalogConfig(Struct, frozen=True):
    """The working directory and the allowed builders of a catalog."""

    root: str
    builders: tuple[str, ...]


def parse_components(
    catalogs: TemplateFile, contribution: TemplateFile, compat: CatalogCompat, base: Path = Path()
) -> list[Component]:
    """Return the components of a contribution, whose working directories are relative to ``base``.

    Raises:
        InvalidCatalog: A file is invalid, or an output is outside the working directory; the error lists all findings
            of that file.
    """
    configs = dict(_read_catalogs(catalogs, compat))
    catalogs.raise_findings()
    components = [
        component
        for reader in contribution.reader(SCHEMA).mappings("components")
        if (component := _read_component(contribution, reader, configs, base)) is not None
    ]
    contribution.raise_findings()
    return components


def _read_catalogs(template: TemplateFile, compat: CatalogCompat) -> Iterator[tuple[str, _CatalogConfig]]:
    for reader in template.reader(CATALOGS_SCHEMA).mappings("catalogs"):
        destination = reader.mapping("destination")
        required = ("workingDir",) if compat.has(ReleaseChange.OPTIONAL_BASE_IMAGE) else ("baseImage", "workingDir")
        for name in required:
            if not (destination and destination.string(name)):
                message = f"catalog {reader.string('name')!r} has no destination.{name}"
                template.report(reader.path, message, hint=f"Set destination.{name}.")
        builders = reader.strings("builders")
        for number, builder in enumerate(builders):
            if builder not in list(Builder):
                path = (*reader.path, "builders", number)
                template.report(path, f"unsupported builder {builder!r}", hint=f"Use one of {', '.join(Builder)}.")
        root = destination.string("workingDir") if destination else ""
        yield reader.string("name"), _CatalogConfig(root, builders)


def _read_component(
    template: TemplateFile, reader: FieldReader, configs: Mapping[str, _CatalogConfig], base: Path
) -> Component | None:
    name = reader.string("name")
    strategy, destination = reader.mapping("strategy"), reader.mapping("destination")
    builder_reader = strategy.mapping("template") if strategy else None
    schema = builder_reader.string("schema") if builder_reader else ""
    config = builder_reader.mapping("config") if builder_reader else None
    if name not in configs:
        hint = f"Use one of these catalogs, or add it to them: {', '.join(configs) or 'none'}."
        template.report(reader.path, f"catalog {name!r} not found in the catalogs configuration", hint=hint)
    elif schema not in list(Builder) or schema not in configs[name].builders:
        hint = f"Use one of its builders, or add this one to them: {', '.join(configs[name].builders) or 'none'}."
        template.report(reader.path, f"catalog {name!r} does not allow builder {schema!r}", hint=hint)
    elif config is None:
        template.report(reader.path, "strategy.template has no config", hint="Set its input and output.")
    else:
        source = _read_source(template, config, Builder(schema))
        root = base / configs[name].root
        if is_below(root, Path.cwd()) and not root.resolve().is_relative_to(Path.cwd().resolve()):
            message = f"refusing to write to {root}: a symbolic link leads out of the working directory"
            template.report(config.path, message, hint="Replace it by a directory.")
        directory = root / (destination.string("path") if destination else "")
        output = directory / config.string("output")
        if not output.resolve().is_relative_to(root.resolve()) or output.resolve() == root.resolve():
            hint = "Set destination.path and output to paths without '..'."
            template.report(config.path, f"refusing to write {output}, which is not below {root}", hint=hint)
        return Component(name, Builder(schema), source, root, directory, output, template.location(reader.path))
    return None


def _read_source(template: TemplateFile, config: FieldReader, builder: Builder) -> tuple[str, ...]:
    required = ("command", "output") if builder is Builder.CUSTOM else ("input", "output")
    template.check_fields(config, *required, *("args",) * (builder is Builder.CUSTOM))
    for name in required:
        if not config.string(name):
            template.report(config.path, f"the config has no {name}", hint=f"Set {name}.")
    return (config.string(required[0]), *config.strings("args"))


@dataclass(frozen=True, slots=True)
class CompositeOptions:
    """Options of building the catalogs of a composite template.

    Attributes:
        file_format: Format of the catalogs, ``json`` or ``yaml``.
        level: The level to which rendered bundles are migrated.
        compat: The release of Go opm to match.
        validate: Whether to validate the results.
        run_programs: Whether custom builders may run programs.
        warn: Called with each warning about a bundle.
    """

    file_format: str = "json"
    level: MigrationLevel = MigrationLevel.NONE
    compat: CatalogCompat = CatalogCompat.NEWEST
    validate: bool = True
    run_programs: bool = False
    warn: Callable[[str], None] = lambda _: None


def build_components(components: Sequence[Component], options: CompositeOptions, render: BundleRenderer) -> None:
    """Build components in order, up to the first that fails; bundle images are rendered with ``render``.

    Raises:
        CatalogError: A component needs a program, but programs are not allowed, or not this one (then nothing is
            built), or one fails.
        InvalidCatalog: A template or a result is invalid; the error lists all findings.
        ImageToolsError: A bundle image can't be read, or a file can't be written.
    """
    for component in components:
        command = component.source[0]
        if component.builder is Builder.CUSTOM and os.sep in command and not os.path.isabs(command):  # noqa: PTH117
            raise CatalogError(
                f"refusing to run {command}, which is relative to the working directory",
                hint="Name a program in PATH, or write its absolute path.",
            )
    programs = [" ".join(component.source) for component in components if component.builder is Builder.CUSTOM]
    if programs and not options.run_programs:
        raise CatalogError(
            f"refusing to run programs: {'; '.join(programs)}",
            hint=Hint("review them, then pass {}", IndexSetting.ALLOW_PROGRAMS),
        )
    for component in components:
        try:
            _build(component, options, render)
        except InvalidCatalog as error:
            first, *others = error.lines
            message = f"component {component.name!r}: {first}"
            raise InvalidCatalog(message, details=others, hint=error.hint) from error


def _build(component: Component, options: CompositeOptions, render: BundleRenderer) -> None:
    blobs = _build_blobs(component, options, render)
    encode = to_json if options.file_format == "json" else to_yaml
    with disk_errors(component.output):
        make_output_directory(component.output.parent)
        write_files(component.output.parent, {component.output.name: encode(sort_blobs(blobs))})
    if options.validate:
        raise_findings(check_blobs(read_blobs(component.directory)))


def _build_blobs(component: Component, options: CompositeOptions, render: BundleRenderer) -> Blobs:
    if component.builder is Builder.CUSTOM:
        return parse_blobs(_run_program(component), component.source[0])
    path = Path(component.source[0])
    if component.builder is Builder.RAW:
        return parse_blobs(read_file(path), str(path))
    type_ = TemplateType.BASIC if component.builder is Builder.BASIC else TemplateType.SEMVER
    template = TemplateFile.open(path, named=True)
    return render_template(template, type_, render, level=options.level, compat=options.compat)


def _run_program(component: Component) -> bytes:
    """Run the program of a component and return its standard output."""
    command = " ".join(component.source)
    program = find_program(component.source[0])
    if program is None:
        raise CatalogError(f"{command}: program not found in PATH", hint="Install the program, or correct the command.")
    try:
        process = subprocess.run(
            component.source,
            executable=program,
            cwd=component.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise CatalogError(f"{command}: {error}", hint="Install the program, or correct the command.") from error
    if process.returncode:
        stderr = process.stderr.decode(errors="replace").strip()[-MAX_STDERR:]
        raise CatalogError(
            f"{command}: exited with status {process.returncode}: {stderr}",
            hint="Run the command yourself to find the problem.",
        )
    return process.stdout
