"""Templates for published packages: the smallest ones whose rendering equals what is published.

A semver template is the smallest, but only suits channels that it would generate itself. A basic template suits all
catalogs. The types ``substitutes`` and ``composite`` are not considered: they are never smaller than the basic
templates that they contain, and the catalog mapping of ``ci.yaml`` does not allow them.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.versions import strict_version, version_key
from opmkit.core.json_types import JsonResult
from opmkit.documents.fields import member
from opmkit.documents.yaml_writer import dump_yaml
from opmkit.index.diff.fbc import diff_blobs
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc import blobs as schemas
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, CSV_METADATA, BundleBlob
from opmkit.index.fbc.model import version_text
from opmkit.index.fbc.write import blob_to_dict, canonical_json, sort_blobs
from opmkit.index.suggestions import shorten
from opmkit.index.templates import basic, semver
from opmkit.index.templates.document import TemplateFile
from opmkit.index.templates.render import TemplateType, render_template

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.bundle.validation.openshift import OpenShiftVersion
    from opmkit.documents.json_value import JsonValue
    from opmkit.index.diff.model import IndexDiff
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.fbc.csv_metadata import MigrationLevel
    from opmkit.index.templates.renderer import BundleRenderer

SCHEMA_BY_TYPE = {TemplateType.BASIC: basic.SCHEMA, TemplateType.SEMVER: semver.SCHEMA}
"""The schemas that the catalog mapping of ``ci.yaml`` allows, by type of template."""
_CHANNEL = re.compile(r"(candidate|fast|stable)-v(?:0|[1-9][0-9]*)(\.(?:0|[1-9][0-9]*))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class CatalogComparison(JsonResult):
    """The published content of a package, compared with the rendering of a template.

    Attributes:
        documents: Schemas and names of the documents that are not equal, or only in one of them.
        diff: The difference as `Opm.compare_indexes` reports it, from published to rendered. It is empty if documents
            only differ in their order, or in the order of channel entries.
    """

    documents: tuple[str, ...]
    diff: IndexDiff

    @property
    def is_equal(self) -> bool:
        """Return whether the rendering equals the published content, byte for byte in the same format."""
        return not self.documents


def compare_catalogs(published: Blobs, rendered: Blobs) -> CatalogComparison:
    """Compare the published blobs of a package with rendered ones; the order of blobs does not matter."""
    before, after = _group_documents(published), _group_documents(rendered)
    names = (name for name in {**before, **after} if before.get(name) != after.get(name))
    return CatalogComparison(tuple(sorted(names)), diff_blobs(published, rendered))


def _group_documents(blobs: Blobs) -> dict[str, list[bytes]]:
    """Return the canonical content of the blobs by schema and name."""
    documents: defaultdict[str, list[bytes]] = defaultdict(list)
    for blob in blobs:
        documents[f"{blob.schema} {blob.name}".strip()].append(canonical_json(blob))
    return {name: sorted(contents) for name, contents in documents.items()}


class DerivedTemplate(Struct, frozen=True):
    """A template for the published content of a package.

    Attributes:
        type: The type of the template.
        content: The content of the file.
        comparison: The published content compared with the rendering, as far as published bundles determine it.
    """

    type: TemplateType
    content: bytes
    comparison: CatalogComparison


def derive_template(published: Blobs) -> DerivedTemplate:
    """Return the smallest template for the published blobs of one package; no image is read.

    Raises:
        CatalogError: Templates cannot express the content: it has no ``olm.package``, or a bundle has no image.
    """
    if not published.packages:
        raise CatalogError("the catalog has no olm.package document for it", hint="publish the package again")
    if unnamed := [bundle.name for bundle in published.bundles if not bundle.image]:
        raise CatalogError(
            f"bundles without an image cannot be listed in a template: {shorten(unnamed)}",
            hint="publish images of these bundles first",
        )
    known = {bundle.image: bundle for bundle in published.bundles}
    for content in _semver_candidates(published):
        comparison = _compare_semver(content, published, known)
        if comparison and comparison.is_equal:
            return DerivedTemplate(TemplateType.SEMVER, content, comparison)
    rendered = replace(published, bundles=tuple(known[bundle.image] for bundle in published.bundles))
    return DerivedTemplate(TemplateType.BASIC, _basic_template(published), compare_catalogs(published, rendered))


def check_template(
    template: TemplateFile, type_: TemplateType, published: Blobs, render: BundleRenderer, level: MigrationLevel
) -> CatalogComparison:
    """Compare the published blobs of a package with a template, whose bundle images are rendered.

    Raises:
        InvalidCatalog: The template is invalid; the error lists all findings.
        CatalogError: A bundle cannot be rendered.
        ImageToolsError: A bundle image cannot be read.
    """
    return compare_catalogs(published, render_template(template, type_, render, level=level))


def _basic_template(published: Blobs) -> bytes:
    """Return a basic template: the blobs in the order of catalogs, with bundles reduced to their images."""
    entries: list[JsonValue] = [
        {"schema": schemas.BUNDLE, "image": blob.image} if isinstance(blob, BundleBlob) else blob_to_dict(blob)
        for blob in sort_blobs(published)
    ]
    return _encode({"schema": basic.SCHEMA, "entries": entries})


def _encode(members: Mapping[str, JsonValue]) -> bytes:
    """Return a YAML document with its members in the given order."""
    return b"---\n" + b"".join(dump_yaml({key: value}) for key, value in members.items())


def _semver_candidates(published: Blobs) -> Iterator[bytes]:
    """Yield semver templates that could generate the channels of a package; none if its channels have other names."""
    (package, *others), channels = published.packages, published.channels
    matches = [_CHANNEL.fullmatch(channel.name) for channel in channels]
    extra = (*others, *published.deprecations, *published.others, *package.properties)
    if extra or not all(matches) or any(channel.properties for channel in channels):
        return
    images = {bundle.name: bundle.image for bundle in published.bundles}
    names: defaultdict[str, set[str]] = defaultdict(set)
    types: set[str] = set()
    for channel, match in zip(channels, filter(None, matches), strict=True):
        names[match[1]].update(entry.name for entry in channel.entries)
        types.add(semver.MINOR if match[2] else semver.MAJOR)
    try:
        keys = {bundle.name: version_key(strict_version(version_text(bundle))) for bundle in published.bundles}
    except ValueError:
        return
    if set().union(*names.values()) != images.keys():
        return
    archetypes: dict[str, JsonValue] = {
        archetype: {"bundles": [{"image": images[name]} for name in sorted(names[archetype], key=keys.__getitem__)]}
        for archetype in semver.ARCHETYPES
        if names[archetype]
    }
    options: dict[str, JsonValue] = {
        "schema": semver.SCHEMA,
        "generateMajorChannels": semver.MAJOR in types,
        "generateMinorChannels": semver.MINOR in types,
    }
    yield _encode({**options, **archetypes})
    if len(types) > 1:
        yield _encode({**options, "defaultChannelTypePreference": semver.MAJOR, **archetypes})


def _compare_semver(content: bytes, published: Blobs, known: Mapping[str, BundleBlob]) -> CatalogComparison | None:
    """Compare the rendering of a semver template; None if the bundles do not suit one.

    Icon and description of the package come from the ClusterServiceVersion of the head. Bundles that were migrated
    lack it: then the description is that in their metadata, and the icon is assumed to be the published one.
    """
    try:
        rendered = semver.render_semver(
            TemplateFile.read(io.BytesIO(content), "semver.yaml"), lambda images: {name: known[name] for name in images}
        )
    except InvalidCatalog:
        return None
    package = rendered.packages[0]
    default = next(channel for channel in rendered.channels if channel.name == package.default_channel)
    head = next(bundle for bundle in rendered.bundles if bundle.name == default.entries[-1].name)
    if not any(True for _ in head.property_values(BUNDLE_OBJECT)):
        description = next((_description(value) for value in head.property_values(CSV_METADATA)), "")
        package = replace(package, icon=published.packages[0].icon, description=description)
    return compare_catalogs(published, replace(rendered, packages=(package,)))


def _description(metadata: JsonValue) -> str:
    description = member(metadata, "description") if isinstance(metadata, dict) else None
    return description if isinstance(description, str) else ""


class PlannedTemplate(Struct, frozen=True):
    """A template file, and the OpenShift versions whose catalogs are rendered from it.

    Attributes:
        name: The name of the file in ``catalog-templates``.
        type: The type of the template.
        content: The content of the file.
        versions: The OpenShift versions, lowest first.
    """

    name: str
    type: TemplateType
    content: bytes
    versions: tuple[OpenShiftVersion, ...]

    @property
    def catalogs(self) -> tuple[str, ...]:
        """Return the names of the catalogs, such as ``v4.17``."""
        return tuple(f"v{version}" for version in self.versions)


def plan_templates(
    derived: Mapping[OpenShiftVersion, DerivedTemplate], *, per_version: bool = False
) -> tuple[PlannedTemplate, ...]:
    """Return the template files for the versions of a package: versions with equal templates share one file.

    A file for all versions is named after its type, others after their versions, such as ``v4.12-v4.16.yaml``.

    Args:
        derived: The template of each version.
        per_version: Whether to write a file for each version, even if they are equal.
    """
    published = sorted(derived)
    groups: defaultdict[tuple[TemplateType, bytes, int], list[OpenShiftVersion]] = defaultdict(list)
    for number, version in enumerate(published):
        template = derived[version]
        groups[template.type, template.content, number if per_version else 0].append(version)
    shared = len(groups) == 1 and not per_version
    return tuple(
        PlannedTemplate(
            f"{type_ if shared else format_versions(versions, published, separator='_')}.yaml",
            type_,
            content,
            tuple(versions),
        )
        for (type_, content, _), versions in groups.items()
    )


def format_versions(
    versions: Sequence[OpenShiftVersion], published: Sequence[OpenShiftVersion], *, separator: str = ", "
) -> str:
    """Return sorted versions as ranges of the published ones, such as ``v4.12-v4.14, v4.16``."""
    positions = enumerate(map(sorted(published).index, versions))
    runs = [list(run) for _, run in groupby(positions, lambda pair: pair[1] - pair[0])]
    texts = ((f"v{versions[run[0][0]]}", f"v{versions[run[-1][0]]}") for run in runs)
    return separator.join(first if first == last else f"{first}-{last}" for first, last in texts)
