"""Bundles in the lists of semver templates, and substitutions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from opmkit.imagetools.errors import RegistryUnavailable
from opmkit.index.templates.render import TemplateType
from tests.index.templates.samples import bundle, image, render, substitutes

from .samples import added, difference, failure, promoted, render_all, result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.fbc.blobs import BundleBlob

SEMVER = """\
# semver template
schema: olm.semver
generateMinorChannels: true
candidate:  # all
  bundles:
  - image: quay.io/example/reef:1.0.0
  - image: quay.io/example/reef:1.1.0   # latest
stable:
  bundles:
  - image: quay.io/example/reef:1.0.0
"""
CAPITALIZED = """\
Schema: olm.semver
GenerateMajorChannels: true
Candidate:
  Bundles:
    - Image: quay.io/example/reef:1.0.0
"""


def test_a_bundle_is_listed_under_each_archetype() -> None:
    edit = added(SEMVER, "1.2.0", "Candidate", "fast", render=render_all)
    assert difference(SEMVER, edit) == [
        "+  - image: quay.io/example/reef:1.2.0",
        "+fast:",
        "+  bundles:",
        "+  - image: quay.io/example/reef:1.2.0",
    ]
    assert added(result(edit), "1.2.0", "candidate", "fast").changes == ()
    assert render(result(edit), TemplateType.SEMVER).bundles[-1].name == "reef.v1.2.0"


def test_keys_have_the_case_of_the_template() -> None:
    edit = added(CAPITALIZED, "1.1.0", "Fast", "Candidate", render=render_all)
    assert difference(CAPITALIZED, edit) == [
        "+    - Image: quay.io/example/reef:1.1.0",
        "+Fast:",
        "+  Bundles:",
        "+    - Image: quay.io/example/reef:1.1.0",
    ]
    assert added(CAPITALIZED, "1.1.0", render=render_all).changes[0].subject == "channel candidate"


@pytest.mark.parametrize("text", ["schema: olm.semver\n", "schema: olm.semver\nstable:\n  bundles: []\n"])
def test_an_empty_template_is_filled(text: str) -> None:
    edit = added(text, "1.0.0", "stable", render=render_all)
    assert yaml.safe_load(result(edit))["stable"] == {"bundles": [{"image": image("1.0.0")}]}


@pytest.mark.parametrize("indent", [None, 2, "\t"])
def test_json_is_edited(indent: int | str | None) -> None:
    text = json.dumps(yaml.safe_load(SEMVER), indent=indent)
    new = result(added(text, "1.2.0", "stable", "fast", render=render_all))
    assert new == json.dumps(json.loads(new), indent=indent)
    assert [len(json.loads(new)[name]["bundles"]) for name in ("candidate", "stable", "fast")] == [2, 2, 1]


@pytest.mark.parametrize("bundle_name", [image("1.1.0"), "reef.v1.1.0", "1.1.0", "v1.1.0"])
def test_a_bundle_is_promoted_by_image_name_or_version(bundle_name: str) -> None:
    edit = promoted(SEMVER, bundle_name, "stable", render=render_all)
    assert difference(SEMVER, edit) == ["+  - image: quay.io/example/reef:1.1.0"]
    assert promoted(result(edit), bundle_name, "stable", render=render_all).changes == ()


@pytest.mark.parametrize(
    ("version", "channels", "edges", "expected"),
    [
        ("1.2.0", ("beta",), {}, 't.yaml:2: channel "beta" not found: a semver template has candidate, fast, stable'),
        ("1.2.0", (), {}, "no channel given, in a semver template\npass channel=candidate,stable"),
        ("1.2.0", ("fast",), {"replaces": "x"}, "unsupported: replaces in a template of type semver\nomit replaces"),
        ("1.2.0", ("fast",), {"base": "x"}, "unsupported: base in a template of type semver"),
        ("1.0.0+x", ("stable",), {}, "has the same precedence as 1.0.0"),
    ],
)
def test_invalid_edits_are_rejected(
    version: str, channels: tuple[str, ...], edges: dict[str, str], expected: str
) -> None:
    assert expected in failure(lambda: added(SEMVER, version, *channels, render=render_all, **edges))  # type: ignore[arg-type]


def test_bundles_of_other_packages_are_rejected() -> None:
    message = failure(lambda: added(SEMVER, "1.2.0", "stable", package="dock", render=render_all))
    assert 'belongs to package "dock", but the first bundle belongs to package "reef"' in message


def test_unknown_bundles_are_not_promoted() -> None:
    assert "9.0.0 not found in stable" in failure(
        lambda: promoted(SEMVER, "9.0.0", "fast", source="stable", render=render_all)
    )


def test_other_bundles_that_cannot_be_read_cause_a_warning() -> None:
    def unavailable(images: Sequence[str], /) -> dict[str, BundleBlob]:
        assert image("1.2.0") not in images
        raise RegistryUnavailable("quay.io: timed out")

    edit = added(SEMVER, "1.2.0", "stable", render=unavailable)
    assert edit.warnings == ("t.yaml: the versions of the other bundles are not checked: quay.io: timed out",)
    assert edit.changes


def test_the_images_of_a_rebuilt_bundle_are_replaced_in_all_lists() -> None:
    rebuilt = SEMVER.replace("reef:1.0.0", "reef:old")

    def rendered(images: Sequence[str], /) -> dict[str, BundleBlob]:
        return {name: bundle(name.rpartition(":")[2].replace("old", "1.0.0")) for name in images}

    edit = added(rebuilt, "1.0.0", render=rendered, overwrite=True)
    assert result(edit) == SEMVER
    assert [change.subject for change in edit.changes] == ["channel candidate", "channel stable"]
    assert added(SEMVER, "1.0.0", render=rendered, overwrite=True).changes == ()


def test_substitutions_are_added() -> None:
    text = yaml.safe_dump(substitutes(), sort_keys=False)
    edit = added(text, "1.1.1", base="reef.v1.1.0", render=render_all)
    assert difference(text, edit) == [
        "-substitutions: []",
        "+substitutions:",
        "+- name: quay.io/example/reef:1.1.1",
        "+  base: reef.v1.1.0",
    ]
    assert [str(change) for change in edit.changes] == ["bundle reef.v1.1.0: substituted by reef.v1.1.1"]
    assert added(result(edit), "1.1.1", base="reef.v1.1.0").changes == ()
    assert render(result(edit)).bundles[-1].name == bundle("1.1.1").name
    assert "unsupported: channel" in failure(lambda: added(text, "1.1.1", "a", base="reef.v1.1.0"))


@pytest.mark.parametrize(
    ("version", "base", "expected"),
    [
        ("1.1.1", "reef.v1.2.0", "already substitutes reef.v1.1.0"),
        ("1.1.2", "reef.v9.0.0", 'base bundle "reef.v9.0.0" not found in the catalog'),
        ("1.1.2", "", "cannot be added to a substitutes template\npass the bundle that it substitutes with base"),
    ],
)
def test_invalid_substitutions_are_rejected(version: str, base: str, expected: str) -> None:
    text = yaml.safe_dump(substitutes(("1.1.1", "reef.v1.1.0")), sort_keys=False)
    assert expected in failure(lambda: added(text, version, base=base, render=render_all))
