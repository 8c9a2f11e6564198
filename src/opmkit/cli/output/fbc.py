"""Output of file-based catalogs, and the flags for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opmkit.cli.help.panels import COMPATIBILITY_PANEL
from opmkit.cli.output.console import print_bytes
from opmkit.cli.output.errors import UsageError, print_to_stderr, print_warnings
from opmkit.cli.progress.command import waiting
from opmkit.cli.version import COMPAT_DEFAULT_VARIABLE
from opmkit.core.escape import escape_json
from opmkit.core.files import write_file
from opmkit.index.fbc.compat import CatalogCompat, ReleaseChange

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit import Blobs, Drawing, MigrationLevel
    from opmkit.bundle.validation.openshift import OpenShiftVersion


class CatalogFormat(StrEnum):
    """Output formats of a catalog."""

    JSON = "json"
    YAML = "yaml"


COMPAT_HELP = "Release of Go opm whose results to match, including its defects: newest, or a version such as 1.26"


def parse_compat(value: str | CatalogCompat) -> CatalogCompat:
    """Return the release of a flag's value or default."""
    return CatalogCompat.parse(str(value))


CompatOption = Annotated[
    CatalogCompat,
    typer.Option(
        metavar="VERSION",
        help=COMPAT_HELP,
        parser=parse_compat,
        envvar=COMPAT_DEFAULT_VARIABLE,
        rich_help_panel=COMPATIBILITY_PANEL,
    ),
]
CatalogOutput = Annotated[CatalogFormat, typer.Option("--output", "-o", help="Output format: json or yaml")]
MigrateLevel = Annotated[
    str,
    typer.Option(
        "--migrate-level",
        metavar="LEVEL",
        help="Migration of bundles: none (default), bundle-object-to-csv-metadata (replace all objects by the metadata "
        "of the ClusterServiceVersion) or all",
    ),
]


def parse_level(name: str, compat: CatalogCompat = CatalogCompat.NEWEST) -> MigrationLevel:
    """Return the migration level of a name, NONE if it is empty.

    Raises:
        UsageError: The level is unknown, or the release to match has no levels.
    """
    from opmkit import MigrationLevel

    if name and not compat.has(ReleaseChange.BUNDLE_OBJECTS):
        raise unsupported_flag("--migrate-level", compat, _migration_hint(compat))
    if name not in [*MigrationLevel, ""]:
        raise UsageError(f'unknown level "{name}" of --migrate-level: one of {", ".join(MigrationLevel)}')
    return MigrationLevel(name or MigrationLevel.NONE)


def parse_openshift_version(text: str, command: str) -> OpenShiftVersion:
    """Return the version in ``--openshift-version`` of a command; raises UsageError."""
    from opmkit.bundle.validation.openshift import OpenShiftVersion

    try:
        return OpenShiftVersion.parse(text)
    except ValueError as error:
        raise UsageError(f"invalid value of --openshift-version: {error}", command) from error


def _migration_hint(compat: CatalogCompat) -> str:
    """Return how to get migrated bundles with a release that has no levels."""
    if compat.has(ReleaseChange.CSV_METADATA):  # as with the level bundle-object-to-csv-metadata
        return f"omit --migrate-level: {compat} always replaces the objects of bundle images by olm.csv.metadata"
    return "omit one of the two flags, or use --compat 1.46 or newer"


def unsupported_flag(flag: str, compat: CatalogCompat, hint: str = "omit one of the two flags") -> UsageError:
    """Return the error for a flag that contradicts the release to match."""
    return UsageError(f"{flag}: unsupported with --compat {compat}", hint=hint)


def check_migrate_flag(compat: CatalogCompat) -> None:
    """Raise UsageError if the release to match has no ``--migrate``."""
    if not compat.has(ReleaseChange.MIGRATE):
        raise unsupported_flag("--migrate", compat)


def blob_encoder(output_format: CatalogFormat) -> Callable[[Iterable[Any]], bytes]:
    """Return the function that encodes blobs in a format for an output."""
    from opmkit import to_json, to_yaml

    return to_yaml if output_format is CatalogFormat.YAML else lambda blobs: escape_json(to_json(blobs))


def print_blobs(blobs: Blobs, output_format: CatalogFormat) -> None:
    """Print the blobs of a catalog in the order of catalog files."""
    from opmkit import sort_blobs

    encode = blob_encoder(output_format)
    with nullcontext() if sys.stdout.isatty() else waiting("Writing the catalog"):
        print_bytes(encode([blob]) for blob in sort_blobs(blobs))


_NOT_FOR_TERMINALS = frozenset({"html", "svg"})


def refuse_terminal(form: str, command: str, hint: str) -> None:
    """Raise UsageError if stdout is a terminal and the format ``form`` is not for people."""
    if form in _NOT_FOR_TERMINALS and sys.stdout.isatty():
        raise UsageError(f"refusing to print {form.upper()} on a terminal", command, hint=hint)


def print_drawing(drawing: Drawing, file: Path | None = None) -> None:
    """Print a drawing, or write it to a file, and a warning for each part that it cannot show."""
    print_warnings(drawing.warnings)
    if file is None:
        print_bytes([drawing.text.encode()])
    else:
        write_file(file, drawing.text)
        print_to_stderr(f"{file}: written")
