"""``opm alpha render-template`` and ``opm alpha convert-template``: render and create catalog templates."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from opmkit import CatalogCompat
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import print_bytes
from opmkit.cli.output.errors import UsageError, announce_standard_input, print_warning
from opmkit.cli.output.fbc import (
    CatalogFormat,
    CatalogOutput,
    CompatOption,
    MigrateLevel,
    blob_encoder,
    parse_level,
    print_blobs,
    print_drawing,
)
from opmkit.cli.parser.declaration import argument, flag
from opmkit.cli.parser.go_commands import given_flags
from opmkit.cli.progress.command import progress

if TYPE_CHECKING:
    from typing import BinaryIO

    from opmkit import MigrationLevel, Opm, TemplateType

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

    panel: ClassVar[str] = COMPOSITE_PANEL

    catalog_config: str = flag(
        "catalogs.yaml", "File or URL with the catalogs and their builders", "-f", metavar="FILE|URL"
    )
    composite_config: str = flag(
        "catalog/config.yaml", "File with the contribution to each catalog", "-c", metavar="FILE"
    )
    validate: bool = flag(True, "Validate the built catalogs", "--validate/--no-validate")
    allow_programs: bool = flag(False, "Run the programs of custom builders")


_COMPOSITE_ONLY_FLAGS = frozenset({"catalog-config", "composite-config", "validate", "allow-programs"})


def render_template(
    ctx: typer.Context,
    *,
    kind: str = argument("", "basic, semver, substitutes or composite; default: from the schema", metavar="[TYPE]"),
    file: str = argument("", "Template; default or -: standard input", metavar="[FILE]"),
    output: TemplateFormat = flag(TemplateFormat.JSON, "Output format: json, yaml or mermaid", "-o"),
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
    from opmkit import RenderOptions

    level = parse_level(migrate_level, compat)
    if kind == COMPOSITE and not file:
        _build_composite(registry_flags.opm(), composite_flags, output, level, compat)
        return
    if unused := sorted(given_flags(ctx) & _COMPOSITE_ONLY_FLAGS):
        raise UsageError(f"--{unused[0]} requires the type composite", ctx.command_path)
    named, file = _split_arguments(kind, file)
    opm, options = registry_flags.opm(), RenderOptions(level=level, compat=compat, warn=print_warning)
    source = _source(file)
    with progress("Rendering the template") as bars:
        blobs = opm.render_template(source, named, options, progress=bars)
    if output is TemplateFormat.MERMAID:
        print_drawing(opm.draw_mermaid(blobs, compat=compat, v0_semantics=True))
    else:
        print_blobs(blobs, CatalogFormat(output))


def _split_arguments(first: str, second: str) -> tuple[TemplateType | None, str]:
    """Return the type and the file; a first argument that is not a type is the file."""
    from opmkit import TemplateType

    if first in list(TemplateType):
        return TemplateType(first), second
    if second:
        raise UsageError(
            f'invalid template type "{first}", must be one of: {", ".join(TemplateType)}', "opm alpha render-template"
        )
    return None, first


def _source(name: str) -> Path | BinaryIO:
    """Return the file of an argument, or standard input."""
    if name not in ("", STDIN):
        return Path(name)
    announce_standard_input()
    return sys.stdin.buffer


def _build_composite(
    opm: Opm, flags: CompositeFlags, output: TemplateFormat, level: MigrationLevel, compat: CatalogCompat
) -> None:
    """Build the catalogs of a composite template."""
    from opmkit import CompositeOptions

    if output is TemplateFormat.MERMAID:
        raise UsageError("--output mermaid: unsupported for composite templates", "opm alpha render-template")
    is_url = flags.catalog_config.startswith(("http://", "https://"))
    catalogs = flags.catalog_config if is_url else _source(flags.catalog_config)
    options = CompositeOptions(output, level, compat, flags.validate, flags.allow_programs, print_warning)
    contributions = _source(flags.composite_config)
    with progress("Building the catalogs") as bars:
        opm.build_composite(catalogs, contributions, options, progress=bars)


CatalogFile = Annotated[str, typer.Argument(metavar="[FILE]", help="File of a catalog; default or -: standard input")]


def convert_basic(file: CatalogFile = "", output: CatalogOutput = CatalogFormat.JSON) -> None:
    """Create a basic template from a catalog, with the images of its bundles

    [bold]Example:[/] opm alpha convert-template basic catalog.yaml -o yaml > template.yaml
    """
    from opmkit import TemplateType

    _convert(file, TemplateType.BASIC, output)


def convert_substitutes(file: CatalogFile = "", output: CatalogOutput = CatalogFormat.JSON) -> None:
    """Create a substitutes template without substitutions from a catalog

    [bold]Example:[/] opm alpha convert-template substitutes catalog.yaml -o yaml > template.yaml
    """
    from opmkit import TemplateType

    _convert(file, TemplateType.SUBSTITUTES, output)


def _convert(file: str, kind: TemplateType, output: CatalogFormat) -> None:
    """Print a template as Go opm does: as JSON with escaped HTML characters, or as YAML with a trailing empty line."""
    from opmkit import Opm

    text = blob_encoder(output)(Opm().convert_to_template(_source(file), kind, warn=print_warning))
    if output is CatalogFormat.YAML:
        text += b"\n"
    else:
        for character in "<>&":
            text = text.replace(character.encode(), f"\\u{ord(character):04x}".encode())
    print_bytes([text])
