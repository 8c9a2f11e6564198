"""The types of templates, identified by their schemas, and their rendering."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from opmkit.bundle.source import parse_location
from opmkit.imagetools.errors import InvalidReference
from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import Blobs
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.csv_metadata import MigrationLevel, migrate
from opmkit.index.fbc.findings import CatalogFinding, raise_findings
from opmkit.index.templates import basic, semver, substitutes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.index.fbc.blobs import BundleBlob, OtherBlob
    from opmkit.index.templates.document import TemplateFile
    from opmkit.index.templates.renderer import BundleRenderer, ListedImage


class TemplateType(StrEnum):
    """The type of a template; the values are arguments of commands."""

    BASIC = "basic"
    SEMVER = "semver"
    SUBSTITUTES = "substitutes"


SCHEMAS = {
    basic.SCHEMA: TemplateType.BASIC,
    semver.SCHEMA: TemplateType.SEMVER,
    substitutes.SCHEMA: TemplateType.SUBSTITUTES,
}


def template_type(template: TemplateFile) -> TemplateType:
    """Return the type of a template by its schema.

    Raises:
        InvalidCatalog: The schema is missing or unsupported.
    """
    type_ = SCHEMAS.get(template.schema)
    if type_ is None:
        unsupported = f"unsupported template schema {template.schema!r}"
        message = unsupported if template.schema else "the template has no schema"
        hint = f"Set the schema to one of {', '.join(SCHEMAS)}, or select a type: {', '.join(TemplateType)}."
        raise InvalidCatalog(str(CatalogFinding(message).at(template.location(("schema",)))), hint=hint)
    return type_


def render_template(
    template: TemplateFile,
    type_: TemplateType,
    render: BundleRenderer,
    *,
    level: MigrationLevel = MigrationLevel.NONE,
    compat: CatalogCompat = CatalogCompat.NEWEST,
) -> Blobs:
    """Return the catalog of a template; the bundles rendered for it are migrated to a level.

    Raises:
        InvalidCatalog: The template is invalid; the error lists all findings.
        CatalogError: A bundle can't be rendered.
        ImageToolsError: A bundle image can't be read.
    """
    try:
        if type_ is TemplateType.SUBSTITUTES:  # bundles among its entries are not migrated
            return substitutes.render_substitutes(template, lambda images: _migrate_bundles(render(images), level))
        if type_ is TemplateType.SEMVER:
            return migrate(semver.render_semver(template, render, compat), level)
        return migrate(basic.render_basic(template, render), level)
    except InvalidReference as error:
        raise_findings(_check_references(list_images(template, type_, compat=compat)))
        raise error


def list_images(
    template: TemplateFile, type_: TemplateType, *, compat: CatalogCompat = CatalogCompat.NEWEST
) -> Sequence[ListedImage]:
    """Return the images that `render_template` renders, with their locations; an image may be listed several times.

    Raises:
        InvalidCatalog: The template is invalid; the error lists all findings.
    """
    if type_ is TemplateType.SUBSTITUTES:
        return substitutes.list_images(template)
    return semver.list_images(template, compat) if type_ is TemplateType.SEMVER else basic.list_images(template)


def to_template(catalog: TemplateFile, type_: TemplateType) -> OtherBlob:
    """Return the basic or substitutes template of a catalog.

    Raises:
        InvalidCatalog: The catalog is invalid; the error lists all findings.
        ValueError: Catalogs cannot be converted to templates of the type.
    """
    if type_ is TemplateType.SEMVER:
        raise ValueError("catalogs cannot be converted to semver templates")
    return substitutes.to_substitutes(catalog) if type_ is TemplateType.SUBSTITUTES else basic.to_basic(catalog)


def _check_references(images: Iterable[ListedImage]) -> Iterator[CatalogFinding]:
    for image, location in images:
        try:
            parse_location(image)
        except InvalidReference as error:
            yield CatalogFinding(error.message, hint=str(error.hint)).at(location)


def _migrate_bundles(bundles: Mapping[str, BundleBlob], level: MigrationLevel) -> dict[str, BundleBlob]:
    migrated: Sequence[BundleBlob] = migrate(Blobs(bundles=tuple(bundles.values())), level).bundles
    return dict(zip(bundles, migrated, strict=True))
