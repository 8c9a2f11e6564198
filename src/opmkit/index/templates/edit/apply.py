"""Edits of templates of any type: bundles, channels, substitutions and deprecations."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle.hint_terms import BundleSetting
from opmkit.core.hints import Hint, Setting
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE, Deprecation, DeprecationsBlob
from opmkit.index.fbc.findings import CatalogFinding
from opmkit.index.hint_terms import IndexOperation, IndexSetting
from opmkit.index.suggestions import join_names, suggest_names
from opmkit.index.templates.document import TemplateFile
from opmkit.index.templates.edit.channel_editor import ChannelEditor
from opmkit.index.templates.edit.edges import NO_EDGES, EdgeOptions
from opmkit.index.templates.edit.semver import add_to_archetypes, promote_in_archetypes
from opmkit.index.templates.edit.template import BundleVersions, actual_key, check_edit
from opmkit.index.templates.edit.write import TemplateChange, TemplateEdit
from opmkit.index.templates.render import TemplateType
from opmkit.index.templates.substitutes import read_template, render_substitutes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blobs, BundleBlob, ChannelBlob
    from opmkit.index.templates.edit.edges import EdgeOptions
    from opmkit.index.templates.edit.template import EditableTemplate, LocatedBlob, TemplateBundle
    from opmkit.index.templates.renderer import BundleRenderer


@dataclass(frozen=True, slots=True)
class TemplateAddOptions:
    """Options for adding a bundle.

    Attributes:
        channels: Names of channels, or of lists of a semver template.
        edges: The edges in each channel of a basic template.
        create_channels: Whether to create channels that the package does not have.
        base: The name of the bundle to substitute in a substitutes template.
        overwrite: Whether to replace the image of a bundle with the same name.
        default_channel: The default channel to set for the package, "" to leave it as it is.
    """

    channels: tuple[str, ...] = ()
    edges: EdgeOptions = NO_EDGES
    create_channels: bool = False
    base: str = ""
    overwrite: bool = False
    default_channel: str = ""


@dataclass(frozen=True, slots=True)
class PromoteOptions:
    """Options for promoting a bundle.

    Attributes:
        source: The channel that has the bundle, or "" for any.
        targets: The channels to add it to.
        edges: Edges that differ from those in the source.
        create_channels: Whether to create channels that the package does not have.
        default_channel: The default channel to set for the package, "" to leave it as it is.
    """

    source: str
    targets: tuple[str, ...]
    edges: EdgeOptions = NO_EDGES
    create_channels: bool = False
    default_channel: str = ""


def add(
    template: EditableTemplate, bundle: TemplateBundle, options: TemplateAddOptions, render: BundleRenderer
) -> TemplateEdit:
    """Add a bundle to a template; ``render`` is called if other bundles must be known.

    Raises:
        CatalogError: The options do not suit the template, or the template would become invalid.
        UneditableText: The text cannot be edited; the error names the file and the line.
        ImageToolsError: Other bundles must be known, and cannot be read.
    """
    if template.type is TemplateType.SEMVER or _has_entry(template, bundle.name):
        bundle = bundle.with_listed_image(template.images())
    render = bundle.add_to(render)
    if template.type is TemplateType.SUBSTITUTES:
        _check_no_edges(template, options.edges, options.default_channel)
        for setting, is_given in (
            (IndexSetting.CHANNEL, options.channels),
            (BundleSetting.OVERWRITE, options.overwrite),
        ):
            if is_given:
                raise _unsupported(template, setting)
        return add_substitution(template, bundle, options.base, render)
    if options.base:
        raise _unsupported(template, IndexSetting.BASE)
    if template.type is TemplateType.SEMVER:
        _check_no_edges(template, options.edges, options.default_channel)
        return add_to_archetypes(template, bundle, options.channels, render, overwrite=options.overwrite)
    versions = BundleVersions.with_bundle(bundle, lambda: _listed(template, render))
    return add_bundle(
        template,
        bundle,
        options.channels,
        options.edges,
        versions,
        create_channels=options.create_channels,
        overwrite=options.overwrite,
        default_channel=options.default_channel,
    )


def promote(template: EditableTemplate, bundle: str, options: PromoteOptions, render: BundleRenderer) -> TemplateEdit:
    """Add a bundle of one channel to others; ``bundle`` is its name or image. Raises what `add` does."""
    versions = BundleVersions({}, lambda: _listed(template, render))
    if template.type is TemplateType.SEMVER:
        _check_no_edges(template, options.edges, options.default_channel)
        return promote_in_archetypes(template, bundle, options.source, options.targets, versions, render)
    return promote_bundle(
        template,
        bundle,
        options.source,
        options.targets,
        options.edges,
        versions,
        create_channels=options.create_channels,
        default_channel=options.default_channel,
    )


def _has_entry(template: EditableTemplate, name: str) -> bool:
    return any(entry.name == name for channel in template.blobs().channels for entry in channel.entries)


def _listed(template: EditableTemplate, render: BundleRenderer) -> Mapping[str, BundleBlob]:
    """Return the bundles that a template lists, by image; those of a substitutes template need not be rendered."""
    if template.type is TemplateType.SUBSTITUTES:
        return {bundle.image: bundle for bundle in template.blobs().bundles}
    return render(template.images())


def _check_no_edges(template: EditableTemplate, edges: EdgeOptions, default_channel: str) -> None:
    given = {
        IndexSetting.REPLACES: edges.replaces is not None,
        IndexSetting.SKIPS: edges.skips is not None,
        IndexSetting.SKIP_RANGE: edges.skip_range is not None,
        IndexSetting.AFTER: bool(edges.after),
        IndexSetting.BEFORE: bool(edges.before),
        IndexSetting.DEFAULT_CHANNEL: bool(default_channel),
    }
    for setting, is_given in given.items():
        if is_given:
            raise _unsupported(template, setting)


def _unsupported(template: EditableTemplate, setting: Setting) -> CatalogError:
    return CatalogError(
        f"{template.name}: unsupported: {setting.value.replace('_', ' ')} in a template of type {template.type}",
        hint=Hint("omit {}", setting),
    )


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
        InvalidCatalog: The template would become invalid.
        UneditableText: The text cannot be edited; the error names the file and the line.
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


def add_bundle(
    template: EditableTemplate,
    bundle: TemplateBundle,
    channels: Sequence[str],
    edges: EdgeOptions,
    versions: BundleVersions,
    *,
    create_channels: bool = False,
    overwrite: bool = False,
    default_channel: str = "",
) -> TemplateEdit:
    """Add a bundle to channels of a basic template, and list its image.

    Args:
        template: The template; a package that it lacks is created.
        bundle: The bundle.
        channels: Names of channels; without any, the only channel of the package, or those that have the bundle if its
            image is replaced.
        edges: The edges in each channel.
        versions: Versions of the bundles that the template lists.
        create_channels: Whether to create channels that the package does not have.
        overwrite: Whether to replace the image of a bundle with the same name.
        default_channel: The default channel to set, "" to leave it as it is.

    Raises:
        InvalidCatalog: The bundle conflicts with the template, or makes a channel invalid; it names file and line.
        UneditableText: The text cannot be edited; the error names the file and the line.
    """
    editor = ChannelEditor(template, bundle.package, versions)
    editor.check_package(bundle)
    replaced = editor.replace_image(bundle, overwrite=overwrite)
    for channel in () if replaced and not channels else editor.resolve_channels(channels):
        editor.check_channel(channel, create=create_channels)
        editor.place("add", channel, bundle.name, edges, default_range=bundle.skip_range)
    editor.list_image(bundle)
    if default_channel:
        editor.set_default(default_channel)
    return editor.finish()


def promote_bundle(
    template: EditableTemplate,
    bundle: str,
    source: str,
    targets: Sequence[str],
    edges: EdgeOptions,
    versions: BundleVersions,
    *,
    create_channels: bool = False,
    default_channel: str = "",
) -> TemplateEdit:
    """Add a bundle of one channel to other channels.

    Args:
        template: The template.
        bundle: The name of the bundle, or an image that the template lists.
        source: The name of the channel with the edges to start from, or "" for the only one that has the bundle.
        targets: The names of the other channels.
        edges: Edges that differ from those of the source.
        versions: Versions of the bundles that the template lists.
        create_channels: Whether to create channels that the package does not have.
        default_channel: The default channel to set, "" to leave it as it is.

    Raises:
        InvalidCatalog, UneditableText: See `add_bundle`.
    """
    name = _bundle_name(template, bundle, versions)
    origin = _find_source(template, name, source, targets)
    editor = ChannelEditor(template, origin.package, versions)
    entry = next(entry for entry in origin.entries if entry.name == name)
    for channel in targets:
        editor.check_channel(channel, create=create_channels)
        editor.place("promote", channel, name, edges, (origin, entry))
    if default_channel:
        editor.set_default(default_channel)
    return editor.finish()


def _bundle_name(template: EditableTemplate, bundle: str, versions: BundleVersions) -> str:
    """Return the name of a bundle that is given by its name or image."""
    for blob in template.blobs().bundles:
        if blob.image == bundle:
            return blob.name or versions.listed()[bundle].name
    return bundle


def _find_source(template: EditableTemplate, name: str, source: str, targets: Iterable[str]) -> ChannelBlob:
    """Return the channel whose entry is promoted; raise CatalogError if there is none, or several."""
    channels = template.blobs().channels
    having = [channel for channel in channels if any(entry.name == name for entry in channel.entries)]
    if source:
        named = [channel for channel in channels if channel.name == source]
        if not named:
            known = sorted(channel.name for channel in channels)
            message = f'{template.name}: channel "{source}" not found'
            raise CatalogError(message, hint=suggest_names("channels", source, known))
        having = [channel for channel in having if channel.name == source]
        if not having:
            known = [entry.name for entry in named[0].entries]
            finding = CatalogFinding(f"{name} is not in the channel", channel=source).at(named[0].location)
            raise InvalidCatalog(str(finding), hint=suggest_names("bundles", name, known))
    if not having:
        known = sorted({entry.name for channel in channels for entry in channel.entries})
        raise CatalogError(f"{template.name}: {name} is not in any channel", hint=suggest_names("bundles", name, known))
    others = [channel for channel in having if channel.name not in set(targets)] or having
    if len(others) > 1 and len({entry for channel in others for entry in channel.entries if entry.name == name}) > 1:
        names = ", ".join(channel.name for channel in others)
        raise CatalogError(
            f"{template.name}: {name} has different edges in the channels {names}",
            hint=Hint("choose one with {}", IndexSetting.FROM_CHANNEL),
        )
    return others[0]


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
