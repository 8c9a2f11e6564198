"""Release configurations of operator repositories: the templates that list a new bundle, and its channels and edges.

The format is that of Red Hat's operator pipelines: ``release-config.yaml`` in the directory of the bundle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.templates.ci_config import TEMPLATES, is_safe_name
from opmkit.index.templates.document import TemplateFile
from opmkit.index.templates.edit.edges import EdgeOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.index.fbc.blobs import SourceLocation
    from opmkit.index.fbc.fields import FieldReader

_FIELDS = ("template_name", "channels", "replaces", "skips", "skipRange")


@dataclass(frozen=True, slots=True)
class TemplateRelease:
    """The release of a bundle to one template.

    Attributes:
        template: The name of the template file.
        channels: The channels, or in a semver template the lists.
        edges: The edges of the bundle; None for those that are not given.
        location: The file and line of the configuration.
    """

    template: str
    channels: tuple[str, ...]
    edges: EdgeOptions
    location: SourceLocation


def read_release_config(path: Path) -> tuple[TemplateRelease, ...]:
    """Read a release configuration.

    Raises:
        InvalidCatalog: The configuration is invalid; the error lists all findings with their lines.
        DiskError: The file cannot be read.
    """
    file = TemplateFile.open(path)
    reader = file.mapping("Write catalog_templates: a list with template_name and channels.")
    file.check_fields(reader, "merge", "catalog_templates")
    releases = tuple(_read_releases(file, reader))
    if not file.findings and not releases:
        file.report((), "catalog_templates is missing or empty", hint="List a template with its channels.")
    file.raise_findings()
    return releases


def _read_releases(file: TemplateFile, reader: FieldReader) -> Iterator[TemplateRelease]:
    names: set[str] = set()
    for entry in reader.mappings("catalog_templates"):
        file.check_fields(entry, *_FIELDS)
        name, channels = entry.string("template_name"), entry.strings("channels")
        location = file.location((*entry.path, "template_name"))
        if not name or not channels:
            file.report(entry.path, "template_name and channels are required", hint="Set both.")
        elif not is_safe_name(name):
            hint = f"Write the name of a file in the directory {TEMPLATES}."
            file.report((*entry.path, "template_name"), f"invalid template_name {name!r}", hint=hint)
        elif name in names:
            file.report((*entry.path, "template_name"), f"{name} is listed twice", hint="List all channels once.")
        names.add(name)
        edges = EdgeOptions(
            replaces=entry.string("replaces") or None,
            skips=entry.strings("skips") if entry.any("skips") is not None else None,
            skip_range=entry.string("skipRange") or None,
        )
        yield TemplateRelease(name, channels, edges, location)
