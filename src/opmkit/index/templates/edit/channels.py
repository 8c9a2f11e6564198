"""Bundles in the channels of basic and substitutes templates: add them, and promote them to other channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.findings import CatalogFinding
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.suggestions import suggest_names
from opmkit.index.templates.edit.channel_editor import ChannelEditor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit.index.fbc.blobs import ChannelBlob
    from opmkit.index.templates.edit.bundles import BundleVersions, TemplateBundle
    from opmkit.index.templates.edit.edges import EdgeOptions
    from opmkit.index.templates.edit.result import TemplateEdit
    from opmkit.index.templates.edit.template import EditableTemplate


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
        InvalidCatalog: with file and line, if the bundle conflicts with the template, or makes a channel invalid.
        UneditableText: with file and line, if the text cannot be edited.
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
        source: The name of the channel with the edges to start from, "" for the only one that has the bundle.
        targets: The names of the other channels.
        edges: Edges that differ from those of the source.
        versions: Versions of the bundles that the template lists.
        create_channels: Whether to create channels that the package does not have.
        default_channel: The default channel to set, "" to leave it as it is.

    Raises:
        InvalidCatalog, UneditableText: see `add_bundle`.
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
