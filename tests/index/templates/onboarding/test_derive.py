"""The smallest template whose rendering equals what is published."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from msgspec import structs

from opmkit.bundle.validation.openshift import OpenShiftVersion
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import BlobProperty, Blobs, BundleBlob
from opmkit.index.fbc.csv_metadata import MigrationLevel, migrate
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.templates.onboarding.derive import (
    CatalogComparison,
    DerivedTemplate,
    check_template,
    compare_catalogs,
    derive_template,
    format_versions,
    plan_templates,
)
from opmkit.index.templates.render import TemplateType
from tests.index.templates.samples import (
    PACKAGE,
    bundle,
    catalog,
    channel,
    entry,
    image,
    render,
    render_images,
    semver,
    template,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

V12, V13, V14, V16 = (OpenShiftVersion(4, minor) for minor in (12, 13, 14, 16))


def blobs(documents: Sequence[dict[str, Any]]) -> Blobs:
    return parse_blobs(b"\n".join(json.dumps(document).encode() for document in documents), "catalog.json")


def derived(published: Blobs) -> tuple[TemplateType, Any]:
    """Return type and content of the template, whose rendering must equal what is published."""
    result = derive_template(published)
    assert result.comparison.is_equal
    level = MigrationLevel.NONE
    if any(item.type == "olm.csv.metadata" for blob in published.bundles for item in blob.properties):
        level = MigrationLevel.CSV_METADATA
    file = template(result.content.decode())
    assert check_template(file, result.type, published, render_images, level).is_equal
    return result.type, yaml.safe_load(result.content)


def test_basic_template_lists_images_and_retains_everything_else() -> None:
    deprecations = {
        "schema": "olm.deprecations",
        "package": "reef",
        "entries": [{"reference": {"schema": "olm.bundle", "name": "reef.v1.0.0"}, "message": "old"}],
    }
    package = {
        **PACKAGE,
        "icon": {"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"},
        "description": "Reefs: #1 <&>",
        "properties": [{"type": "custom", "value": {"b": 1, "a": [1.5, None]}}],
    }
    other = {"schema": "custom", "package": "reef", "name": "x", "value": "yes"}
    edges = channel(entry("1.1.0", replaces="reef.v0.9.0", skips=["reef.v1.0.0", "x"], skipRange="<1.1.0"))
    documents: list[dict[str, Any]] = [
        deprecations,
        other,
        *catalog("1.0.0", "1.1.0")[2:],
        {**edges, "properties": []},
        package,
    ]
    type_, content = derived(blobs(documents))
    assert type_ is TemplateType.BASIC
    assert list(content) == ["schema", "entries"]
    assert content["entries"] == [
        package,
        edges,
        {"schema": "olm.bundle", "image": image("1.0.0")},
        {"schema": "olm.bundle", "image": image("1.1.0")},
        other,
        deprecations,
    ]


@pytest.mark.parametrize(
    "value",
    [
        semver(stable=["1.0.0", "1.0.1", "1.1.0", "2.0.0"]),
        semver(candidate=["1.0.0", "1.1.0", "1.1.1"], fast=["1.1.0"], stable=["1.0.0"], generateMajorChannels=True),
        semver(
            stable=["1.0.0", "1.0.1"],
            generateMajorChannels=True,
            generateMinorChannels=True,
            defaultChannelTypePreference="major",
        ),
        semver(stable=["1.0.0", "1.1.0"], generateMajorChannels=True, generateMinorChannels=True),
    ],
    ids=["minor", "archetypes", "major preferred", "minor preferred"],
)
@pytest.mark.parametrize("level", [MigrationLevel.NONE, MigrationLevel.CSV_METADATA])
def test_semver_template_is_found_again(value: dict[str, Any], level: MigrationLevel) -> None:
    published = migrate(render(value), level)
    type_, content = derived(published)
    assert type_ is TemplateType.SEMVER
    for archetype in ("candidate", "fast", "stable"):
        assert content.get(archetype) == value.get(archetype)
    assert content.get("defaultChannelTypePreference") == value.get("defaultChannelTypePreference")


def _change(published: Blobs, kind: str) -> Blobs:
    head, *channels = published.channels
    package = published.packages[0]
    prop = BlobProperty("olm.package", 7)
    first, *bundles = published.bundles
    changed = {
        "edges": replace(
            published,
            channels=(replace(head, entries=tuple(structs.replace(e, skips=()) for e in head.entries)), *channels),
        ),
        "order": replace(published, channels=(replace(head, entries=head.entries[::-1]), *channels)),
        "default": replace(published, packages=(replace(package, default_channel=head.name),)),
        "icon": replace(published, packages=(replace(package, icon=None),)),
        "description": replace(published, packages=(replace(package, description="other"),)),
        "package properties": replace(published, packages=(replace(package, properties=(BlobProperty("a", 1),)),)),
        "channel properties": replace(
            published, channels=(replace(head, properties=(BlobProperty("a", 1),)), *channels)
        ),
        "channel name": replace(published, channels=(replace(head, name="alpha"), *channels)),
        "no channels": replace(published, channels=()),
        "bundle without channel": replace(published, bundles=(*published.bundles, bundle("9.0.0"))),
        "missing bundle": replace(published, bundles=published.bundles[1:]),
        "version": replace(published, bundles=(replace(first, properties=(prop,)), *bundles)),
    }
    return changed[kind]


@pytest.mark.parametrize(
    "kind",
    [
        *("edges", "order", "default", "icon", "description", "package properties", "channel properties"),
        *("channel name", "no channels", "bundle without channel", "missing bundle", "version"),
    ],
)
def test_channels_that_a_semver_template_would_not_generate_need_a_basic_one(kind: str) -> None:
    published = render(semver(stable=["1.0.0", "1.0.1", "1.0.2", "1.1.0", "1.1.1"]))
    assert derive_template(published).type is TemplateType.SEMVER
    changed = _change(published, kind)
    assert changed != published
    result = derive_template(changed)
    assert (result.type, result.comparison.is_equal) == (TemplateType.BASIC, True)


def test_bundles_of_equal_precedence_need_a_basic_template() -> None:
    documents = [PACKAGE, channel(entry("1.0.0+a"), entry("1.0.0+b", replaces="reef.v1.0.0+a"), name="stable-v1.0")]
    published = replace(blobs(documents), bundles=(bundle("1.0.0+a"), bundle("1.0.0+b")))
    assert derive_template(published).type is TemplateType.BASIC


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([channel(entry("1.0.0"))], "no olm.package"),
        ([PACKAGE, {"schema": "olm.bundle", "name": "reef.v1", "package": "reef"}], "without an image.*reef.v1"),
    ],
)
def test_content_that_no_template_expresses_is_an_error_with_a_hint(
    documents: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(CatalogError, match=message) as raised:
        derive_template(blobs(documents))
    assert raised.value.hint


def test_bundles_that_share_an_image_are_a_difference() -> None:
    published = blobs(catalog("1.0.0", "1.1.0"))
    twin = replace(published.bundles[0], image=published.bundles[1].image)
    comparison = derive_template(replace(published, bundles=(twin, published.bundles[1]))).comparison
    assert comparison.documents == ("olm.bundle reef.v1.0.0", "olm.bundle reef.v1.1.0")
    assert [change.name for package in comparison.diff.packages for change in package.bundles] == ["reef.v1.0.0"]
    assert not comparison.is_equal


def test_check_reports_what_changed_in_the_images() -> None:
    published = blobs(catalog("1.0.0", "1.1.0"))
    result = derive_template(published)

    def changed(images: Sequence[str], /) -> dict[str, BundleBlob]:
        rendered = render_images(images)
        added = BlobProperty("new", 1)
        return {
            name: replace(blob, properties=(added, *blob.properties)) if "1.1.0" in name else blob
            for name, blob in rendered.items()
        }

    comparison = check_template(template(result.content.decode()), result.type, published, changed, MigrationLevel.NONE)
    assert comparison.documents == ("olm.bundle reef.v1.1.0",)
    (package,) = comparison.diff.packages
    assert [(change.kind.value, change.name) for change in package.bundles] == [("changed", "reef.v1.1.0")]
    assert json.dumps(comparison.to_dict())


def test_equality_distinguishes_json_types_and_ignores_the_order_of_documents() -> None:
    published = blobs(catalog("1.0.0", "1.1.0"))
    assert compare_catalogs(published, replace(published, bundles=published.bundles[::-1])).is_equal
    one, true = (
        replace(published, packages=(replace(published.packages[0], properties=(BlobProperty("a", value),)),))
        for value in (1, True)
    )
    assert compare_catalogs(one, true).documents == ("olm.package reef",)


def derived_of(content: str, type_: TemplateType = TemplateType.BASIC) -> DerivedTemplate:
    published = blobs(catalog("1.0.0"))
    comparison: CatalogComparison = compare_catalogs(published, published)
    return DerivedTemplate(type_, content.encode(), comparison)


def test_versions_with_equal_templates_share_a_file() -> None:
    same, other = derived_of("a"), derived_of("b")
    (shared,) = plan_templates({V13: same, V12: same})
    assert (shared.name, shared.catalogs) == ("basic.yaml", ("v4.12", "v4.13"))
    planned = plan_templates({V12: same, V13: same, V14: other, V16: same})
    assert {each.name: each.catalogs for each in planned} == {
        "v4.12-v4.13_v4.16.yaml": ("v4.12", "v4.13", "v4.16"),
        "v4.14.yaml": ("v4.14",),
    }
    planned = plan_templates({V12: same, V13: same}, per_version=True)
    assert [each.name for each in planned] == ["v4.12.yaml", "v4.13.yaml"]
    assert [each.name for each in plan_templates({V12: same}, per_version=True)] == ["v4.12.yaml"]
    (only,) = plan_templates({V12: derived_of("a", TemplateType.SEMVER)})
    assert only.name == "semver.yaml"
    types = plan_templates({V12: same, V13: derived_of("a", TemplateType.SEMVER)})
    assert [(each.name, each.type.value) for each in types] == [("v4.12.yaml", "basic"), ("v4.13.yaml", "semver")]


def test_versions_are_ranges_of_the_published_ones() -> None:
    published = [V12, V14, V16]
    assert format_versions(published, published) == "v4.12-v4.16"
    assert format_versions([V12, V16], published) == "v4.12, v4.16"
    assert format_versions([], published) == ""
