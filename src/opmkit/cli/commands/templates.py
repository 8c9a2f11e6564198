"""``opm alpha render-template`` and ``opm alpha convert-template``: catalogs from templates, and the way back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.console import print_bytes, progress
from opmkit.cli.errors import UsageProblem, print_warning
from opmkit.cli.fbc_output import (
    CatalogFormat,
    CatalogOutput,
    CompatOption,
    MigrateLevel,
    level_named,
    print_blobs,
    render_cache,
    told,
    writer,
)
from opmkit.cli.go_commands import given_flags
from opmkit.cli.registration import group
from opmkit.cli.registry_flags import Connection, made_once
from opmkit.index.fbc.compat import Compat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.fbc.blobs import BundleBlob, OtherBlob
    from opmkit.index.fbc.migrate import MigrationLevel
    from opmkit.index.fbc.templates.document import TemplateFile
    from opmkit.index.fbc.templates.render import TemplateType

STDIN = "-"
COMPOSITE = "composite"
COMPOSITE_PANEL = "Composite templates"


class TemplateFormat(StrEnum):
    """The forms of a catalog made from a template: JSON, YAML, or mermaid text for its graph."""

    JSON = "json"
    YAML = "yaml"
    MERMAID = "mermaid"


@dataclass(frozen=True, slots=True)
class Composite:
    """What a composite template is made of, and what it may do."""

    catalog_config: Annotated[
        str,
        typer.Option(
            "--catalog-config",
            "-f",
            metavar="FILE|URL",
            help="Where catalogs go, and their builders.",
            rich_help_panel=COMPOSITE_PANEL,
        ),
    ] = "catalogs.yaml"
    composite_config: Annotated[
        str,
        typer.Option(
            "--composite-config",
            "-c",
            metavar="FILE",
            help="What is contributed to each catalog.",
            rich_help_panel=COMPOSITE_PANEL,
        ),
    ] = "catalog/config.yaml"
    validate: Annotated[
        bool, typer.Option("--validate/--no-validate", help="Validate what was built.", rich_help_panel=COMPOSITE_PANEL)
    ] = True
    allow_programs: Annotated[
        bool,
        typer.Option("--allow-programs", help="Run the programs of custom builders.", rich_help_panel=COMPOSITE_PANEL),
    ] = False


_ONLY_COMPOSITE = frozenset({"catalog-config", "composite-config", "validate", "allow-programs"})


def render_template(
    ctx: typer.Context,
    *,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="[TYPE]", help="basic, semver, substitutes or composite; default: what its schema says."
        ),
    ] = "",
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="The template; default, or -: standard input.")] = "",
    output: Annotated[
        TemplateFormat, typer.Option("--output", "-o", help="Form of the result: json, yaml or mermaid.")
    ] = TemplateFormat.JSON,
    migrate_level: MigrateLevel = "",
    compat: CompatOption = Compat.NEWEST,
    composite: Composite,
    connection: Connection,
) -> None:
    """Render a template to a file-based catalog.

    The type composite, of older releases, takes its templates from --composite-config and writes files.

    [bold]Examples:[/]

      opm alpha render-template semver lagoon.yaml > catalog/lagoon/catalog.json

      opm alpha render-template lagoon.yaml -o mermaid
    """
    from opmkit.index.drawing.mermaid import render_mermaid
    from opmkit.index.fbc.templates.render import render_template as rendered
    from opmkit.index.fbc.templates.render import template_type

    level = level_named(migrate_level)
    if kind == COMPOSITE and not file:
        _build(composite, output, level, compat, connection)
        return
    if idle := sorted(given_flags(ctx) & _ONLY_COMPOSITE):
        raise UsageProblem(f"--{idle[0]} is for the type composite only", ctx.command_path)
    named, file = _named(kind, file)
    template = _read(file)
    blobs = rendered(template, named or template_type(template), _renderer(connection), level=level, compat=compat)
    if output is TemplateFormat.MERMAID:
        print_bytes([told(render_mermaid(blobs, compat=compat, v0_semantics=True))])
    else:
        print_blobs(blobs, CatalogFormat(output))


def _named(first: str, second: str) -> tuple[TemplateType | None, str]:
    """The type and the file that the arguments name; a first one that is no type is the file."""
    from opmkit.index.fbc.templates.render import TemplateType

    if first in list(TemplateType):
        return TemplateType(first), second
    if second:
        raise UsageProblem(
            f'invalid template type "{first}", must be one of: {", ".join(TemplateType)}', "opm alpha render-template"
        )
    return None, first


def _read(name: str) -> TemplateFile:
    from opmkit.index.fbc.templates.document import TemplateFile

    if name in ("", STDIN):
        return TemplateFile.read(sys.stdin.buffer, "standard input")
    return TemplateFile.open(Path(name))


def _build(
    composite: Composite, output: TemplateFormat, level: MigrationLevel, compat: Compat, connection: Connection
) -> None:
    """Build the catalogs of a composite template."""
    from opmkit.index.fbc.templates.composite import BuildOptions, build_components, parse_components

    if output is TemplateFormat.MERMAID:
        raise UsageProblem("a composite template is written to files, as json or yaml", "opm alpha render-template")
    catalogs = _fetched(composite.catalog_config, connection)
    found = parse_components(catalogs, _read(composite.composite_config), compat)
    options = BuildOptions(
        _renderer(connection),
        writer(CatalogFormat(output)),
        compat,
        level,
        validate=composite.validate,
        run_programs=composite.allow_programs,
    )
    build_components(found, options)


def _fetched(place: str, connection: Connection) -> TemplateFile:
    """The template at a path or an URL."""
    if not place.startswith(("http://", "https://")):
        return _read(place)
    import io

    import requests

    from opmkit.index.errors import CatalogError
    from opmkit.index.fbc.templates.document import MAX_TEMPLATE, TemplateFile

    options = connection.options()
    trusted = str(options.ca_file) if options.ca_file else options.verify_tls
    try:
        with requests.get(place, timeout=30, stream=True, verify=trusted) as answer:
            answer.raise_for_status()
            raw = answer.raw.read(MAX_TEMPLATE + 1, decode_content=True)
    except (requests.RequestException, OSError) as error:
        raise CatalogError(f"{place} can't be fetched: {error}", hint="Check the URL, or name a file.") from error
    return TemplateFile.read(io.BytesIO(raw), place)


def _renderer(connection: Connection) -> Callable[[Sequence[str]], dict[str, BundleBlob]]:
    """Renders bundle images side by side; no others, for templates may come from elsewhere."""
    from opmkit.index.image.source import SourceKind
    from opmkit.index.render import RenderOptions, render_each

    def render(images: Sequence[str]) -> dict[str, BundleBlob]:
        rendering = RenderOptions(kinds=frozenset({SourceKind.BUNDLE_IMAGE}), cache=render_cache(), warn=print_warning)
        with progress() as bars:
            each = render_each(made_once(connection.tool), images, rendering, progress=bars)
            return {image: blobs.bundles[0] for image, blobs in zip(images, each, strict=True)}

    return render


Fbc = Annotated[str, typer.Argument(metavar="[FILE]", help="A file of a catalog; default, or -: standard input.")]


def convert_basic(file: Fbc = "", output: CatalogOutput = CatalogFormat.JSON) -> None:
    """Make a basic template of a catalog: its bundles are named by their images alone.

    [bold]Example:[/] opm alpha convert-template basic catalog.yaml -o yaml > template.yaml
    """
    from opmkit.index.fbc.templates.basic import to_basic

    _print_template(to_basic(_read(file)), output)


def convert_substitutes(file: Fbc = "", output: CatalogOutput = CatalogFormat.JSON) -> None:
    """Make a substitutes template of a catalog, to which substitutions are to be added.

    [bold]Example:[/] opm alpha convert-template substitutes catalog.yaml -o yaml > template.yaml
    """
    from opmkit.index.fbc.templates.substitutes import to_substitutes

    _print_template(to_substitutes(_read(file)), output)


def _print_template(template: OtherBlob, output: CatalogFormat) -> None:
    """Print a template as the reference does: with signs of HTML escaped, or with an empty line behind it."""
    text = writer(output)([template])
    if output is CatalogFormat.YAML:
        text += b"\n"
    else:
        for sign in "<>&":
            text = text.replace(sign.encode(), f"\\u{ord(sign):04x}".encode())
    print_bytes([text])


ALPHA = (
    ("render-template", render_template),
    (
        "convert-template",
        group(
            "convert-template",
            "Make templates of catalogs.",
            (("basic", convert_basic), ("substitutes", convert_substitutes)),
        ),
    ),
)
