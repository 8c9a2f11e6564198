"""Output of ``opm catalog``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.cli.output.console import ValueFormat, print_line, print_table, print_value
from opmkit.core.escape import escape_controls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit import BundleUpdates, RemoteBundle, RemotePackage

_MAX_VALUE_LENGTH = 200
"""Characters shown of a property or dependency."""


def print_updates(rows: Sequence[BundleUpdates], output: ValueFormat) -> None:
    """Print bundles with the bundles that they replace."""
    if output is not ValueFormat.TEXT:
        print_value(rows, output)
        return
    cells = [(row.package, row.channel, row.bundle, ",".join(row.replaces)) for row in rows]
    print_table(("PACKAGE", "CHANNEL", "BUNDLE", "REPLACES"), cells)


def print_bundles(bundles: Sequence[RemoteBundle], output: ValueFormat) -> None:
    """Print bundles with their update edges and images."""
    if output is not ValueFormat.TEXT:
        print_value([bundle.to_dict() for bundle in bundles], output)
        return
    header = ("PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE")
    rows = [
        (
            bundle.package,
            bundle.channel,
            bundle.name,
            bundle.replaces,
            ",".join(bundle.skips),
            bundle.skip_range,
            bundle.image,
        )
        for bundle in bundles
    ]
    print_table(header, rows, optional=("IMAGE", "SKIP RANGE", "SKIPS", "PACKAGE"))


def print_bundle(bundle: RemoteBundle, output: ValueFormat) -> None:
    """Print a bundle with all of its fields."""
    values = bundle.to_dict()
    if output is not ValueFormat.TEXT:
        print_value(values, output)
        return
    _print_fields(
        [
            ("Name", bundle.name),
            ("Package", bundle.package),
            ("Channel", bundle.channel),
            ("Version", bundle.version),
            ("Image", bundle.image),
            ("Skip range", bundle.skip_range),
            *(("Provides", str(api)) for api in bundle.provided_apis),
            *(("Requires", str(api)) for api in bundle.required_apis),
            *(("Depends on", f"{dependency.type}: {dependency.value}") for dependency in bundle.dependencies),
            *(("Properties", f"{entry.type}: {entry.value}") for entry in bundle.properties),
            *(("Manifests", _format_manifest(value)) for value in values["objects"]),
            ("Deprecated", bundle.deprecation.message if bundle.deprecation else ""),
        ]
    )


def print_package(package: RemotePackage, output: ValueFormat) -> None:
    """Print a package and its channels."""
    if output is not ValueFormat.TEXT:
        print_value(package, output)
        return
    _print_fields(
        [
            ("Name", package.name),
            ("Default channel", package.default_channel),
            ("Deprecated", package.deprecation.message if package.deprecation else ""),
        ]
    )
    print_line()
    print_table(("CHANNEL", "HEAD"), [(channel.name, channel.head) for channel in package.channels])


def _print_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Print fields that are not empty, one per line; a repeated key is printed once."""
    shown = [(key, _truncate(escape_controls(value))) for key, value in fields if value]
    width = max(len(key) for key, _ in shown) + 3
    for number, (key, value) in enumerate(shown):
        repeats = number > 0 and shown[number - 1][0] == key
        print_line(f"{'' if repeats else f'{key}:':<{width}}{value}")


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 1]}…"


def _format_manifest(manifest: Any) -> str:
    """Return kind and name of a manifest."""
    if not isinstance(manifest, dict):
        return "?"
    metadata = manifest.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return f"{manifest.get('kind', '?')} {name}".rstrip()
