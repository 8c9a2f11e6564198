"""Semver templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import Icon
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.templates.render import TemplateType

from .samples import SVG, image, render, render_error, semver

if TYPE_CHECKING:
    from opmkit.index.fbc.blobs import Blobs

BOTH = {"generateMajorChannels": True, "generateMinorChannels": True}
SIX_VERSIONS = ("1.2.0", "1.0.0", "1.0.1", "1.1.1", "1.0.2", "1.1.0")


def edges(blobs: Blobs, name: str) -> dict[str, tuple[str, ...]]:
    """Return the versions that each entry of a channel replaces (first) and skips."""
    (channel,) = (channel for channel in blobs.channels if channel.name == name)
    return {
        entry.name.removeprefix("reef.v"): tuple(name.removeprefix("reef.v") for name in (entry.replaces, *entry.skips))
        for entry in channel.entries
    }


def test_highest_patch_replaces_that_of_the_previous_minor_version_and_skips_all_others() -> None:
    blobs = render(semver(**BOTH, candidate=SIX_VERSIONS))
    expected = {
        "1.0.0": ("",),
        "1.0.1": ("",),
        "1.0.2": ("", "1.0.0", "1.0.1"),
        "1.1.0": ("",),
        "1.1.1": ("1.0.2", "1.0.0", "1.0.1", "1.1.0"),
        "1.2.0": ("1.1.1", "1.0.0", "1.0.1", "1.0.2", "1.1.0"),
    }
    assert edges(blobs, "candidate-v1") == expected
    assert edges(blobs, "candidate-v1.1") == {version: expected[version] for version in ("1.1.0", "1.1.1")}
    assert [channel.name for channel in blobs.channels] == [f"candidate-v{end}" for end in ("1", "1.0", "1.1", "1.2")]


def test_update_edges_of_earlier_releases() -> None:
    def of(release: str) -> dict[str, tuple[str, ...]]:
        return edges(render(semver(**BOTH, fast=SIX_VERSIONS), compat=CatalogCompat.parse(release)), "fast-v1")

    newest = of("newest")
    assert of("1.26") == of("1.36") == of("1.61") == newest
    patches = {"1.0.2": ("", "1.0.0", "1.0.1"), "1.1.1": ("1.0.2", "1.1.0"), "1.2.0": ("1.1.1",)}
    assert of("1.57") == of("1.60") == newest | patches
    skips = {"1.1.1": ("1.0.2", "1.0.2", "1.1.0"), "1.2.0": ("1.1.1", "1.1.1")}
    assert of("1.37") == of("1.56") == newest | patches | skips


def test_major_versions_and_archetypes_are_independent() -> None:
    blobs = render(semver(**BOTH, candidate=("1.0.0", "2.0.0", "2.0.1"), stable=("1.0.0", "1.0.1", "1.1.1")))
    assert edges(blobs, "candidate-v2") == {"2.0.0": ("",), "2.0.1": ("", "2.0.0")}
    assert edges(blobs, "stable-v1") == {"1.0.0": ("",), "1.0.1": ("", "1.0.0"), "1.1.1": ("1.0.1", "1.0.0")}


@pytest.mark.parametrize(
    ("fields", "default"),
    [
        ({"candidate": ("2.0.0",), "stable": ("1.0.0", "1.1.0"), **BOTH}, "stable-v1.1"),
        ({"candidate": ("1.0.0",), **BOTH}, "candidate-v1.0"),
        ({"candidate": ("1.0.0",), **BOTH, "defaultChannelTypePreference": "major"}, "candidate-v1"),
        ({"fast": ("1.0.0", "1.1.0"), "generateMajorChannels": True}, "fast-v1"),
        ({"fast": ("1.0.0", "1.1.0"), "generateMajorChannels": False}, "fast-v1.1"),
        ({"fast": ("1.0.0",), "generateMajorChannels": False, "generateMinorChannels": False}, "fast-v1.0"),
        ({"candidate": ("0.0.0-alpha",)}, "candidate-v0.0"),
    ],
)
def test_default_channel_is_the_most_stable_then_the_highest_then_the_preferred(
    fields: dict[str, Any], default: str
) -> None:
    (package,) = render(semver(**fields)).packages
    assert package.default_channel == default


def test_package_has_icon_and_description_of_the_head_of_the_default_channel() -> None:
    (package,) = render(semver(**BOTH, candidate=("3.0.0",), stable=("1.0.0", "1.0.1"))).packages
    assert (package.name, package.description, package.icon) == ("reef", "Reef 1.0.1", Icon(SVG, "image/svg+xml"))


def test_opm_1_26_generates_minor_channels_by_default_and_no_description() -> None:
    blobs = render(semver(generateMajorChannels=True, candidate=("1.0.0",)), compat=CatalogCompat.OPM_1_26)
    assert [channel.name for channel in blobs.channels] == ["candidate-v1", "candidate-v1.0"]
    (package,) = blobs.packages
    assert (package.icon, package.description, package.default_channel) == (None, "", "candidate-v1.0")
    both = semver(**BOTH, candidate=("9.0.0",), fast=("1.0.0",), stable=("1.1.0", "1.0.0"))
    assert render(both, compat=CatalogCompat.OPM_1_26).packages[0].default_channel == "stable-v1.1"
    neither = semver(generateMajorChannels=False, generateMinorChannels=False, fast=("1.0.0",))
    with pytest.raises(InvalidCatalog, match="no channels to generate"):
        render(neither, compat=CatalogCompat.OPM_1_26)


def test_all_findings_are_collected_with_their_lines() -> None:
    message = render_error(
        "schema: olm.semver\n"
        "genrateMajorChannels: true\n"
        "generateMinorChannels: yep\n"
        "defaultChannelTypePreference: patch\n"
        "candidate:\n"
        "  bundels: []\n"
        "  bundles:\n"
        "  - {image: 1}\n"
        "  - {}\n"
        "stable: []\n"
        "---\n"
        "more: 1\n"
    )
    for line, problem in (
        (2, "unknown field genrateMajorChannels"),
        (3, "generateMinorChannels is a string, not a boolean"),
        (4, "invalid defaultChannelTypePreference 'patch'"),
        (6, "unknown field candidate.bundels"),
        (8, "candidate.bundles[0].image is a number, not a string"),
        (9, "the bundle has no image"),
        (10, "stable is a list, not a mapping"),
        (12, "a template must be a single document"),
    ):
        assert f"t.yaml:{line}: " in message, message
        assert problem in message, message


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("just text", "the document is a string, not a mapping"),
        ("", "empty document"),
        ("schema: olm.other", "the schema is 'olm.other', not 'olm.semver'"),
        ("a: 1", "the document has no schema"),
        ("schema: olm.semver", "the template has no bundles"),
        ("schema: olm.semver\nschema: olm.semver", "duplicate key 'schema'"),
        ("schema: [", "invalid YAML or JSON"),
        (semver(candidate=("1.0.0", "1.0.0")), "listed twice under candidate"),
        (semver(candidate=("1.0.0+1", "1.0.0+2")), "version 1.0.0+2 has the same precedence as 1.0.0+1"),
        (semver(candidate=("1.0",)), "is not of the form MAJOR.MINOR.PATCH"),
        (semver(candidate=("1.0.0",), defaultChannelTypePreference="major"), "no major channels are generated"),
    ],
)
def test_invalid_templates(value: Any, problem: str) -> None:
    assert problem in render_error(value, TemplateType.SEMVER)


def test_bundles_must_belong_to_one_package() -> None:
    value = semver(candidate=("1.0.0",))
    value["stable"] = {"bundles": [{"image": image("1.0.0", "lagoon")}]}
    message = 'bundle "lagoon.v1.0.0": belongs to package "lagoon", but the first bundle belongs to package "reef"'
    assert message in render_error(value)
