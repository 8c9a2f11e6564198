"""Release of a bundle to the templates of its operator, in the layout of operator repositories."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.validation.operator_directory import RELEASE_CONFIG
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.findings import CatalogFinding
from opmkit.index.templates import basic, semver
from opmkit.index.templates.ci_config import CI_FILE, TEMPLATES, read_catalog_mapping
from opmkit.index.templates.edit.apply import AddOptions, add
from opmkit.index.templates.edit.release_config import read_release_config
from opmkit.index.templates.edit.template import EditableTemplate
from opmkit.index.templates.render import TemplateType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.index.templates.edit.bundles import TemplateBundle
    from opmkit.index.templates.edit.release_config import TemplateRelease
    from opmkit.index.templates.edit.result import TemplateEdit
    from opmkit.index.templates.renderer import BundleRenderer

_NEW_TEMPLATES = {
    TemplateType.BASIC: f"---\nschema: {basic.SCHEMA}\nentries: []\n",
    TemplateType.SEMVER: f"---\nschema: {semver.SCHEMA}\ngenerateMajorChannels: true\ngenerateMinorChannels: true\n",
}
"""Templates without bundles, by type."""


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """The templates that a bundle is added to.

    Attributes:
        paths: The template files, by their names in messages.
        releases: The release to each template, by the same names.
        types: The types of templates that do not exist yet, by the same names.
        bundle: The bundle.
        render: Renders other bundles.
    """

    paths: Mapping[str, Path]
    releases: Mapping[str, TemplateRelease]
    types: Mapping[str, TemplateType]
    bundle: TemplateBundle
    render: BundleRenderer

    def edit(self, name: str, content: bytes) -> TemplateEdit:
        """Add the bundle to a template; an empty one is created. Raises what `add` does."""
        release = self.releases[name]
        new = _NEW_TEMPLATES[self.types[name]].encode() if not content and name in self.types else content
        options = AddOptions(release.channels, release.edges, create_channels=True)
        return add(EditableTemplate.parse(new, name), self.bundle, options, self.render)


def plan_release(directory: Path, bundle: TemplateBundle, render: BundleRenderer) -> ReleasePlan:
    """Return the templates of the release configuration in a bundle directory.

    Raises:
        CatalogError: the directory has no release configuration.
        InvalidCatalog: the configuration is invalid, or names a template that neither exists nor is in ``ci.yaml``.
        DiskError: a file cannot be read.
    """
    config = directory / RELEASE_CONFIG
    if not config.is_file():
        hint = f"write {RELEASE_CONFIG} with catalog_templates, or add the bundle to each template"
        raise CatalogError(f"{config}: no such file or directory", hint=hint)
    operator = directory.parent if directory.name not in ("", "..") else directory / ".."
    releases = {str(operator / TEMPLATES / release.template): release for release in read_release_config(config)}
    paths = {name: Path(name) for name in releases}
    missing = {name: releases[name] for name, path in paths.items() if not path.exists()}
    types = _mapped_types(operator) if missing else {}
    for name, release in missing.items():
        if types.get(release.template) not in _NEW_TEMPLATES:
            finding = CatalogFinding(f"template {name} does not exist, and {CI_FILE} does not give its type")
            hint = f"create the template, or add it to the catalog_mapping in {CI_FILE} with a type"
            raise InvalidCatalog(str(finding.at(release.location)), hint=hint)
    return ReleasePlan(
        paths, releases, {name: types[release.template] for name, release in missing.items()}, bundle, render
    )


def _mapped_types(operator: Path) -> dict[str, TemplateType]:
    """Return the types of the templates in the ``catalog_mapping`` of ``ci.yaml``, by file name."""
    path = next((path for path in (operator / CI_FILE, operator / "ci.yml") if path.is_file()), None)
    mapped = read_catalog_mapping(path).templates if path else ()
    return {template.name: template.type for template in mapped}
