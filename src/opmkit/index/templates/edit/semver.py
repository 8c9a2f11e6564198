"""Bundles in the lists of semver templates, and substitutions in substitutes templates."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.core.hints import Hint, Setting
from opmkit.imagetools.errors import ImageToolsError
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.findings import CatalogFinding
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.suggestions import suggest_names
from opmkit.index.templates.document import TemplateFile
from opmkit.index.templates.edit.template import actual_key
from opmkit.index.templates.edit.write import TemplateChange, TemplateEdit
from opmkit.index.templates.semver import ARCHETYPES, render_semver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.templates.edit.template import BundleVersions, EditableTemplate, TemplateBundle
    from opmkit.index.templates.renderer import BundleRenderer


def add_to_archetypes(
    template: EditableTemplate,
    bundle: TemplateBundle,
    names: Sequence[str],
    render: BundleRenderer,
    *,
    overwrite: bool = False,
) -> TemplateEdit:
    """Add a bundle to lists of a semver template.

    Args:
        template: The template.
        bundle: The bundle.
        names: Any of candidate, fast and stable, in any case; without any, the only one of the template.
        render: Renders the other bundles, to check packages and versions; if that fails, a warning is returned.
        overwrite: Whether to replace the images of bundles with the same name, in all lists.

    Raises:
        InvalidCatalog: The template would become invalid.
        UneditableText: The text cannot be edited; the error names the file and the line.
    """
    edited, changes = _replace_images(template, bundle, render) if overwrite else (template, [])
    if not names and overwrite and bundle.image in edited.images():
        return _finish(template, edited, changes, render)
    archetypes = _archetypes(template, names, IndexSetting.CHANNEL)
    edited, more = _insert(edited, bundle.image, archetypes, "add")
    return _finish(template, edited, [*changes, *more], render)


def _replace_images(
    template: EditableTemplate, bundle: TemplateBundle, render: BundleRenderer
) -> tuple[EditableTemplate, list[TemplateChange]]:
    """Replace the other images of a bundle in all lists."""
    listed = render(template.images())
    old = {image for image, blob in listed.items() if blob.name == bundle.name and image != bundle.image}
    changes = []
    for archetype in ARCHETYPES if old else ():
        for number, image in enumerate(_images(template, archetype)):
            if image in old:
                section = _section(template, archetype)
                path = (_key(template, archetype), actual_key(section, "bundles"), number)
                key = actual_key(template.value_at(0, path), "image")
                template = template.set(0, (*path, key), bundle.image)
                values = (("channel", archetype), ("image", bundle.image), ("oldImage", image))
                text = f"{image} replaced by {bundle.image}"
                changes.append(TemplateChange("replace-image", f"channel {archetype}", text, values))
    return template, changes


def promote_in_archetypes(
    template: EditableTemplate,
    bundle: str,
    source: str,
    targets: Sequence[str],
    versions: BundleVersions,
    render: BundleRenderer,
) -> TemplateEdit:
    """Add a bundle of one list of a semver template to others.

    Args:
        template: The template.
        bundle: An image of the template, or the name or version of its bundle.
        source: The list that must have it, or "" for any.
        targets: The other lists.
        versions: The bundles of the template.
        render: See `add_to_archetypes`.

    Raises:
        CatalogError: The template does not have the bundle; see also `add_to_archetypes`.
    """
    origins = _archetypes(template, [source] if source else list(ARCHETYPES), IndexSetting.FROM_CHANNEL)
    listed = [image for archetype in origins for image in _images(template, archetype)]
    image = bundle if bundle in listed else _find_image(bundle, versions)
    if image not in listed:
        found = f" in {source}" if source else ""
        known = suggest_names("images", bundle, sorted(set(listed)))
        raise CatalogError(f"{template.name}: {bundle} not found{found}", hint=known)
    archetypes = _archetypes(template, targets, IndexSetting.TO_CHANNEL)
    return _finish(template, *_insert(template, image, archetypes, "promote"), render)


def _find_image(bundle: str, versions: BundleVersions) -> str:
    for image, blob in versions.listed().items():
        if bundle == blob.name or bundle in _versions(blob):
            return image
    return ""


def _versions(blob: BundleBlob) -> set[str]:
    from opmkit.index.fbc.check.bundle import bundle_version

    version = bundle_version(blob)
    return {version, f"v{version}"} if version else set()


def _archetypes(template: EditableTemplate, names: Sequence[str], setting: Setting) -> Sequence[str]:
    """Return archetypes in lower case; raise CatalogError for unknown ones, or if none is named of several."""
    present = [archetype for archetype in ARCHETYPES if _section(template, archetype) is not None]
    if not names and len(present) == 1:
        return present
    hint = Hint("pass {}", setting.with_value(",".join(present or ARCHETYPES)))
    if not names:
        raise CatalogError(f"{template.name}: no channel given, in a semver template", hint=hint)
    for name in names:
        if name.lower() not in ARCHETYPES:
            message = f'channel "{name}" not found: a semver template has {", ".join(ARCHETYPES)}'
            location = template.file.location(())
            raise InvalidCatalog(str(CatalogFinding(message).at(location)), hint=hint)
    return list(dict.fromkeys(name.lower() for name in names))


def _section(template: EditableTemplate, archetype: str) -> JsonValue:
    value = template.texts[0].value
    return value.get(actual_key(value, archetype)) if isinstance(value, dict) else None


def _images(template: EditableTemplate, archetype: str) -> list[str]:
    section = _section(template, archetype)
    bundles = section.get(actual_key(section, "bundles")) if isinstance(section, dict) else None
    entries = bundles if isinstance(bundles, list) else []
    return [str(entry[actual_key(entry, "image")]) for entry in entries if isinstance(entry, dict)]


def _insert(
    template: EditableTemplate, image: str, archetypes: Sequence[str], action: str
) -> tuple[EditableTemplate, list[TemplateChange]]:
    """List an image under archetypes, with keys in the case of the template."""
    changes = []
    for archetype in archetypes:
        images = _images(template, archetype)
        if image in images:
            continue
        item: JsonValue = {_style_key(template, "image"): image}
        section, key = _section(template, archetype), _key(template, archetype)
        bundles = actual_key(section, "bundles") if section else _style_key(template, "bundles")
        if section:
            template = template.insert(0, (key, bundles), len(images), item)
        else:
            template = template.set(0, (key,), {bundles: [item]})
        values = (("channel", archetype), ("image", image))
        changes.append(TemplateChange(action, f"channel {archetype}", f"{image} added", values))
    return template, changes


def _key(template: EditableTemplate, name: str) -> str:
    """Return the key that a template has for a name, or else one in its case."""
    value = template.texts[0].value
    key = actual_key(value, name)
    return key if isinstance(value, dict) and key in value else _style_key(template, name)


def _style_key(template: EditableTemplate, name: str) -> str:
    """Return a key in the case of the template: capitalized if its schema or its lists are."""
    value = template.texts[0].value
    keys = [key for key in value if key.lower() in ("schema", *ARCHETYPES)] if isinstance(value, dict) else []
    nested = [
        key
        for archetype in ARCHETYPES
        for section in [_section(template, archetype)]
        if isinstance(section, dict)
        for key in section
    ]
    like = [key for key in keys if key.lower() != "schema"] if name in ARCHETYPES else nested
    return name.capitalize() if all(key[:1].isupper() for key in like or keys) else name


def _finish(
    before: EditableTemplate, after: EditableTemplate, changes: Sequence[TemplateChange], render: BundleRenderer
) -> TemplateEdit:
    """Check the packages and versions of all bundles, as far as they can be read."""
    if not changes:
        return TemplateEdit(before)
    try:
        render_semver(TemplateFile.read(io.BytesIO(after.raw), after.name), render)
    except (ImageToolsError, LimitExceeded, DiskError) as error:
        warning = f"{after.name}: the versions of the other bundles are not checked: {error.message}"
        return TemplateEdit(after, tuple(changes), (warning,))
    return TemplateEdit(after, tuple(changes))
