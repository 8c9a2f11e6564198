"""``opm alpha render-template`` and ``opm alpha convert-template``: catalogs from templates, and the way back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.catalogformats import (
    CatalogFormat,
    CatalogOutput,
    Compat,
    MigrateLevel,
    level_named,
    print_blobs,
    writer,
)
from opmkit.cli.console import progress
from opmkit.cli.errors import UsageProblem, print_warning
from opmkit.cli.params import Connection, made_once
from opmkit.cli.tree import group
from opmkit.index.catalog.dialect import Dialect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.catalog.blobs import Blobs, BundleBlob, OtherBlob
    from opmkit.index.catalog.templates.document import TemplateFile

STDIN = "-"
MAX_TEMPLATE = 1 << 28
"""Bytes that a template may have."""


class TemplateFormat(StrEnum):
    """The forms of a catalog made from a template: JSON, YAML, or mermaid text for its graph."""

    JSON = "json"
    YAML = "yaml"
    MERMAID = "mermaid"


def render_template(
    ctx: typer.Context,
    *,
    kind: Annotated[
        str, typer.Argument(metavar="[TYPE]", help="basic, semver, substitutes; default: what its schema says.")
    ] = "",
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="The template; default, or -: standard input.")] = "",
    output: Annotated[
        TemplateFormat, typer.Option("--output", "-o", help="Form of the result: json, yaml or mermaid.")
    ] = TemplateFormat.JSON,
    migrate_level: MigrateLevel = "",
    compat: Compat = Dialect.NEWEST,
    connection: Connection,
) -> None:
    """Render a template to a file-based catalog.

    [bold]Examples:[/]

      opm alpha render-template semver lagoon.yaml > catalog/lagoon/catalog.json

      opm alpha render-template lagoon.yaml -o mermaid
    """
    from opmkit.index.catalog.templates.kinds import Kind, kind_of
    from opmkit.index.catalog.templates.kinds import render_template as rendered

    if kind not in [*Kind, ""]:
        if file:
            raise UsageProblem(f'invalid template type "{kind}", must be one of: {", ".join(Kind)}', ctx.command_path)
        kind, file = "", kind
    level = level_named(migrate_level)
    template = _read(file)
    blobs = rendered(
        template,
        Kind(kind) if kind else kind_of(template),
        _renderer(connection),
        level=level,
        dialect=compat,
    )
    if output is TemplateFormat.MERMAID:
        _print_mermaid(blobs, compat)
    else:
        print_blobs(blobs, CatalogFormat(output))


def _read(name: str) -> TemplateFile:
    from opmkit.index.catalog.templates.document import TemplateFile
    from opmkit.index.errors import CatalogError

    if name in ("", STDIN):
        name, raw = "standard input", sys.stdin.buffer.read(MAX_TEMPLATE + 1)
    else:
        with Path(name).open("rb") as opened:
            raw = opened.read(MAX_TEMPLATE + 1)
    if len(raw) > MAX_TEMPLATE:
        raise CatalogError(f"{name} has more than {MAX_TEMPLATE} bytes", advice="Split it, by package.")
    return TemplateFile.read(raw, name)


def _renderer(connection: Connection) -> Callable[[Sequence[str]], dict[str, BundleBlob]]:
    """Renders bundle images side by side; no others, for templates may come from elsewhere."""
    from opmkit.imagetools.store import ImageStore
    from opmkit.index.catalog.open import Kind
    from opmkit.index.catalog.render import Rendering, kept_bundles, rendered

    def render(images: Sequence[str]) -> dict[str, BundleBlob]:
        kept = kept_bundles(ImageStore.open().results("bundles"))
        rendering = Rendering(kinds=frozenset({Kind.BUNDLE_IMAGE}), kept=kept)
        with progress() as bars:
            each = rendered(made_once(connection.tool), images, rendering, progress=bars)
            return {image: blobs.bundles[0] for image, blobs in zip(images, each, strict=True)}

    return render


def _print_mermaid(blobs: Blobs, dialect: Dialect) -> None:
    from opmkit.index.catalog.drawing.mermaid import mermaid

    drawn = mermaid(blobs, dialect=dialect, v0_semantics=True)
    for warning in drawn.warnings:
        print_warning(warning)
    sys.stdout.write(drawn.text)


Fbc = Annotated[str, typer.Argument(metavar="[FILE]", help="A file of a catalog; default, or -: standard input.")]


def convert_basic(file: Fbc = "", output: CatalogOutput = CatalogFormat.JSON) -> None:
    """Make a basic template of a catalog: its bundles are named by their images alone.

    [bold]Example:[/] opm alpha convert-template basic catalog.yaml -o yaml > template.yaml
    """
    from opmkit.index.catalog.templates.basic import to_basic

    _print_template(to_basic(_read(file)), output)


def convert_substitutes(file: Fbc = "", output: CatalogOutput = CatalogFormat.JSON) -> None:
    """Make a substitutes template of a catalog, to which substitutions are to be added.

    [bold]Example:[/] opm alpha convert-template substitutes catalog.yaml -o yaml > template.yaml
    """
    from opmkit.index.catalog.templates.substitutes import to_substitutes

    _print_template(to_substitutes(_read(file)), output)


def _print_template(template: OtherBlob, output: CatalogFormat) -> None:
    """Print a template as the reference does: with signs of HTML escaped, or with an empty line behind it."""
    text = writer(output)([template])
    if output is CatalogFormat.YAML:
        text += b"\n"
    else:
        for sign in "<>&":
            text = text.replace(sign.encode(), f"\\u{ord(sign):04x}".encode())
    sys.stdout.flush()
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


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
