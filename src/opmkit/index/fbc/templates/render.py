"""The types of templates, each told by its schema, and how each is rendered."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from opmkit.index.fbc.blobs import Blobs
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.findings import CatalogFinding, raise_findings
from opmkit.index.fbc.migrate import MigrationLevel, migrate
from opmkit.index.fbc.templates import basic, semver, substitutes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.fbc.templates.document import TemplateFile
    from opmkit.index.fbc.templates.renderer import BundleRenderer


class TemplateType(StrEnum):
    """The types, by the names that commands have for them."""

    BASIC = "basic"
    SEMVER = "semver"
    SUBSTITUTES = "substitutes"


_SCHEMAS = {
    basic.SCHEMA: TemplateType.BASIC,
    semver.SCHEMA: TemplateType.SEMVER,
    substitutes.SCHEMA: TemplateType.SUBSTITUTES,
}


def template_type(template: TemplateFile) -> TemplateType:
    """The type that a template says it is of; raises InvalidCatalog if it does not."""
    kind = _SCHEMAS.get(template.schema)
    if kind is None:
        told = f"{template.schema!r} is no schema of a template" if template.schema else "the template has no schema"
        advice = f"Write one of {', '.join(_SCHEMAS)}, or name the type: {', '.join(TemplateType)}."
        raise_findings([CatalogFinding(template.location(("schema",)), told, advice=advice)])
        raise AssertionError("a fault is always refused")
    return kind


def render_template(
    template: TemplateFile,
    kind: TemplateType,
    render: BundleRenderer,
    *,
    level: MigrationLevel = MigrationLevel.NONE,
    compat: Compat = Compat.NEWEST,
) -> Blobs:
    """The catalog of a template of that type, with the bundles that are rendered for it at a level.

    Raises:
        InvalidCatalog: with all that is wrong with the template.
        CatalogError, ImageToolsError: a bundle can't be rendered.
    """
    if kind is TemplateType.SUBSTITUTES:  # it holds bundles as well, which stay as they are
        return substitutes.render_substitutes(template, lambda images: _at_level(render(images), level))
    if kind is TemplateType.SEMVER:
        return migrate(semver.render_semver(template, render, compat), level)
    return migrate(basic.render_basic(template, render), level)


def _at_level(bundles: Mapping[str, BundleBlob], level: MigrationLevel) -> dict[str, BundleBlob]:
    result: Sequence[BundleBlob] = migrate(Blobs(bundles=tuple(bundles.values())), level).bundles
    return dict(zip(bundles, result, strict=True))
