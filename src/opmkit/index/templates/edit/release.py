"""Release of a bundle to the templates of its operator, in the layout of operator repositories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.validation.operator_directory import RELEASE_CONFIG
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.findings import CatalogFinding
from opmkit.index.suggestions import join_names
from opmkit.index.templates import basic, semver
from opmkit.index.templates.ci_config import CI_FILE, TEMPLATES, is_safe_name, read_catalog_mapping
from opmkit.index.templates.document import TemplateFile
from opmkit.index.templates.edit.apply import TemplateAddOptions, add
from opmkit.index.templates.edit.edges import EdgeOptions
from opmkit.index.templates.edit.template import EditableTemplate
from opmkit.index.templates.render import TemplateType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.index.fbc.blobs import SourceLocation
    from opmkit.index.fbc.fields import FieldReader
    from opmkit.index.templates.edit.template import TemplateBundle
    from opmkit.index.templates.edit.write import TemplateEdit
    from opmkit.index.templates.renderer import BundleRenderer


_NEW_TEMPLATES = {
    TemplateType.BASIC: f"---\nschema: {basic.SCHEMA}\nentries: []\n",
    TemplateType.SEMVER: f"---\nschema: {semver.SCHEMA}\ngenerateMajorChannels: true\ngenerateMinorChannels: true\n",
}
"""Templates without bundles, by type."""


class ReleasePlan(Struct, frozen=True):
    """The templates that a bundle is added to.

    Attributes:
        paths: The template files, by their names in messages.
        releases: The release to each template, by the same names.
        warnings: Warnings about the release configuration.
        types: The types of templates that do not exist yet, by the same names.
        bundle: The bundle.
        render: Renders other bundles.
    """

    paths: Mapping[str, Path]
    releases: Mapping[str, TemplateRelease]
    warnings: tuple[str, ...]
    types: Mapping[str, TemplateType]
    bundle: TemplateBundle
    render: BundleRenderer

    def edit(self, name: str, content: bytes) -> TemplateEdit:
        """Add the bundle to a template; an empty one is created. Raises what `add` does."""
        release = self.releases[name]
        is_new = not content and name in self.types
        new = _NEW_TEMPLATES[self.types[name]].encode() if is_new else content
        # As in operator-pipelines, the default channel counts for the first bundle of a basic template only.
        default = release.default_channel if is_new and self.types[name] is TemplateType.BASIC else ""
        options = TemplateAddOptions(release.channels, release.edges, create_channels=True, default_channel=default)
        return add(EditableTemplate.parse(new, name), self.bundle, options, self.render)


def plan_release(directory: Path, bundle: TemplateBundle, render: BundleRenderer) -> ReleasePlan:
    """Return the templates of the release configuration in a bundle directory.

    Raises:
        CatalogError: The directory has no release configuration.
        InvalidCatalog: The configuration is invalid, or names a template that neither exists nor is in ``ci.yaml``.
        DiskError: A file cannot be read.
    """
    config = directory / RELEASE_CONFIG
    if not config.is_file():
        hint = f"write {RELEASE_CONFIG} with catalog_templates, or add the bundle to each template"
        raise CatalogError(f"{config}: no such file or directory", hint=hint)
    operator = directory.parent if directory.name not in ("", "..") else directory / ".."
    read = read_release_config(config)
    releases = {str(operator / TEMPLATES / release.template): release for release in read.releases}
    paths = {name: Path(name) for name in releases}
    missing = {name: releases[name] for name, path in paths.items() if not path.exists()}
    types = _mapped_types(operator) if missing else {}
    for name, release in missing.items():
        if types.get(release.template) not in _NEW_TEMPLATES:
            finding = CatalogFinding(f"template {name} does not exist, and {CI_FILE} does not give its type")
            hint = f"create the template, or add it to the catalog_mapping in {CI_FILE} with a type"
            raise InvalidCatalog(str(finding.at(release.location)), hint=hint)
    new = {name: types[release.template] for name, release in missing.items()}
    return ReleasePlan(paths, releases, read.warnings, new, bundle, render)


def _mapped_types(operator: Path) -> dict[str, TemplateType]:
    """Return the types of the templates in the ``catalog_mapping`` of ``ci.yaml``, by file name."""
    path = next((path for path in (operator / CI_FILE, operator / "ci.yml") if path.is_file()), None)
    mapped = read_catalog_mapping(path).templates if path else ()
    return {template.name: template.type for template in mapped}


_FIELDS = ("template_name", "channels", "defaultChannel", "replaces", "skips", "skipRange")


class TemplateRelease(Struct, frozen=True):
    """The release of a bundle to one template.

    Attributes:
        template: The name of the template file.
        channels: The channels, or in a semver template the lists.
        default_channel: The default channel of a new template, "" for the first of the channels.
        edges: The edges of the bundle; None for those that are not given.
        location: The file and line of the configuration.
    """

    template: str
    channels: tuple[str, ...]
    default_channel: str
    edges: EdgeOptions
    location: SourceLocation


class ReleaseConfig(Struct, frozen=True):
    """A release configuration, and warnings about it."""

    releases: tuple[TemplateRelease, ...]
    warnings: tuple[str, ...] = ()


def read_release_config(path: Path) -> ReleaseConfig:
    """Read a release configuration.

    Raises:
        InvalidCatalog: The configuration is invalid; the error lists all findings with their lines.
        DiskError: The file cannot be read.
    """
    file = TemplateFile.open(path)
    reader = file.mapping("Write catalog_templates: a list with template_name and channels.")
    file.check_foreign_fields(reader, "merge", "catalog_templates")
    releases = tuple(_read_releases(file, reader))
    if not file.findings and not releases:
        file.report((), "catalog_templates is missing or empty", hint="List a template with its channels.")
    file.raise_findings()
    return ReleaseConfig(releases, tuple(map(str, file.warnings)))


def _read_releases(file: TemplateFile, reader: FieldReader) -> Iterator[TemplateRelease]:
    names: set[str] = set()
    for entry in reader.mappings("catalog_templates"):
        file.check_foreign_fields(entry, *_FIELDS)
        name, channels = entry.string("template_name"), entry.strings("channels")
        location = file.location((*entry.path, "template_name"))
        if not name or not channels:
            file.report(entry.path, "template_name and channels are required", hint="Set both.")
        elif not is_safe_name(name):
            hint = f"Write the name of a file in the directory {TEMPLATES}."
            file.report((*entry.path, "template_name"), f"invalid template_name {name!r}", hint=hint)
        elif name in names:
            file.report((*entry.path, "template_name"), f"{name} is listed twice", hint="List all channels once.")
        names.add(name)
        default = entry.string("defaultChannel")
        if default and default not in channels:
            problem = f"defaultChannel {default!r} is not one of the channels: {join_names(channels)}"
            file.report((*entry.path, "defaultChannel"), problem, hint="Name one of the channels.")
        edges = EdgeOptions(
            replaces=entry.string("replaces") or None,
            skips=entry.strings("skips") if entry.any("skips") is not None else None,
            skip_range=entry.string("skipRange") or None,
        )
        yield TemplateRelease(name, channels, default, edges, location)
