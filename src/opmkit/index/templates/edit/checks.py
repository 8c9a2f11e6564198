"""Checks of an edited basic or substitutes template by the rules for channels, without reading its bundles."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.index.fbc.blobs import PACKAGE, BlobProperty, Blobs, BundleBlob
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.check.warnings import find_warnings
from opmkit.index.fbc.findings import raise_findings
from opmkit.index.templates.edit.bundles import version_in_name
from opmkit.index.templates.render import TemplateType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blob, ChannelBlob
    from opmkit.index.fbc.findings import CatalogFinding
    from opmkit.index.templates.edit.template import EditableTemplate

_IMAGE = "example.com/bundle:1"


def check_edit(before: EditableTemplate, after: EditableTemplate) -> tuple[str, ...]:
    """Return warnings about what an edit added to a template.

    Raises:
        InvalidCatalog: The edit makes the template invalid; locations are those before the edit.
    """
    old, new = (_with_bundles(template) for template in (before, after))
    locations = {_identity(blob): blob.location for blob in before.blobs()}
    end = before.file.location(())
    new = Blobs.from_blobs(replace(blob, location=locations.get(_identity(blob), end)) for blob in new)
    raise_findings(_added(check_blobs(old), check_blobs(new)))
    warnings = (find_warnings(_with_versions(blobs)) for blobs in (old, new))
    return tuple(map(str, _added(*warnings)))


def _identity(blob: Blob) -> tuple[str, str, str]:
    return blob.schema, blob.package, blob.name


def _added(before: Iterable[CatalogFinding], after: Iterable[CatalogFinding]) -> list[CatalogFinding]:
    known = {(finding.subject, finding.message) for finding in before}
    return [finding for finding in after if (finding.subject, finding.message) not in known]


def _with_bundles(template: EditableTemplate) -> Blobs:
    """Return the blobs with a bundle for each entry of a channel; those of a basic template have no names."""
    blobs = template.blobs()
    if template.type is not TemplateType.BASIC:
        return blobs
    return replace(blobs, bundles=tuple(_placeholders(blobs.channels)))


def _placeholders(channels: Iterable[ChannelBlob]) -> Iterator[BundleBlob]:
    named = {(channel.package, entry.name): channel for channel in channels for entry in channel.entries if entry.name}
    for number, ((package, name), channel) in enumerate(named.items()):
        value: JsonValue = {"packageName": package, "version": version_in_name(name) or f"0.0.0-unknown.{number}"}
        yield BundleBlob(name, package, _IMAGE, (BlobProperty(PACKAGE, value),), location=channel.location)


def _with_versions(blobs: Blobs) -> Blobs:
    """Return the blobs with those bundles that have a version in their names."""
    return replace(blobs, bundles=tuple(bundle for bundle in blobs.bundles if version_in_name(bundle.name)))
