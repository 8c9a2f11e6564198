"""The forms in which catalogs are printed and written, and how far their bundles are migrated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.console import print_bytes
from opmkit.cli.errors import UsageProblem, print_warning
from opmkit.index.fbc.compat import Compat

if TYPE_CHECKING:
    from opmkit.bundle.cache import ResultCache
    from opmkit.index.drawing.mermaid import MermaidGraph
    from opmkit.index.fbc.blobs import Blob, Blobs
    from opmkit.index.fbc.migrate import MigrationLevel


class CatalogFormat(StrEnum):
    """The forms of a catalog."""

    JSON = "json"
    YAML = "yaml"


CompatOption = Annotated[
    Compat, typer.Option(metavar="VERSION", help="Do as a release of the reference does: newest or opm-1.26.")
]
"""The flag of commands whose results differ from release to release."""
CatalogOutput = Annotated[CatalogFormat, typer.Option("--output", "-o", help="Form of the result: json or yaml.")]
MigrateLevel = Annotated[
    str,
    typer.Option(
        "--migrate-level",
        metavar="LEVEL",
        help="How far to migrate bundles: none, bundle-object-to-csv-metadata (the metadata of the "
        "ClusterServiceVersion in place of all objects), or all. Default: none.",
    ),
]


def level_named(name: str) -> MigrationLevel:
    """The level of that name, no migration for ""; raises UsageProblem."""
    from opmkit.index.fbc.migrate import MigrationLevel

    if name not in [*MigrationLevel, ""]:
        raise UsageProblem(f'unknown level "{name}" of --migrate-level: one of {", ".join(MigrationLevel)}')
    return MigrationLevel(name or MigrationLevel.NONE)


def writer(form: CatalogFormat) -> Callable[[Iterable[Blob]], bytes]:
    """The function that writes blobs in a form."""
    from opmkit.index.fbc.write import to_json, to_yaml

    return to_json if form is CatalogFormat.JSON else to_yaml


def print_blobs(blobs: Blobs, form: CatalogFormat) -> None:
    """Print the blobs of a catalog in the order in which catalogs are written, one after the other."""
    from opmkit.index.fbc.write import sort_blobs

    write = writer(form)
    print_bytes(write([blob]) for blob in sort_blobs(blobs))


def told(drawn: MermaidGraph) -> bytes:
    """The text of a graph in mermaid; what could not be drawn is told as warnings."""
    for warning in drawn.warnings:
        print_warning(warning)
    return drawn.text.encode()


def render_cache() -> ResultCache:
    """Return the cache of rendered bundle images."""
    from opmkit.imagetools.store import ImageStore
    from opmkit.index.render import open_render_cache

    return open_render_cache(ImageStore.open().cache_directory("bundles"))
