"""Deprecations in basic and substitutes templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE, Deprecation, DeprecationsBlob
from opmkit.index.fbc.findings import CatalogFinding
from opmkit.index.hint_terms import IndexOperation
from opmkit.index.suggestions import join_names, suggest_names
from opmkit.index.templates.edit.checks import check_edit
from opmkit.index.templates.edit.result import TemplateChange, TemplateEdit
from opmkit.index.templates.edit.template import actual_key
from opmkit.index.templates.render import TemplateType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.templates.edit.template import EditableTemplate, LocatedBlob

_NOUNS = {PACKAGE: "package", CHANNEL: "channel", BUNDLE: "bundle"}


def deprecate(template: EditableTemplate, references: Sequence[tuple[str, str]], message: str) -> TemplateEdit:
    """Add deprecations with a message, or change the messages of existing ones; remove them if it is empty.

    Args:
        template: A basic or substitutes template.
        references: Schemas and names of what to deprecate; the name of the package is "".
        message: The message.

    Raises:
        InvalidCatalog: A channel or bundle does not exist; the error names the file and the line.
        CatalogError: The template is of another type, or an object belongs to several packages.
        UneditableText: The text cannot be edited; the error names the file and the line.
    """
    if template.type is TemplateType.SEMVER:
        raise CatalogError(
            f"{template.name}: unsupported: a semver template cannot contain deprecations",
            hint=Hint("deprecate in the rendered catalog with {}", IndexOperation.DEPRECATE),
        )
    edited, changes = template, list[TemplateChange]()
    for schema, name in references:
        package = _package_of(template, schema, name)
        new = _set_message(edited, package, Deprecation(schema, name, message))
        if new is not edited:
            subject = f"{_NOUNS[schema]} {name or package}"
            text = f'deprecated: "{message}"' if message else "no longer deprecated"
            values = (("schema", schema), ("package", package), ("name", name), ("message", message))
            changes.append(TemplateChange("deprecate" if message else "undo-deprecation", subject, text, values))
        edited = new
    return TemplateEdit(edited, tuple(changes), check_edit(template, edited) if changes else ())


def _package_of(template: EditableTemplate, schema: str, name: str) -> str:
    """Return the only package that has a channel or bundle."""
    blobs = template.blobs()
    owners = sorted(_owners(blobs, schema, name))
    if len(owners) == 1:
        return owners[0]
    noun = _NOUNS[schema]
    subject = f"{noun} {name}" if name else noun
    if owners:
        message = f"{template.name}: {subject}: found in several packages: {join_names(owners)}"
        raise CatalogError(message, hint="write a template for each package")
    finding = CatalogFinding(f"{subject} not found").at(template.file.location(()))
    known = sorted(_known(blobs, schema))
    hint = suggest_names(f"{noun}s", name, known) if known else "add an olm.package document"
    raise InvalidCatalog(str(finding), hint=hint)


def _owners(blobs: Blobs, schema: str, name: str) -> set[str]:
    if schema == PACKAGE:
        return {package.name for package in blobs.packages}
    if schema == CHANNEL:
        return {channel.package for channel in blobs.channels if channel.name == name}
    return {channel.package for channel in blobs.channels for entry in channel.entries if entry.name == name}


def _known(blobs: Blobs, schema: str) -> set[str]:
    if schema == BUNDLE:
        return {entry.name for channel in blobs.channels for entry in channel.entries}
    return {blob.name for blob in (blobs.channels if schema == CHANNEL else blobs.packages)}


def _set_message(template: EditableTemplate, package: str, new: Deprecation) -> EditableTemplate:
    """Return the template with a deprecation, or without it if it has no message; the same template if it has it."""
    documents = [located for located in template.located_blobs if _is_of(located, package)]
    for located in documents:
        entries = located.blob.entries if isinstance(located.blob, DeprecationsBlob) else ()
        for number, entry in enumerate(entries):
            if (entry.schema, entry.name) == (new.schema, new.name):
                return _change(template, located, number, entry, new)
    if not new.message:
        return template
    reference: dict[str, JsonValue] = {"schema": new.schema, **({"name": new.name} if new.name else {})}
    item: JsonValue = {"reference": reference, "message": new.message}
    if not documents:
        blob: JsonValue = {"schema": DEPRECATIONS, "package": package, "entries": [item]}
        return template.insert_blob(blob, None)
    located = documents[0]
    path = (*located.path, actual_key(template.value_at(located.document, located.path), "entries"))
    count = len(located.blob.entries) if isinstance(located.blob, DeprecationsBlob) else 0
    return template.insert(located.document, path, count, item)


def _is_of(located: LocatedBlob, package: str) -> bool:
    return located.blob.schema == DEPRECATIONS and located.blob.package == package


def _change(
    template: EditableTemplate, located: LocatedBlob, number: int, old: Deprecation, new: Deprecation
) -> EditableTemplate:
    if old == new:
        return template
    value = template.value_at(located.document, located.path)
    path = (*located.path, actual_key(value, "entries"), number)
    if not new.message:
        is_only = isinstance(located.blob, DeprecationsBlob) and len(located.blob.entries) == 1
        return template.remove_blob(located) if is_only else template.remove(located.document, path)
    key = actual_key(template.value_at(located.document, path), "message")
    return template.set(located.document, (*path, key), new.message)
