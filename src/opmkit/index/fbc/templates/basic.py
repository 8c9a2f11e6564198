"""Basic templates: a catalog whose bundles are named by their images alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.bundle.fields import member
from opmkit.imagetools.hints import Hint, Operation
from opmkit.index.fbc import blobs as schemas
from opmkit.index.fbc.blobs import OtherBlob
from opmkit.index.fbc.documents import sort_keys
from opmkit.index.fbc.findings import CatalogFinding, Subject

if TYPE_CHECKING:
    from opmkit.bundle.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blobs, BundleBlob
    from opmkit.index.fbc.templates.document import TemplateFile
    from opmkit.index.fbc.templates.renderer import BundleRenderer

SCHEMA = "olm.template.basic"


def render_basic(template: TemplateFile, render: BundleRenderer) -> Blobs:
    """The catalog of a basic template, in today's form or the older one, which is the catalog without a frame.

    Raises:
        InvalidCatalog: with all that is wrong with the template.
        CatalogError, ImageToolsError: a bundle can't be rendered.
    """
    blobs = _entries(template)
    template.faults += [fault for bundle in blobs.bundles for fault in _bundle_faults(bundle)]
    template.raise_findings()
    rendered = render(list(dict.fromkeys(bundle.image for bundle in blobs.bundles)))
    return replace(blobs, bundles=tuple(rendered[bundle.image] for bundle in blobs.bundles))


def _entries(template: TemplateFile) -> Blobs:
    if template.schema.startswith("olm.template.") or template.schema in ("", "olm.semver"):
        fields = template.only(SCHEMA)
        template.known(fields, "schema", "entries")
        return template.blobs("entries", fields.items("entries"))
    return template.load(template.documents)


def _bundle_faults(bundle: BundleBlob) -> list[CatalogFinding]:
    subject = Subject(bundle.package, bundle=bundle.name)
    faults = []
    if not bundle.image:
        faults.append(
            CatalogFinding(bundle.location, "the bundle has no image", subject, "Name the image to render it from.")
        )
    given = {"package": bundle.package, "properties": bundle.properties, "relatedImages": bundle.related_images}
    if extra := [name for name, value in given.items() if value]:
        told = f"a bundle of a basic template has nothing but its image, and this one has {', '.join(extra)}"
        hint = Hint.any_of("remove it", Hint("create the template with {}", Operation.CONVERT_TEMPLATE))
        faults.append(CatalogFinding(bundle.location, told, subject, hint))
    return faults


def to_basic(template: TemplateFile) -> OtherBlob:
    """The basic template of a catalog: its documents, of bundles the image alone; raises InvalidCatalog."""
    blobs = template.load(template.documents)
    template.raise_findings()
    images = iter(blobs.bundles)
    entries: list[JsonValue] = [
        {"schema": schemas.BUNDLE, "image": next(images).image}
        if _is_bundle(document.value)
        else sort_keys(document.value)
        for document in template.documents
    ]
    return OtherBlob(SCHEMA, "", "", {"schema": SCHEMA, "entries": entries})


def _is_bundle(value: object) -> bool:
    return isinstance(value, dict) and member(value, "schema") == schemas.BUNDLE
