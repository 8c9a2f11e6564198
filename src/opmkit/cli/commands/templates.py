"""``opm alpha render-template`` and ``opm alpha convert-template``: render and create catalog templates."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.bundle_rendering import image_renderer
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import print_bytes
from opmkit.cli.output.errors import UsageError, print_warning
from opmkit.cli.output.fbc import (
    CatalogFormat,
    CatalogOutput,
    CompatOption,
    MigrateLevel,
    blob_encoder,
    encode_mermaid,
    parse_level,
    print_blobs,
)
from opmkit.cli.parser.go_commands import given_flags
from opmkit.cli.progress.command import waiting
from opmkit.index.fbc.compat import CatalogCompat

if TYPE_CHECKING:
    from opmkit.index.fbc.blobs import OtherBlob
    from opmkit.index.fbc.migrate import MigrationLevel
    from opmkit.index.templates.document import TemplateFile
    from opmkit.index.templates.render import TemplateType

STDIN = "-"
COMPOSITE = "composite"
COMPOSITE_PANEL = "Composite templates"


class TemplateFormat(StrEnum):
    """Output formats of a rendered template: JSON, YAML, or mermaid text for its graph."""

    JSON = "json"
    YAML = "yaml"
    MERMAID = "mermaid"


@dataclass(frozen=True, slots=True)
class CompositeFlags:
    """Flags of composite templates."""

    catalog_config: Annotated[
        str,
        typer.Option(
            "--catalog-config",
            "-f",
            metavar="FILE|URL",
            help="File or URL with the catalogs and their builders",
            rich_help_panel=COMPOSITE_PANEL,
        ),
    ] = "catalogs.yaml"
    composite_config: Annotated[
        str,
        typer.Option(
            "--composite-config",
            "-c",
            metavar="FILE",
            help="File with the contribution to each catalog",
            rich_help_panel=COMPOSITE_PANEL,
        ),
    ] = "catalog/config.yaml"
    validate: Annotated[
        bool,
        typer.Option("--validate/--no-validate", help="Validate the built catalogs", rich_help_panel=COMPOSITE_PANEL),
    ] = True
    allow_programs: Annotated[
        bool,
        typer.Option("--allow-programs", help="Run the programs of custom builders", rich_help_panel=COMPOSITE_PANEL),
    ] = False


_COMPOSITE_ONLY_FLAGS = frozenset({"catalog-config", "composite-config", "validate", "allow-programs"})


def render_template(
    ctx: typer.Context,
    *,
    kind: Annotated[
        str,
        typer.Argument(metavar="[TYPE]", help="basic, semver, substitutes or composite; default: from the schema"),
    ] = "",
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="Template; default or -: standard input")] = "",
    output: Annotated[
        TemplateFormat, typer.Option("--output", "-o", help="Output format: json, yaml or mermaid")
    ] = TemplateFormat.JSON,
    migrate_level: MigrateLevel = "",
    compat: CompatOption = CatalogCompat.NEWEST,
    composite_flags: CompositeFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Render a template to a file-based catalog

    The type composite, from older releases, reads its templates from --composite-config and writes files.

    [bold]Examples:[/]

      opm alpha render-template semver semver.yaml > catalog/lagoon-operator/catalog.json

      opm alpha render-template lagoon.yaml -o mermaid
    """
    from opmkit.index.pictures.mermaid import render_mermaid
    from opmkit.index.templates.render import render_template as render_file
    from opmkit.index.templates.render import template_type

    level = parse_level(migrate_level, compat)
    if kind == COMPOSITE and not file:
        _build_composite(composite_flags, output, level, compat, registry_flags)
        return
    if unused := sorted(given_flags(ctx) & _COMPOSITE_ONLY_FLAGS):
        raise UsageError(f"--{unused[0]} requires the type composite", ctx.command_path)
    named, file = _split_arguments(kind, file)
    template = _read(file)
    renderer = image_renderer(registry_flags, compat)
    with waiting("Rendering the template"):
        blobs = render_file(template, named or template_type(template), renderer, level=level, compat=compat)
    if output is TemplateFormat.MERMAID:
        print_bytes([encode_mermaid(render_mermaid(blobs, compat=compat, v0_semantics=True))])
    else:
        print_blobs(blobs, CatalogFormat(output))


def _split_arguments(first: str, second: str) -> tuple[TemplateType | None, str]:
    """Return the type and the file; a first argument that is not a type is the file."""
    from opmkit.index.templates.render import TemplateType

    if first in list(TemplateType):
        return TemplateType(first), second
    if second:
        raise UsageError(
            f'invalid template type "{first}", must be one of: {", ".join(TemplateType)}', "opm alpha render-template"
        )
    return None, first


def _read(name: str, *, allow_duplicates: bool = False) -> TemplateFile:
    from opmkit.index.templates.document import TemplateFile

    if name in ("", STDIN):
        return TemplateFile.read(sys.stdin.buffer, "standard input", allow_duplicates=allow_duplicates)
    return TemplateFile.open(Path(name), allow_duplicates=allow_duplicates)


def _build_composite(
    composite_flags: CompositeFlags,
    output: TemplateFormat,
    level: MigrationLevel,
    compat: CatalogCompat,
    registry_flags: RegistryFlags,
) -> None:
    """Build the catalogs of a composite template."""
    from opmkit.index.templates.composite import BuildOptions, build_components, parse_components

    if output is TemplateFormat.MERMAID:
        raise UsageError("--output mermaid: unsupported for composite templates", "opm alpha render-template")
    catalogs = _fetch(composite_flags.catalog_config, registry_flags)
    components = parse_components(catalogs, _read(composite_flags.composite_config), compat)
    options = BuildOptions(
        image_renderer(registry_flags, compat),
        blob_encoder(CatalogFormat(output)),
        compat,
        level,
        validate=composite_flags.validate,
        run_programs=composite_flags.allow_programs,
    )
    with waiting("Building the catalogs"):
        build_components(components, options)


def _fetch(location: str, registry_flags: RegistryFlags) -> TemplateFile:
    """Load the template at a path or URL."""
    if not location.startswith(("http://", "https://")):
        return _read(location)
    import io

    from opmkit.imagetools.registry.download import download
    from opmkit.index.templates.document import MAX_TEMPLATE, TemplateFile

    with waiting(f"Downloading {location}"):
        raw = download(location, MAX_TEMPLATE, registry_flags.options())
    return TemplateFile.read(io.BytesIO(raw), location)


CatalogFile = Annotated[str, typer.Argument(metavar="[FILE]", help="File of a catalog; default or -: standard input")]


def convert_basic(file: CatalogFile = "", output: CatalogOutput = CatalogFormat.JSON) -> None:
    """Create a basic template from a catalog, with the images of its bundles

    [bold]Example:[/] opm alpha convert-template basic catalog.yaml -o yaml > template.yaml
    """
    from opmkit.index.templates.basic import to_basic

    _print_template(to_basic(_read_catalog(file)), output)


def convert_substitutes(file: CatalogFile = "", output: CatalogOutput = CatalogFormat.JSON) -> None:
    """Create a substitutes template without substitutions from a catalog

    [bold]Example:[/] opm alpha convert-template substitutes catalog.yaml -o yaml > template.yaml
    """
    from opmkit.index.templates.substitutes import to_substitutes

    _print_template(to_substitutes(_read_catalog(file)), output)


def _read_catalog(name: str) -> TemplateFile:
    """Load the file of a catalog, which may repeat keys; print warnings about them."""
    file = _read(name, allow_duplicates=True)
    for finding in file.warnings:
        print_warning(f"{finding}: only the last value counts")
    return file


def _print_template(template: OtherBlob, output: CatalogFormat) -> None:
    """Print a template as Go opm does: as JSON with escaped HTML characters, or as YAML with a trailing empty line."""
    text = blob_encoder(output)([template])
    if output is CatalogFormat.YAML:
        text += b"\n"
    else:
        for character in "<>&":
            text = text.replace(character.encode(), f"\\u{ord(character):04x}".encode())
    print_bytes([text])
