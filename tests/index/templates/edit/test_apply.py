"""Bundles in the channels of basic templates."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit.imagetools.errors import RegistryUnavailable
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.templates.edit.apply import TemplateAddOptions, add
from opmkit.index.templates.edit.edges import EdgeOptions
from opmkit.index.templates.edit.template import TemplateBundle
from opmkit.index.templates.render import TemplateType
from tests.index.templates.samples import bundle, image, render

from .samples import BASIC, added, difference, failure, no_render, parse, promoted, render_all, result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.fbc.blobs import BundleBlob


def entries(text: str, channel: str) -> list[dict[str, Any]]:
    """Return the entries of a channel of a template in one document."""
    blobs = yaml.safe_load(text)["entries"]
    return next(blob["entries"] for blob in blobs if (blob["schema"], blob.get("name")) == ("olm.channel", channel))


def test_a_bundle_replaces_the_head_of_each_channel_and_other_text_is_retained() -> None:
    edit = added(BASIC, "1.3.0", "stable", "candidate")
    assert difference(BASIC, edit) == [
        '+      - name: "reef.v1.3.0"',
        "+        replaces: reef.v1.0.0",
        "+      - name: reef.v1.3.0",
        "+        replaces: reef.v1.2.0",
        "+  - image: quay.io/example/reef:1.3.0",
        "+    schema: olm.bundle",
    ]
    assert [str(change) for change in edit.changes] == [
        "channel stable: reef.v1.3.0 added (replaces reef.v1.0.0)",
        "channel candidate: reef.v1.3.0 added (replaces reef.v1.2.0)",
        "bundles: quay.io/example/reef:1.3.0 added",
    ]
    again = added(result(edit), "1.3.0", "stable", "candidate")
    assert (again.changes, result(again)) == ((), result(edit))


def test_the_result_renders_to_a_valid_catalog() -> None:
    text = result(added(BASIC, "1.3.0", "stable", "candidate"))
    blobs = render(text, TemplateType.BASIC)
    assert check_blobs(blobs) == ()
    assert [bundle.name for bundle in blobs.bundles] == [f"reef.v1.{minor}.0" for minor in range(4)]


def test_explicit_edges_are_written() -> None:
    edit = added(BASIC, "1.3.0", "candidate", replaces="reef.v1.1.0", skips=("reef.v1.2.0",), skip_range="<1.3.0")
    assert entries(result(edit), "candidate")[-1] == {
        "name": "reef.v1.3.0",
        "replaces": "reef.v1.1.0",
        "skips": ["reef.v1.2.0"],
        "skipRange": "<1.3.0",
    }


def test_a_skipped_head_is_not_replaced() -> None:
    edit = added(BASIC, "1.3.0", "candidate", skips=("reef.v1.2.0",))
    last = entries(result(edit), "candidate")[-1]
    assert last == {"name": "reef.v1.3.0", "replaces": "reef.v1.1.0", "skips": ["reef.v1.2.0"]}


@pytest.mark.parametrize("edges", [{"after": "reef.v1.1.0"}, {"before": "reef.v1.2.0"}, {"by_version": True}])
def test_a_bundle_is_inserted_between_others_on_request(edges: dict[str, Any]) -> None:
    edit = added(BASIC, "1.1.5", "candidate", **edges)
    assert difference(BASIC, edit)[:4] == [
        "-      - {name: reef.v1.2.0, replaces: reef.v1.1.0, skipRange: '>=1.0.0 <1.2.0'}",
        "+      - name: reef.v1.1.5",
        "+        replaces: reef.v1.1.0",
        "+      - {name: reef.v1.2.0, replaces: reef.v1.1.5, skipRange: '>=1.0.0 <1.2.0'}",
    ]
    assert "channel candidate: reef.v1.2.0 replaces reef.v1.1.5" in map(str, edit.changes)
    assert added(result(edit), "1.1.5", "candidate", **edges).changes == ()


def test_the_oldest_bundle_is_inserted_below_all_others() -> None:
    text = result(added(BASIC, "0.9.0", "candidate", by_version=True))
    assert entries(text, "candidate")[:2] == [
        {"name": "reef.v0.9.0"},
        {"name": "reef.v1.0.0", "replaces": "reef.v0.9.0"},
    ]


def test_a_bundle_that_others_skip_needs_no_position() -> None:
    text = result(added(BASIC, "1.3.0", "stable", skips=("reef.v1.1.0",)))
    edit = added(text, "1.1.0", "stable")
    assert [str(change) for change in edit.changes] == ["channel stable: reef.v1.1.0 added (replaces reef.v1.0.0)"]


def test_a_channel_that_begins_with_its_head_gets_the_new_head_first() -> None:
    template = {
        "schema": "olm.template.basic",
        "entries": [
            {"schema": "olm.package", "name": "reef", "defaultChannel": "a"},
            {
                "schema": "olm.channel",
                "name": "a",
                "package": "reef",
                "entries": [{"name": "reef.v1.1.0", "replaces": "reef.v1.0.0"}, {"name": "reef.v1.0.0"}],
            },
        ],
    }
    for text in (yaml.safe_dump(template, sort_keys=False), json.dumps(template), json.dumps(template, indent=4)):
        new = result(added(text, "1.2.0"))
        assert [entry["name"][-5:] for entry in entries(new, "a")] == ["1.2.0", "1.1.0", "1.0.0"]
        middle = result(added(new, "1.1.5", by_version=True))
        assert [entry["name"][-5:] for entry in entries(middle, "a")] == ["1.2.0", "1.1.5", "1.1.0", "1.0.0"]
        if text.startswith("{"):
            assert middle == json.dumps(json.loads(middle), indent=4 if "\n" in text else None)


def test_channels_are_created_on_request() -> None:
    assert 'channel "stabel" not found' in failure(lambda: added(BASIC, "1.3.0", "stabel"))
    assert "did you mean stable?" in failure(lambda: added(BASIC, "1.3.0", "stabel"))
    edit = added(BASIC, "1.3.0", "new", create=True)
    assert difference(BASIC, edit)[:6] == [
        "+  - schema: olm.channel",
        "+    name: new",
        "+    package: reef",
        "+    entries:",
        "+      - name: reef.v1.3.0",
        "+  - image: quay.io/example/reef:1.3.0",
    ]


@pytest.mark.parametrize("text", ["schema: olm.template.basic\nentries: []\n", "schema: olm.template.basic\n"])
def test_package_and_channel_of_an_empty_template_are_created(text: str) -> None:
    new = yaml.safe_load(result(added(text, "1.0.0", "beta")))
    assert [blob["schema"] for blob in new["entries"]] == ["olm.package", "olm.channel", "olm.bundle"]
    assert new["entries"][0] == {"schema": "olm.package", "name": "reef", "defaultChannel": "beta"}


STREAM = """\
# the package
---
schema: olm.package
name: reef
defaultChannel: a
---
# the channel
schema: olm.channel
name: a
package: reef
entries:
- name: reef.v1.0.0
---
schema: olm.bundle
image: quay.io/example/reef:1.0.0
# end
"""


def test_documents_of_a_template_without_a_frame_are_edited() -> None:
    edit = added(STREAM, "1.1.0")
    assert difference(STREAM, edit) == [
        "+- name: reef.v1.1.0",
        "+  replaces: reef.v1.0.0",
        "+---",
        "+schema: olm.bundle",
        "+image: quay.io/example/reef:1.1.0",
    ]
    text = result(added(result(edit), "2.0.0", "b", create=True)).rstrip("\n")
    assert len(list(yaml.safe_load_all(text))) == 6
    documents = [json.loads(json.dumps(blob)) for blob in yaml.safe_load_all(STREAM) if blob]
    for joined in (
        "\n".join(json.dumps(document, indent=2) for document in documents),
        "".join(map(json.dumps, documents)),
    ):
        new = result(added(joined, "1.1.0"))
        assert image("1.1.0") in new
        assert added(new, "1.1.0").changes == ()


def test_crlf_and_byte_order_mark_are_retained() -> None:
    text = "\ufeff" + BASIC.replace("\n", "\r\n")
    new = result(added(text, "1.3.0", "stable"))
    assert new.startswith("\ufeff---\r\n")
    assert new.count("\n") == new.count("\r\n")


@pytest.mark.parametrize(
    ("version", "edges", "expected"),
    [
        ("0.9.0", {}, "reef.v0.9.0 is not newer than the head of the channel, reef.v1.2.0\n"),
        ("1.1.5", {}, "insert it at its position with by_version, after=reef.v1.1.0, or choose another channel"),
        ("0.9.0", {}, "insert it at its position with by_version, before=reef.v1.0.0, or choose"),
        ("1.2.0+x", {}, "reef.v1.2.0+x has the same version as reef.v1.2.0"),
        ("1.3.0", {"replaces": "reef.v9.9.9"}, "reef.v9.9.9 is not in the channel"),
        ("1.3.0", {"after": "reef.v1.1"}, "did you mean reef.v1.1.0"),
        ("1.3.0", {"replaces": "reef.v1.1.0"}, "multiple channel heads found in graph: reef.v1.2.0, reef.v1.3.0"),
        ("1.3.0", {"replaces": ""}, "multiple channel heads"),
        ("1.3.0", {"skips": ("reef.v1.3.0",)}, "would replace or skip itself"),
        ("1.3.0", {"skip_range": "nonsense"}, 'invalid skipRange "nonsense"'),
        ("1.2.0", {"replaces": "reef.v1.0.0"}, "already in the channel, with a different replaces"),
        ("1.2.0", {"skip_range": "", "skips": ("x",)}, "with a different skips and skipRange"),
    ],
)
def test_invalid_edits_are_rejected(version: str, edges: dict[str, Any], expected: str) -> None:
    message = failure(lambda: added(BASIC, version, "candidate", **edges))
    assert expected in message
    assert message.startswith('t.yaml:16: package "reef", channel "candidate"')


def test_bundles_of_other_packages_and_other_images_are_rejected() -> None:
    message = failure(lambda: added(BASIC, "1.3.0", "stable", package="dock"))
    assert message.startswith('t.yaml:5: bundle "dock.v1.3.0": the bundle belongs to package "dock", but the template')
    text = BASIC.replace("reef:1.1.0", "reef:other")
    message = failure(lambda: added(text, "1.1.0", "candidate"))
    assert "already in the channel, and the template does not list quay.io/example/reef:1.1.0" in message
    listed = BASIC.replace("  - image: quay.io/example/reef:1.1.0\n    schema: olm.bundle\n", "")
    edit = added(listed, "1.1.0", "candidate", render=render_all)
    assert [str(change) for change in edit.changes] == ["bundles: quay.io/example/reef:1.1.0 added"]


def test_a_channel_must_be_named_if_there_are_several() -> None:
    assert "no channel given: it has 2 channels\npass channel=candidate,stable" in failure(
        lambda: added(BASIC, "1.3.0")
    )
    assert "channel=NAME" in failure(lambda: added("schema: olm.template.basic\n", "1.3.0"))


def test_existing_problems_do_not_prevent_an_edit_elsewhere() -> None:
    broken = BASIC.replace("        replaces: reef.v1.0.0\n", "")
    edit = added(broken, "1.3.0", "stable")
    assert edit.changes
    repaired = added(broken, "1.3.0", "candidate", replaces="reef.v1.2.0", skips=("reef.v1.0.0",))
    assert repaired.changes
    assert "the channel has 2 heads instead of one: reef.v1.0.0, reef.v1.2.0" in failure(
        lambda: added(broken, "1.3.0", "candidate")
    )


def test_versions_are_read_from_the_bundles_if_names_lack_them() -> None:
    text = BASIC.replace("reef.v1.0.0", "first")
    assert "the version of first is unknown" in failure(lambda: added(text, "1.3.0", "stable", render=render_all))
    assert "replaces=first" in failure(lambda: added(text, "1.3.0", "stable", render=render_all))
    assert added(text, "1.3.0", "stable", replaces="first").changes


def test_a_range_of_the_bundle_is_the_default() -> None:
    ranged = replace(TemplateBundle.from_blob(bundle("1.3.0")), skip_range="<1.3.0")
    for given, expected in ((None, "<1.3.0"), ("", None), (">=1.2.0 <1.3.0", ">=1.2.0 <1.3.0")):
        options = TemplateAddOptions(("stable",), EdgeOptions(skip_range=given))
        edit = add(parse(BASIC), ranged, options, no_render)
        assert entries(result(edit), "stable")[-1].get("skipRange") == expected
        assert add(edit.template, ranged, options, no_render).changes == ()


def test_promotion_replaces_the_head_and_skips_what_is_between() -> None:
    edit = promoted(BASIC, "reef.v1.2.0", "stable")
    assert entries(result(edit), "stable")[-1] == {
        "name": "reef.v1.2.0",
        "replaces": "reef.v1.0.0",
        "skips": ["reef.v1.1.0"],
        "skipRange": ">=1.0.0 <1.2.0",
    }
    assert promoted(result(edit), "reef.v1.2.0", "stable").changes == ()
    later = promoted(result(edit), "reef.v1.1.0", "stable", source="candidate")
    assert [str(change) for change in later.changes] == ["channel stable: reef.v1.1.0 added (replaces reef.v1.0.0)"]


def test_promotion_to_a_new_channel_has_the_same_edges() -> None:
    edit = promoted(BASIC, image("1.2.0"), "new", create=True, render=render_all)
    assert entries(result(edit), "new") == [entries(BASIC, "candidate")[-1]]


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("reef.v9.0.0", "", "reef.v9.0.0 is not in any channel"),
        ("reef.v1.1.0", "stable", 't.yaml:10: channel "stable": reef.v1.1.0 is not in the channel'),
        ("reef.v1.1.0", "nightly", 'channel "nightly" not found'),
    ],
)
def test_promotion_of_unknown_bundles_fails(name: str, source: str, expected: str) -> None:
    assert expected in failure(lambda: promoted(BASIC, name, "stable", source=source))


def test_promotion_needs_a_source_if_edges_differ() -> None:
    text = result(promoted(BASIC, "reef.v1.2.0", "stable"))
    message = failure(lambda: promoted(text, "reef.v1.2.0", "new", create=True))
    assert "reef.v1.2.0 has different edges in the channels stable, candidate\nchoose one with from_channel" in message


REBUILT = BASIC.replace("quay.io/example/reef:1.1.0", "quay.io/example/reef:1.1.0-r0")


def test_the_image_of_a_rebuilt_bundle_is_replaced_on_request() -> None:
    message = failure(lambda: added(REBUILT, "1.1.0", "candidate"))
    assert "replace its image with overwrite, or build the bundle with another version" in message

    def rendered(images: Sequence[str], /) -> dict[str, BundleBlob]:
        return {name: bundle(name.rpartition(":")[2].removesuffix("-r0")) for name in images}

    edit = added(REBUILT, "1.1.0", render=rendered, overwrite=True)
    assert result(edit) == BASIC
    assert [str(change) for change in edit.changes] == [
        "bundles: quay.io/example/reef:1.1.0-r0 replaced by quay.io/example/reef:1.1.0"
    ]
    assert added(BASIC, "1.1.0", overwrite=True).changes == ()
    both = added(REBUILT, "1.1.0", "stable", render=rendered, overwrite=True)
    assert [change.action for change in both.changes] == ["replace-image", "add"]


def test_names_of_bundles_are_used_and_written() -> None:
    named = REBUILT
    for minor, tag in ((0, "1.0.0"), (1, "1.1.0-r0"), (2, "1.2.0")):
        image_line = f"  - image: quay.io/example/reef:{tag}\n"
        named = named.replace(image_line, f"{image_line}    name: reef.v1.{minor}.0\n")
    edit = added(named, "1.1.0", overwrite=True)
    assert "    name: reef.v1.1.0\n" in result(edit)
    assert difference(named, added(named, "1.3.0", "stable"))[2:] == [
        "+  - image: quay.io/example/reef:1.3.0",
        "+    name: reef.v1.3.0",
        "+    schema: olm.bundle",
    ]
    assert promoted(named, image("1.2.0"), "stable").changes


def test_the_default_channel_is_set() -> None:
    edit = promoted(BASIC, "reef.v1.2.0", "new", create=True, default="new")
    assert difference(BASIC, edit)[:2] == ["-    defaultChannel: stable", "+    defaultChannel: new"]
    assert str(edit.changes[-1]) == "package reef: default channel new"
    assert added(BASIC, "1.2.0", "candidate", default="candidate").changes
    assert 't.yaml:5: package "reef": default channel "x" not found' in failure(
        lambda: added(BASIC, "1.3.0", "stable", default="x")
    )


@pytest.mark.parametrize("empty", ["entries: []", "entries:", "entries: null # none", "properties: []"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_channel_without_entries_is_filled(empty: str, newline: str) -> None:
    text = (
        "schema: olm.template.basic\nentries:\n- {schema: olm.package, name: reef, defaultChannel: a}\n"
        f"- schema: olm.channel\n  package: reef\n  name: a\n  {empty}\n# end"
    ).replace("\n", newline)
    new = result(added(text, "1.0.0"))
    assert entries(new, "a") == [{"name": "reef.v1.0.0"}]
    assert new.count("\n") == new.count(newline)
    assert "# end" in new


def test_a_template_without_a_final_line_break_is_extended() -> None:
    for text in (
        BASIC.rstrip("\n"),
        BASIC.replace("# end\n", "").rstrip("\n"),
        STREAM.replace("# end\n", "").rstrip("\n"),
    ):
        assert added(result(added(text, "2.0.0", "new", create=True)), "2.0.0", "new").changes == ()


def test_an_image_that_is_pinned_in_the_template_is_recognized() -> None:
    digest = f"sha256:{'1' * 64}"
    text = BASIC.replace(":1.1.0\n", f"@{digest}\n").replace(":1.0.0\n", f"@sha256:{'2' * 64}\n")
    given = TemplateBundle.from_blob(bundle("1.1.0"))
    for found in (
        replace(given, digest=lambda: digest),
        replace(given, image=f"{given.image}@{digest}"),
        replace(given, image=f"quay.io/example/reef@{digest}"),
    ):
        assert add(parse(text), found, TemplateAddOptions(("candidate",)), no_render).changes == ()
    for unknown in (
        given,
        replace(given, digest=unavailable),
        replace(given, image="docker.io/example/reef:1.1.0"),
    ):
        message = failure(lambda: add(parse(text), unknown, TemplateAddOptions(("candidate",)), no_render))  # noqa: B023
        assert "does not list" in message


def unavailable() -> str:
    raise RegistryUnavailable("quay.io: timed out")
