"""Basic templates."""

from __future__ import annotations

import json

import pytest

from opmkit.index.templates.render import TemplateType

from .samples import OTHER, PACKAGE, bundle, channel, entry, image, render, render_error


@pytest.mark.parametrize("framed", [True, False])
def test_bundles_are_rendered_and_other_blobs_are_preserved(*, framed: bool) -> None:
    entries = [
        PACKAGE,
        channel(entry("1.0.0")),
        {"schema": "olm.bundle", "image": image("1.0.0"), "name": "any"},
        OTHER,
    ]
    frame = {"schema": "olm.template.basic", "entries": entries}
    blobs = render(frame if framed else "\n".join(map(json.dumps, entries)), TemplateType.BASIC)
    assert blobs.bundles == (bundle("1.0.0"),)
    assert blobs.others[0].content == OTHER
    assert len(list(blobs)) == len(entries)


def test_all_findings_are_collected() -> None:
    message = render_error(
        "schema: olm.template.basic\n"
        "notes: x\n"
        "entries:\n"
        "- schema: olm.bundle\n"
        "  image: quay.io/example/reef:1.0.0\n"
        "  package: reef\n"
        "  relatedImages: [{name: a, image: b}]\n"
        "- schema: olm.bundle\n"
        "- 7\n"
    )
    assert "t.yaml:2: unknown field notes" in message
    assert 't.yaml:4: package "reef": bundles of a basic template must have only an image' in message
    assert "not package, relatedImages" in message
    assert "t.yaml:8: the bundle has no image" in message
    assert "t.yaml:9: the document is a number" in message
