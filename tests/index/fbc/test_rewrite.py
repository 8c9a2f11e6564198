"""Catalog directories changed in location: what is written is what changed, and all else keeps its bytes."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import (
    Blob,
    BlobProperty,
    Blobs,
    BundleBlob,
    ChannelBlob,
    DeprecationsBlob,
    EntryBlob,
    OtherBlob,
    PackageBlob,
)
from opmkit.index.fbc.load import parse_blobs, read_blobs
from opmkit.index.fbc.rewrite import FileChanges, apply_changes, plan_changes
from opmkit.index.fbc.write import canonical_json
from tests.kit.randomcatalogs import sound_catalog, write_catalog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

YAML = b"""\
# Ours. Ask before you change it.

schema: olm.package   # as it is known
name: lagoon
defaultChannel: 'alpha'
--- # channels
# the only one
schema: olm.channel
{package: lagoon}
# behind
---
schema: olm.bundle
name: lagoon.v1
package: lagoon
image:   "quay.io/me/lagoon:1"
""".replace(b"{package: lagoon}", b"package: lagoon\nname: alpha\nentries: [{name: lagoon.v1}]")
JSON = b"""\
{"schema": "olm.package", "name": "reef", "defaultChannel": "alpha"} {"schema": "olm.channel", "name": "alpha",
  "package": "reef", "entries": [{"name": "reef.v1"}]}

{ "schema": "olm.bundle", "name": "reef.v1", "package": "reef", "image": "quay.io/me/reef:1" }
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "catalog"
    (root / "reef").mkdir(parents=True)
    (root / "lagoon.yaml").write_bytes(YAML)
    (root / "reef/all.json").write_bytes(JSON)
    return root


def changed(root: Path, change: Callable[[Blob], Blob | None], *new: Blob) -> FileChanges:
    """What is rewritten where all blobs are changed by a function, and others come to them; it is checked."""
    before = read_blobs(root)
    after = Blobs.from_blobs([blob for blob in map(change, before) if blob is not None] + list(new))
    rewritten = plan_changes(root, before, after)
    apply_changes(root, rewritten)
    assert in_any_order(read_blobs(root)) == in_any_order(after)
    assert plan_changes(root, read_blobs(root), after) == FileChanges()
    return rewritten


def in_any_order(blobs: Blobs) -> list[bytes]:
    return sorted(map(canonical_json, blobs))


def same(blob: Blob) -> Blob:
    return blob


def only(chosen: Callable[[Blob], bool], becomes: Callable[[Any], Blob | None]) -> Callable[[Blob], Blob | None]:
    return lambda blob: becomes(blob) if chosen(blob) else blob


def test_nothing_is_written_where_nothing_changed(root: Path) -> None:
    assert changed(root, lambda blob: replace(blob)) == FileChanges()


def test_a_change_of_type_alone_is_one(root: Path) -> None:
    (root / "note.json").write_text('{"schema": "note", "value": 1}')
    rewritten = changed(root, only(lambda blob: blob.schema == "note", lambda _: note({"value": True})))
    assert rewritten == FileChanges({"note.json": b'{\n    "schema": "note",\n    "value": true\n}'})


def note(content: dict[str, Any]) -> OtherBlob:
    return OtherBlob("note", content.get("name", ""), content.get("package", ""), {"schema": "note", **content})


def test_yaml_keeps_its_comments(root: Path) -> None:
    def skip(channel: ChannelBlob) -> ChannelBlob:
        return replace(channel, entries=(EntryBlob("lagoon.v1", skips=("lagoon.v0",)),))

    rewritten = changed(root, only(lambda blob: (blob.schema, blob.package) == ("olm.channel", "lagoon"), skip))
    before, behind = YAML.split(b"schema: olm.channel")
    written = (
        b"entries:\n- name: lagoon.v1\n  skips:\n  - lagoon.v0\nname: alpha\npackage: lagoon\nschema: olm.channel\n"
    )
    assert rewritten == FileChanges({"lagoon.yaml": before + written + behind[behind.index(b"# behind") :]})


def test_json_keeps_what_does_not_change(root: Path) -> None:
    rewritten = changed(root, only(lambda blob: blob.name == "reef", lambda _: PackageBlob("reef", "x")))
    written = b'{\n    "schema": "olm.package",\n    "name": "reef",\n    "defaultChannel": "x"\n}'
    assert rewritten == FileChanges({"reef/all.json": written + JSON[JSON.index(b" {") :]})


def test_what_is_removed_vanishes_with_its_text(root: Path) -> None:
    rewritten = changed(root, only(lambda blob: blob.schema == "olm.channel", lambda _: None))
    first, _, last = YAML.partition(b"--- # channels")[0], "", YAML[YAML.rindex(b"---") :]
    assert rewritten.write["lagoon.yaml"] == first + last
    first, last = JSON[: JSON.index(b"{", 1)], JSON[JSON.rindex(b"{ ") :]
    assert rewritten.write["reef/all.json"] == first + last


def test_a_file_without_documents_is_removed(root: Path) -> None:
    rewritten = changed(root, only(lambda blob: blob.package == "lagoon", lambda _: None))
    assert rewritten == FileChanges(remove=("lagoon.yaml",))
    assert sorted(path.name for path in root.iterdir()) == ["reef"]


def test_new_ones_go_where_their_kind_is(root: Path) -> None:
    more = root / "more.yaml"
    more.write_text("schema: olm.bundle\nname: reef.v0\npackage: reef\nimage: quay.io/me/reef:0")
    bundles = [BundleBlob(f"{package}.v2", package, f"quay.io/me/{package}:2") for package in ("lagoon", "reef")]
    news = [ChannelBlob("beta", "reef", (EntryBlob("reef.v2"),)), *bundles, DeprecationsBlob("reef")]
    rewritten = changed(root, same, *news)
    assert names(rewritten.write["lagoon.yaml"]) == ["lagoon", "alpha", "lagoon.v1", "lagoon.v2"]
    assert rewritten.write["lagoon.yaml"].startswith(YAML)
    assert names(rewritten.write["reef/all.json"]) == ["reef", "alpha", "beta", "reef.v1", "reef.v2", ""]
    assert rewritten.write.keys() == {"lagoon.yaml", "reef/all.json"}


def test_a_new_one_has_a_file_of_its_own_where_others_have(root: Path) -> None:
    for name in ("reef.v1", "reef.v2", "reef.v3"):
        bundle = {"schema": "olm.bundle", "name": name, "package": "atoll", "image": "i"}
        (root / f"{name}.json").write_text(json.dumps(bundle))
    (root / "atoll.v1.yaml").write_text("schema: olm.channel\npackage: atoll\nname: atoll.v1\n")
    (root / "x.yaml").write_text("schema: olm.channel\npackage: x\nname: x\n")
    (root / ".indexignore").write_text("left*")
    fine, ignored, there = (BundleBlob(name, "atoll", "i") for name in ("reef.v2.1", "left-out", "reef.v1"))
    nested, alike, other = ChannelBlob("a/b", "atoll"), ChannelBlob("y", "atoll"), ChannelBlob("y", "x")
    gone = only(lambda blob: blob.name == "reef.v3", lambda _: None)
    rewritten = changed(root, gone, fine, ignored, there, nested, alike, other, DeprecationsBlob("atoll"))
    assert {name: names(raw) for name, raw in rewritten.write.items()} == {
        "reef.v2.1.json": ["reef.v2.1"],
        "reef.v3.json": ["reef.v1", "left-out", ""],
        "atoll.v1.yaml": ["atoll.v1", "a/b"],
        "y.yaml": ["y"],
        "x.yaml": ["x", "y"],
    }
    assert rewritten.write["reef.v2.1.json"].startswith(b"{")


def names(raw: bytes) -> list[str]:
    return [blob.name for blob in sorted(parse_blobs(raw, "x"), key=lambda blob: blob.location.line)]


def test_a_text_at_the_end_gets_no_line_end_that_it_had_not(root: Path) -> None:
    (root / "note.yaml").write_text("schema: note\ntext: |\n  one\n  two")
    changed(root, same, note({"more": True}))
    assert (root / "note.yaml").read_text().count("---") == 1


def test_a_byte_order_mark_stays(root: Path) -> None:
    (root / "note.yaml").write_bytes(b"\xef\xbb\xbfschema: note\nname: a\n---\nschema: note\nname: b\n")
    rewritten = changed(root, only(lambda blob: blob.name == "a", lambda _: None))
    assert rewritten.write == {"note.yaml": b"\xef\xbb\xbf---\nschema: note\nname: b\n"}


def test_documents_without_content_do_not_come_to_count(root: Path) -> None:
    (root / "note.yaml").write_text("schema: note\nname: a\n---\n---\nschema: note\nname: b\n---\n")
    rewritten = changed(root, only(lambda blob: blob.name == "a", lambda _: None))
    assert rewritten.write == {"note.yaml": b"---\nschema: note\nname: b\n"}


def test_of_several_alike_the_others_stay(root: Path) -> None:
    (root / "note.json").write_text('{"schema":"note","a":1}{"schema":"note","a":2}\n{"schema":"note","a":3}')
    gone = only(lambda blob: isinstance(blob, OtherBlob) and blob.content.get("a") == 1, lambda _: None)
    assert changed(root, gone).write == {"note.json": b'{"schema":"note","a":2}\n{"schema":"note","a":3}'}


def test_a_new_package_has_a_directory(root: Path) -> None:
    (root / "tide").write_bytes(b"schema: note\n")
    (root / "wave").mkdir()
    (root / "wave/catalog.yaml").write_bytes(b"# not yet\n")
    (root / "wave/.indexignore").write_bytes(b"catalog.yaml\n")
    news = [PackageBlob(name, "alpha") for name in ("atoll", "tide", "wave")]
    rewritten = changed(root, same, *news, note({}), note({"package": "atoll"}))
    assert rewritten.write.keys() == {"atoll/catalog.yaml", "tide-catalog.yaml", "wave/catalog-2.yaml", "tide"}
    assert names(rewritten.write["atoll/catalog.yaml"]) == ["atoll", ""]


@pytest.mark.parametrize("existing", [False, True])
def test_an_empty_directory_gets_json(tmp_path: Path, existing: bool) -> None:
    root = tmp_path / "new"
    if existing:
        root.mkdir()
    after = Blobs.from_blobs([PackageBlob("atoll", "alpha"), note({})])
    rewritten = plan_changes(root, Blobs(), after)
    assert rewritten.write.keys() == {"atoll/catalog.json", "catalog.json"}
    apply_changes(root, rewritten)
    assert read_blobs(root) == after


@pytest.mark.parametrize("name", ["..", "a/b", "."])
def test_a_package_without_a_name_for_a_directory_is_refused(root: Path, name: str) -> None:
    before = read_blobs(root)
    with pytest.raises(CatalogError, match="no name of a directory"):
        plan_changes(root, before, before + Blobs((PackageBlob(name),)))


def test_a_new_package_that_would_be_ignored_is_refused(root: Path) -> None:
    (root / ".indexignore").write_text("atoll/\n")
    before = read_blobs(root)
    with pytest.raises(CatalogError, match=r"atoll/catalog.json .*\.indexignore"):
        plan_changes(root, before, before + Blobs((PackageBlob("atoll"),)))


def test_what_was_changed_meanwhile_is_not_lost(root: Path) -> None:
    before = read_blobs(root)
    after = replace(before, packages=())
    for content in (
        YAML.replace(b"alpha", b"beta", 1),
        YAML[: YAML.rindex(b"---")],
        YAML + b"---\nschema: note\n",
        b"{",
    ):
        (root / "lagoon.yaml").write_bytes(content)
        with pytest.raises(CatalogError, match=r"lagoon.yaml was changed by somebody else"):
            plan_changes(root, before, after)


def test_a_link_becomes_a_file(root: Path) -> None:
    (root / ".indexignore").write_text("/real\n")
    (root / "real").write_text("schema: note\nname: a\n")
    (root / "link").symlink_to("real")
    changed(root, only(lambda blob: blob.name == "a", lambda _: note({"name": "a", "more": 1})))
    assert not (root / "link").is_symlink()
    assert (root / "real").read_text() == "schema: note\nname: a\n"


def test_nothing_is_written_through_a_link_out_of_the_catalog(root: Path, tmp_path: Path) -> None:
    before = read_blobs(root)
    rewritten = plan_changes(root, before, Blobs())
    (root / "reef").rename(tmp_path / "elsewhere")
    (root / "reef").symlink_to(tmp_path / "elsewhere")
    for done in (lambda: plan_changes(root, before, Blobs()), lambda: apply_changes(root, rewritten)):
        with pytest.raises(CatalogError, match="a link leads out of"):
            done()
    with pytest.raises(CatalogError, match="a link leads out of"):
        apply_changes(root, FileChanges({"reef/new.json": b"{}"}))
    assert (tmp_path / "elsewhere/all.json").read_bytes() == JSON
    assert (root / "lagoon.yaml").exists()


def test_the_mode_of_a_file_stays(root: Path) -> None:
    (root / "lagoon.yaml").chmod(0o640)
    apply_changes(root, FileChanges({"lagoon.yaml": b"", "new.yaml": b""}))
    assert (root / "lagoon.yaml").stat().st_mode & 0o777 == 0o640


def test_a_disk_that_fails_changes_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    (root / "dir").mkdir()
    with pytest.raises(Exception, match="dir"):
        apply_changes(root, FileChanges({"dir": b""}))
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_readers_pass_over_what_is_not_in_its_place_yet(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, seen = read_blobs(root), []
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: seen.append(read_blobs(root)))
    apply_changes(root, FileChanges({"new.json": b'{"schema": "note"}'}))
    assert seen == [before]


@pytest.mark.parametrize("seed", range(40))
def test_random_changes_of_random_catalogs(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    write_catalog(dice, sound_catalog(dice, packages=4, bundles=6), tmp_path)
    (tmp_path / "notes").mkdir(exist_ok=True)
    (tmp_path / ".indexignore").write_text("*.md\nnotes/\n")
    (tmp_path / "notes/x.yaml").write_text("left: alone\n")
    untouched = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    news = parse_blobs(json.dumps(dice.choice(sound_catalog(dice, packages=6))).encode(), "new")
    rewritten = changed(tmp_path, lambda blob: _random_change(dice, blob), *news)
    for path, content in untouched.items():
        name = str(path.relative_to(tmp_path))
        if name not in rewritten.write and name not in rewritten.remove:
            assert path.read_bytes() == content


YAML_FORMS = [
    "schema: note\nname: N\ntext: |\n  a\n  # b\n\n",
    "schema: note\nname: N\ntext: |+\n  a\n\n\n",
    "schema: note\nname: N\ntext: >-\n  a\n  b",
    "{schema: note, name: N}\n",
    'schema: note\nname: N\ntext: "x\n  # y"\n',
    "schema: note # c\n# in it\nname: N\n# the end",
    "schema: note\r\nname: N\r\n",
    "schema: note\nname: N\n...\n# after\n",
    "\n\n# a\n  # b\nschema: note\nname: N\n# c\n\n# d\n",
]
YAML_STARTS = ["---\n", "--- # c\n", "---   \n", "---\r\n", "---\n# a\n", "---\n\n"]
JSON_FORMS = [
    '{"schema":"note","name":"N"}',
    '{\n  "schema": "note",\n  "name": "N"\n}',
    '{"schema":"note","name":"N","t":"€}\\n{"}',
]
JSON_ENDS = ["", "\n", " ", "\n\n\t", "\r\n"]


def test_texts_of_all_forms(tmp_path: Path) -> None:
    for seed in range(150):
        dice = random.Random(seed)
        root = tmp_path / str(seed)
        root.mkdir()
        for number in range(dice.randint(1, 2)):
            text = dice.choice([_random_yaml, _random_json])(dice, f"{number}-")
            (root / f"{number}.yaml").write_bytes(dice.choice([b"", b"", b"\xef\xbb\xbf"]) + text.encode())
        changed(root, lambda blob, dice=dice: _random_note(dice, blob), *[note({"name": "x"})] * dice.randint(0, 2))


def _random_yaml(dice: random.Random, prefix: str) -> str:
    text = dice.choice(["# top\n\n", "---\n", "schema: note\nname: top\n---\n"])
    for number in range(dice.randint(1, 4)):
        start = dice.choice(YAML_STARTS) if number else ""
        text += "\n" * (number and not text.endswith("\n")) + start
        text += dice.choice(YAML_FORMS).replace("N", f"{prefix}{number}")
    return text


def _random_json(dice: random.Random, prefix: str) -> str:
    texts = (dice.choice(JSON_FORMS).replace("N", f"{prefix}{number}") for number in range(dice.randint(1, 4)))
    return dice.choice(["", "\n "]) + "".join(text + dice.choice(JSON_ENDS) for text in texts)


def _random_note(dice: random.Random, blob: Any) -> Blob | None:
    what = dice.random()
    if what < 0.25:
        return None
    return note({**blob.content, "more": dice.choice([1, "a\n\n", "x", "# q\n"])}) if what < 0.5 else blob


def _random_change(dice: random.Random, blob: Blob) -> Blob | None:
    what = dice.random()
    if what < 0.2:
        return None
    if what < 0.4 and isinstance(blob, PackageBlob | ChannelBlob | BundleBlob):
        texts = ["a", " b\n\n\n", "# c\n", "\n", "---\nd", {"e": [1.5, None]}]
        return replace(blob, properties=(*blob.properties, BlobProperty("example.com/more", dice.choice(texts))))
    if what < 0.5 and not isinstance(blob, OtherBlob):
        return replace(blob, **{"package" if blob.schema != "olm.package" else "name": "pack-9"})
    return blob
