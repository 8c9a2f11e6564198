"""Substitutions in substitutes templates."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.findings import CatalogFinding
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.templates.document import TemplateFile
from opmkit.index.templates.edit.result import TemplateChange, TemplateEdit
from opmkit.index.templates.edit.template import actual_key
from opmkit.index.templates.substitutes import read_template, render_substitutes

if TYPE_CHECKING:
    from opmkit.index.templates.edit.bundles import TemplateBundle
    from opmkit.index.templates.edit.template import EditableTemplate
    from opmkit.index.templates.renderer import BundleRenderer


def add_substitution(
    template: EditableTemplate, bundle: TemplateBundle, base: str, render: BundleRenderer
) -> TemplateEdit:
    """Let a bundle substitute another one in a substitutes template.

    Args:
        template: The template.
        bundle: The bundle.
        base: The name of the bundle that it substitutes.
        render: Renders the substitutes, to check the resulting catalog.

    Raises:
        InvalidCatalog: the template would become invalid.
        UneditableText: with file and line, if the text cannot be edited.
    """
    if not base:
        hint = Hint("pass the bundle that it substitutes with {}", IndexSetting.BASE)
        raise CatalogError(f"{template.name}: {bundle.name} cannot be added to a substitutes template", hint=hint)
    file = TemplateFile.read(io.BytesIO(template.raw), template.name)
    _, substitutions = read_template(file)
    for substitution in substitutions:
        if substitution.image == bundle.image:
            if substitution.base == base:
                return TemplateEdit(template)
            finding = CatalogFinding(f"already substitutes {substitution.base}", bundle=bundle.name)
            raise InvalidCatalog(str(finding.at(substitution.location)), hint="edit the substitution")
    key = actual_key(template.texts[0].value, "substitutions")
    edited = template.insert(0, (key,), len(substitutions), {"name": bundle.image, "base": base})
    render_substitutes(TemplateFile.read(io.BytesIO(edited.raw), edited.name), render)
    values = (("bundle", bundle.name), ("image", bundle.image), ("base", base))
    return TemplateEdit(
        edited, (TemplateChange("substitute", f"bundle {base}", f"substituted by {bundle.name}", values),)
    )
