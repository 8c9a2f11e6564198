"""Composite templates: a contribution says how its catalogs are built, another file where they go.

Releases of the reference up to v1.43 have them. A contribution has a component for each catalog, each with a builder:
``basic`` and ``semver`` render such a template, ``raw`` takes a catalog as it is, ``custom`` runs a program for it.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.hints import Hint, Setting
from opmkit.imagetools.store.disk import disk_errors
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.findings import raise_findings
from opmkit.index.fbc.load import parse_blobs, read_blobs
from opmkit.index.fbc.migrate import MigrationLevel
from opmkit.index.fbc.templates.document import TemplateFile
from opmkit.index.fbc.templates.render import TemplateType, render_template
from opmkit.index.fbc.write import sort_blobs
from opmkit.index.files import put_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opmkit.index.fbc.blobs import Blob, Blobs
    from opmkit.index.fbc.fields import FieldReader
    from opmkit.index.fbc.templates.renderer import BundleRenderer

SCHEMA = "olm.composite"
CATALOGS_SCHEMA = "olm.composite.catalogs"


class Builder(StrEnum):
    """How a component comes to be; the values are schemas."""

    BASIC = "olm.builder.basic"
    SEMVER = "olm.builder.semver"
    RAW = "olm.builder.raw"
    CUSTOM = "olm.builder.custom"


@dataclass(frozen=True, slots=True)
class Component:
    """A catalog to build: ``source`` is the file, or the program with its arguments, ``root`` the working directory.

    The result goes to ``output`` in the ``directory``, which is validated as a whole.
    """

    name: str
    builder: Builder
    source: tuple[str, ...]
    root: Path
    directory: Path
    output: Path


@dataclass(frozen=True, slots=True)
class _Catalog:
    """Where the components of a catalog go, and which builders it admits."""

    root: str
    builders: tuple[str, ...]


def parse_components(catalogs: TemplateFile, contribution: TemplateFile, compat: Compat) -> list[Component]:
    """What is to be built.

    Raises:
        InvalidCatalog: with all that is wrong with either file, among it results outside of the working directory.
    """
    known = dict(_catalogs(catalogs, compat))
    catalogs.raise_findings()
    found = [
        one
        for fields in contribution.only(SCHEMA).mappings("components")
        if (one := _component(contribution, fields, known)) is not None
    ]
    contribution.raise_findings()
    return found


def _catalogs(template: TemplateFile, compat: Compat) -> Iterator[tuple[str, _Catalog]]:
    for fields in template.only(CATALOGS_SCHEMA).mappings("catalogs"):
        destination = fields.mapping("destination")
        needed = ("baseImage", "workingDir") if compat is Compat.OPM_1_26 else ("workingDir",)
        for name in needed:
            if not (destination and destination.text(name)):
                told = f"catalog {fields.text('name')!r} has no destination.{name}"
                template.tell(fields.path, told, advice=f"Write {name} under destination.")
        builders = fields.texts("builders")
        for number, builder in enumerate(builders):
            if builder not in list(Builder):
                advice = f"Write one of {', '.join(Builder)}."
                template.tell((*fields.path, "builders", number), f"{builder!r} is no builder", advice=advice)
        yield fields.text("name"), _Catalog(destination.text("workingDir") if destination else "", builders)


def _component(template: TemplateFile, fields: FieldReader, catalogs: dict[str, _Catalog]) -> Component | None:
    name = fields.text("name")
    strategy, destination = fields.mapping("strategy"), fields.mapping("destination")
    told = strategy.mapping("template") if strategy else None
    schema = told.text("schema") if told else ""
    config = told.mapping("config") if told else None
    if name not in catalogs:
        advice = f"Name one of these, or add it there: {', '.join(catalogs) or 'none'}."
        template.tell(fields.path, f"there is no catalog {name!r} in the configuration of catalogs", advice=advice)
    elif schema not in list(Builder) or schema not in catalogs[name].builders:
        admitted = ", ".join(catalogs[name].builders) or "none"
        advice = f"Name one of its builders, or add this one there: {admitted}."
        template.tell(fields.path, f"catalog {name!r} has no builder {schema!r}", advice=advice)
    elif config is None:
        template.tell(fields.path, "strategy.template has no config", advice="Say with input and output what to build.")
    else:
        source = _source(template, config, Builder(schema))
        root = Path(catalogs[name].root)
        directory = root / (destination.text("path") if destination else "")
        output = directory / config.text("output")
        if not output.resolve().is_relative_to(root.resolve()) or output.resolve() == root.resolve():
            problem = f"the result would be {output}, which is not below {root}"
            template.tell(config.path, problem, advice="Write destination.path and output without '..'.")
        return Component(name, Builder(schema), source, root, directory, output)
    return None


def _source(template: TemplateFile, config: FieldReader, builder: Builder) -> tuple[str, ...]:
    needed = ("command", "output") if builder is Builder.CUSTOM else ("input", "output")
    template.known(config, *needed, *("args",) * (builder is Builder.CUSTOM))
    for name in needed:
        if not config.text(name):
            template.tell(config.path, f"the config has no {name}", advice=f"Write {name}.")
    return (config.text(needed[0]), *config.texts("args"))


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How components are built and written, as which compat has them, at which level, with programs run or not."""

    render: BundleRenderer
    write: Callable[[Iterable[Blob]], bytes]
    compat: Compat = Compat.NEWEST
    level: MigrationLevel = MigrationLevel.NONE
    validate: bool = True
    run_programs: bool = False


def build_components(found: Sequence[Component], building: BuildOptions) -> None:
    """Build components, one after the other.

    Raises:
        CatalogError: a component runs a program, which is not allowed, or one that fails; then nothing is built, or
            nothing more.
        InvalidCatalog: with all that is wrong with a template or a result.
        ImageToolsError: a bundle can't be read, or the disk says no.
    """
    programs = [" ".join(one.source) for one in found if one.builder is Builder.CUSTOM]
    if programs and not building.run_programs:
        raise CatalogError(
            f"the contribution would run programs: {'; '.join(programs)}",
            hint=Hint("review them, then pass {}", Setting.ALLOW_PROGRAMS),
        )
    for component in found:
        try:
            _build(component, building)
        except InvalidCatalog as error:
            first, *others = error.lines
            told = f"component {component.name!r}: {first}"
            raise InvalidCatalog(told, details=others, advice=error.advice) from error


def _build(component: Component, building: BuildOptions) -> None:
    blobs = _blobs(component, building)
    with disk_errors(component.output):
        component.output.parent.mkdir(parents=True, exist_ok=True)
        put_files(component.output.parent, {component.output.name: building.write(sort_blobs(blobs))})
    if building.validate:
        raise_findings(check_blobs(read_blobs(component.directory)))


def _blobs(component: Component, building: BuildOptions) -> Blobs:
    if component.builder is Builder.CUSTOM:
        return parse_blobs(_printed(component), component.source[0])
    path = Path(component.source[0])
    if component.builder is Builder.RAW:
        with disk_errors(path):
            return parse_blobs(path.read_bytes(), str(path))
    kind = TemplateType.BASIC if component.builder is Builder.BASIC else TemplateType.SEMVER
    return render_template(TemplateFile.open(path), kind, building.render, level=building.level, compat=building.compat)


def _printed(component: Component) -> bytes:
    """What the program of a component prints."""
    told = " ".join(component.source)
    try:
        done = subprocess.run(
            component.source, cwd=component.root, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise CatalogError(f"{told}: {error}", advice="Install the program, or correct the command.") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-2000:]
        raise CatalogError(
            f"{told} failed with status {done.returncode}: {said}", advice="Run it by hand to see what is wrong."
        )
    return done.stdout
