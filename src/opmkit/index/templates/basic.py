"""Basic templates: catalogs whose bundles consist of their images only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.documents.document_stream import sort_keys
from opmkit.documents.fields import member
from opmkit.index.fbc import blobs as schemas
from opmkit.index.fbc.blobs import OtherBlob
from opmkit.index.fbc.findings import CatalogFinding
from opmkit.index.templates.renderer import ListedImage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blobs, BundleBlob
    from opmkit.index.templates.document import TemplateFile
    from opmkit.index.templates.renderer import BundleRenderer

SCHEMA = "olm.template.basic"


def render_basic(template: TemplateFile, render: BundleRenderer) -> Blobs:
    """Return the catalog of a basic template, or of one in the older form, a catalog without ``entries`` around it.

    Raises:
        InvalidCatalog: The template is invalid; the error lists all findings.
        CatalogError: A bundle can't be rendered.
        ImageToolsError: A bundle image can't be read.
    """
    blobs = read_entries(template)
    rendered = render(list(dict.fromkeys(bundle.image for bundle in blobs.bundles)))
    return replace(blobs, bundles=tuple(rendered[bundle.image] for bundle in blobs.bundles))


def list_images(template: TemplateFile) -> list[ListedImage]:
    """Return the images of a basic template; raise InvalidCatalog if it is invalid."""
    return [ListedImage(bundle.image, bundle.location) for bundle in read_entries(template).bundles]


def read_entries(template: TemplateFile) -> Blobs:
    """Return the blobs of a basic template, whose bundles have only an image.

    Raises:
        InvalidCatalog: The template is invalid; the error lists all findings.
    """
    blobs = _entries(template)
    template.findings += [finding.at(bundle.location) for bundle in blobs.bundles for finding in _check_bundle(bundle)]
    template.raise_findings()
    return blobs


def _entries(template: TemplateFile) -> Blobs:
    if template.schema.startswith("olm.template.") or template.schema in ("", "olm.semver"):
        reader = template.reader(SCHEMA)
        template.check_fields(reader, "schema", "entries")
        return template.load_list("entries", reader.items("entries"))
    return template.load(template.documents)


def _check_bundle(bundle: BundleBlob) -> Iterator[CatalogFinding]:
    if not bundle.image:
        message, hint = "the bundle has no image", "Set the image from which to render it."
        yield CatalogFinding(message, hint=hint, package=bundle.package, bundle=bundle.name)
    other = {"package": bundle.package, "properties": bundle.properties, "relatedImages": bundle.related_images}
    if extra := [name for name, value in other.items() if value]:
        message = f"bundles of a basic template must have only an image, not {', '.join(extra)}"
        hint = "Remove it, or convert the catalog to a template."
        yield CatalogFinding(message, hint=hint, package=bundle.package, bundle=bundle.name)


def to_basic(template: TemplateFile) -> OtherBlob:
    """Return a basic template for a catalog: its documents, with bundles reduced to their images.

    Raises:
        InvalidCatalog: The catalog is invalid; the error lists all findings.
    """
    blobs = template.load(template.documents)
    template.raise_findings()
    bundles = iter(blobs.bundles)
    entries: list[JsonValue] = [
        {"schema": schemas.BUNDLE, "image": next(bundles).image}
        if _is_bundle(document.value)
        else sort_keys(document.value)
        for document in template.documents
    ]
    return OtherBlob(SCHEMA, "", "", {"schema": SCHEMA, "entries": entries or None})


def _is_bundle(value: object) -> bool:
    return isinstance(value, dict) and member(value, "schema") == schemas.BUNDLE
