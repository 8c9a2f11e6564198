"""Invalid and unusual templates: located errors, and no damage."""

from __future__ import annotations

import random
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.core.errors import OpmkitError
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.templates.edit.template import EditableTemplate
from opmkit.index.templates.render import TemplateType
from tests.index.templates.samples import render
from tests.kit.rounds import rounds

from .samples import BASIC, added, deprecated, failure, parse, promoted, render_all, result
from .test_semver import SEMVER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opmkit.index.fbc.blobs import BundleBlob

PACKAGE = "- {schema: olm.package, name: reef, defaultChannel: a}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the template has no schema"),
        ("[]\n", "the template has no schema"),
        ("schema: olm.template.other\n", "t.yaml:1: unsupported template schema 'olm.template.other'"),
        ("schema: olm.template.basic\nentries: x\n", "t.yaml:2: entries is a string, not a list"),
        ("schema: olm.template.basic\nentries:\n- 1\n", "t.yaml:3: the document is a number, not a mapping"),
        ("schema: olm.template.basic\nentries:\n\t- a\n", "t.yaml:3: invalid YAML or JSON: indented by a tab"),
        ("schema: olm.template.basic\nentries: []\nentries: []\n", "t.yaml:3: duplicate key 'entries'"),
        ("schema: olm.template.basic\nentries: []\nother: 1\n", "t.yaml:3: unknown field other"),
        ("schema: olm.template.basic\nentries: []\n---\nschema: x\n", "t.yaml:4: a template must be a single document"),
        (
            f"schema: olm.template.basic\nentries:\n{PACKAGE}- schema: olm.channel\n  package: reef\n  name: [a]\n",
            "t.yaml:4: name is a list, not a string",
        ),
        (
            f"schema: olm.template.basic\nentries:\n{PACKAGE}- schema: olm.channel\n  package: reef\n  name: a\n"
            "  entries: [{name: reef.v1.0.0, skips: [1]}]\n",
            "t.yaml:4: entries[0].skips[0] is a number, not a string",
        ),
        ("schema: olm.semver\nstable: [1]\n", "t.yaml:2: stable is a list, not a mapping"),
        ("schema: olm.semver\nstable: {bundles: [1]}\n", "t.yaml:2: stable.bundles[0] is a number, not a mapping"),
        *(
            (f'{{"schema": "olm.semver", "x": {"[" * n}{"]" * n}}}', "t.yaml:1: more than 200")
            for n in (250, 900, 1020)
        ),
        ('{"schema": "olm.semver", "schema": 1}', "t.yaml:1: duplicate key 'schema'"),
        ("schema: olm.template.basic\n\xff: \udcff\n", "t.yaml:2: "),
    ],
)
def test_invalid_templates_are_located(text: str, expected: str) -> None:
    raw = text.encode(errors="surrogateescape")
    assert expected in failure(lambda: EditableTemplate.parse(raw, "t.yaml"))


CHANNELS = """\
schema: olm.template.basic
entries:
- {{schema: olm.package, name: reef, defaultChannel: stable}}
- schema: olm.channel
  package: reef
  name: candidate
  entries: {first}
- schema: olm.channel
  package: reef
  name: stable
  entries: {second}
"""


@pytest.mark.parametrize(
    ("first", "second"), [("&e [{name: reef.v1.0.0}]", "*e"), ("[&e {name: reef.v1.0.0}]", "[*e]")]
)
def test_aliases_are_not_changed_in_other_places(first: str, second: str) -> None:
    message = failure(lambda: added(CHANNELS.format(first=first, second=second), "1.1.0", "stable"))
    assert re.match(r"t.yaml:\d+: an edit would change other values as well\n", message)


def test_merge_keys_are_not_changed_in_other_places() -> None:
    block = "      - name: reef.v1.1.0\n        replaces: reef.v1.0.0\n"
    text = BASIC.replace(block, "      - &m {name: reef.v1.1.0, replaces: reef.v1.0.0}\n")
    text = text.replace("replaces: reef.v1.1.0, skipRange", "skips: [reef.v1.1.0], <<: *m, skipRange")
    message = failure(lambda: added(text, "1.0.5", "candidate", after="reef.v1.0.0"))
    assert "an edit would change other values as well" in message


def test_names_from_outside_are_quoted_in_the_text() -> None:
    name = "a: {b}\n- x #\x1b[2J\u202e'\""
    edit = added(BASIC, "1.3.0", name, create=True)
    assert added(result(edit), "1.3.0", name).changes == ()
    assert "\x1b" not in result(edit)
    assert parse(result(edit)).find_channel("reef", name)
    deprecation = deprecated(BASIC, "olm.channel", "stable", name)
    assert deprecated(deprecation, "olm.channel", "stable", name) == deprecation


@pytest.mark.parametrize("seed", rounds(150, 40))
def test_damaged_templates_are_edited_or_rejected(seed: int) -> None:
    rng = random.Random(seed)
    text = rng.choice([BASIC, SEMVER])
    for _ in range(rng.randrange(1, 4)):
        start = rng.randrange(len(text))
        damage = rng.choice(["", "\t", "- ", ": ", "\n", "{", "[", "&a ", "*a", "# ", "|", "'", '"', "null", "\r"])
        text = text[:start] + damage + text[start + rng.randrange(3) :]
    comments = re.findall(r"#.*", text)
    quoted = not {"'", '"', "|"}.isdisjoint(text)  # a number sign in quotes is not a comment
    edits: list[Callable[[], str]] = [
        lambda: result(added(text, "1.3.0", "stable", render=render_known)),
        lambda: result(promoted(text, "reef.v1.1.0", "stable", render=render_known)),
        lambda: deprecated(text, "olm.channel", "stable"),
    ]
    for edit in edits:
        with suppress(OpmkitError):
            new = edit()
            assert quoted or re.findall(r"#.*", new)[: len(comments)] == comments


def render_known(images: Sequence[str], /) -> dict[str, BundleBlob]:
    if unknown := [name for name in images if not re.fullmatch(r"[^:]+/reef:[0-9.]+", name)]:
        raise CatalogError(f"{unknown[0]}: not a bundle image")
    return render_all(images)


@pytest.mark.parametrize("seed", rounds(25, 8))
def test_random_histories_result_in_valid_templates_with_all_comments(seed: int) -> None:
    rng = random.Random(seed)
    text, versions = BASIC, ["1.0.0", "1.1.0", "1.2.0"]
    for _ in range(12):
        with suppress(OpmkitError):
            text = random_edit(rng, text, versions)
        assert check_blobs(render(text, TemplateType.BASIC)) == ()
    assert len(versions) > 4
    comments = re.findall(r"#.*", BASIC)
    assert [comment for comment in re.findall(r"#.*", text) if comment in comments] == comments


def random_edit(rng: random.Random, text: str, versions: list[str]) -> str:
    """Return the text after a random edit, which may fail; add the version of a new bundle."""
    channel, other = rng.choice(["stable", "candidate", "new"]), f"reef.v{rng.choice(versions)}"
    if rng.random() < 0.4:
        return result(promoted(text, other, channel, create=True, by_version=True))
    version = f"{rng.randrange(1, 3)}.{rng.randrange(6)}.{rng.randrange(3)}"
    edges: dict[str, Any] = rng.choice([{"by_version": True}, {"by_version": True}, {}, {"after": other}])
    if rng.random() < 0.2:
        edges["skips"] = (f"reef.v{rng.choice(versions)}",)
    new = result(added(text, version, channel, create=True, **edges))
    versions.append(version)
    return new
