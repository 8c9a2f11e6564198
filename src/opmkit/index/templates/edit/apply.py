"""Edits of templates of any type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle.hint_terms import BundleSetting
from opmkit.core.hints import Hint, Setting
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.templates.edit.bundles import BundleVersions
from opmkit.index.templates.edit.channels import add_bundle, promote_bundle
from opmkit.index.templates.edit.edges import NO_EDGES, EdgeOptions
from opmkit.index.templates.edit.semver import add_to_archetypes, promote_in_archetypes
from opmkit.index.templates.edit.substitutions import add_substitution
from opmkit.index.templates.render import TemplateType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.templates.edit.bundles import TemplateBundle
    from opmkit.index.templates.edit.result import TemplateEdit
    from opmkit.index.templates.edit.template import EditableTemplate
    from opmkit.index.templates.renderer import BundleRenderer


@dataclass(frozen=True, slots=True)
class AddOptions:
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
        source: The channel that has the bundle, "" for any.
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
    template: EditableTemplate, bundle: TemplateBundle, options: AddOptions, render: BundleRenderer
) -> TemplateEdit:
    """Add a bundle to a template; ``render`` is called if other bundles must be known.

    Raises:
        CatalogError: the options do not suit the template, or the template would become invalid.
        UneditableText: with file and line, if the text cannot be edited.
        ImageToolsError: other bundles must be known, and cannot be read.
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
