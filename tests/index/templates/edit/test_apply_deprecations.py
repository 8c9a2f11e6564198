"""Deprecations in templates."""

from __future__ import annotations

import json

import pytest
import yaml

from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, PACKAGE
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.templates.render import TemplateType
from tests.index.templates.samples import render

from .samples import BASIC, deprecated, failure
from .test_apply import STREAM
from .test_semver import SEMVER


def test_deprecations_are_added_changed_and_removed() -> None:
    text = deprecated(BASIC, BUNDLE, "reef.v1.0.0", "Old: do not use.")
    assert text.endswith(
        "  - schema: olm.deprecations\n    package: reef\n    entries:\n      - reference:\n"
        '          schema: olm.bundle\n          name: reef.v1.0.0\n        message: "Old: do not use."\n# end\n'
    )
    assert deprecated(text, BUNDLE, "reef.v1.0.0", "Old: do not use.") == text
    text = deprecated(text, BUNDLE, "reef.v1.0.0", "Older.")
    text = deprecated(deprecated(text, CHANNEL, "stable"), PACKAGE, "")
    blobs = render(text, TemplateType.BASIC)
    assert [(entry.schema, entry.name, entry.message) for entry in blobs.deprecations[0].entries] == [
        (BUNDLE, "reef.v1.0.0", "Older."),
        (CHANNEL, "stable", "Old."),
        (PACKAGE, "", "Old."),
    ]
    assert check_blobs(blobs) == ()
    for schema, name in ((CHANNEL, "stable"), (PACKAGE, ""), (BUNDLE, "reef.v1.0.0")):
        text = deprecated(text, schema, name, "")
        assert deprecated(text, schema, name, "") == text
    assert text == BASIC


@pytest.mark.parametrize("as_json", [False, True])
def test_documents_are_added_to_a_template_without_a_frame(*, as_json: bool) -> None:
    documents = [blob for blob in yaml.safe_load_all(STREAM) if blob]
    before = "\n".join(json.dumps(document, indent=2) for document in documents) + "\n" if as_json else STREAM
    text = deprecated(before, PACKAGE, "")
    assert render(text, TemplateType.BASIC).deprecations[0].entries[0].schema == PACKAGE
    assert deprecated(text, PACKAGE, "", "") == before


def test_the_last_deprecation_may_be_in_the_middle() -> None:
    text = BASIC.replace("  # bundles\n", "  - {schema: olm.deprecations, package: reef, entries: []}\n  # bundles\n")
    assert deprecated(deprecated(text, PACKAGE, ""), PACKAGE, "", "") == BASIC


@pytest.mark.parametrize(
    ("text", "schema", "name", "expected"),
    [
        (BASIC, BUNDLE, "reef.v1.0", "t.yaml:3: bundle reef.v1.0 not found\ndid you mean reef.v1."),
        (BASIC, CHANNEL, "beta", "t.yaml:3: channel beta not found\nuse one of the channels: candidate, stable"),
        ("schema: olm.template.basic\n", PACKAGE, "", "t.yaml:1: package not found\nadd an olm.package document"),
        (SEMVER, PACKAGE, "", "a semver template cannot contain deprecations\ndeprecate in the rendered catalog"),
        (
            BASIC + "  - {schema: olm.package, name: dock, defaultChannel: a}\n",
            PACKAGE,
            "",
            "t.yaml: package: found in several packages: dock, reef\nwrite a template for each package",
        ),
    ],
)
def test_what_does_not_exist_cannot_be_deprecated(text: str, schema: str, name: str, expected: str) -> None:
    assert expected in failure(lambda: deprecated(text, schema, name))
