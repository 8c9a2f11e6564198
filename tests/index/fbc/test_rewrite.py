"""Changes of catalog directories: only changed documents are written, other bytes stay the same."""

from __future__ import annotations

import functools
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
from tests.kit.randomcatalogs import random_catalog, write_catalog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opmkit.documents.json_value import JsonValue

YAML = b"""\
# Ask before you change it.

schema: olm.package   # as it is known
name: lagoon
defaultChannel: 'alpha'
--- # channels
# the only one
schema: olm.channel
{package: lagoon}
# after
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


def change_and_check(root: Path, change: Callable[[Blob], Blob | None], *new: Blob) -> FileChanges:
    """Change all blobs with a function, add new ones, check the result and return the changed files."""
    before = read_blobs(root)
    after = Blobs.from_blobs([blob for blob in map(change, before) if blob is not None] + list(new))
    changes = plan_changes(root, before, after)
    apply_changes(root, changes)
    assert sorted_json(read_blobs(root)) == sorted_json(after)
    assert plan_changes(root, read_blobs(root), after) == FileChanges()
    return changes


def sorted_json(blobs: Blobs) -> list[bytes]:
    return sorted(map(canonical_json, blobs))


def same(blob: Blob) -> Blob:
    return blob


def only(selects: Callable[[Blob], bool], change: Callable[[Any], Blob | None]) -> Callable[[Blob], Blob | None]:
    return lambda blob: change(blob) if selects(blob) else blob


def test_equal_blobs_change_nothing(root: Path) -> None:
    assert change_and_check(root, lambda blob: replace(blob)) == FileChanges()


def test_change_of_type_is_written(root: Path) -> None:
    (root / "note.json").write_text('{"schema": "note", "value": 1}')
    changes = change_and_check(root, only(lambda blob: blob.schema == "note", lambda _: note({"value": True})))
    assert changes == FileChanges({"note.json": b'{\n    "schema": "note",\n    "value": true\n}'})


def note(content: dict[str, Any]) -> OtherBlob:
    return OtherBlob("note", content.get("name", ""), content.get("package", ""), {"schema": "note", **content})


def test_yaml_comments_are_preserved(root: Path) -> None:
    def skip(channel: ChannelBlob) -> ChannelBlob:
        return replace(channel, entries=(EntryBlob("lagoon.v1", skips=("lagoon.v0",)),))

    changes = change_and_check(root, only(lambda blob: (blob.schema, blob.package) == ("olm.channel", "lagoon"), skip))
    before, after = YAML.split(b"schema: olm.channel")
    written = (
        b"entries:\n- name: lagoon.v1\n  skips:\n  - lagoon.v0\nname: alpha\npackage: lagoon\nschema: olm.channel\n"
    )
    assert changes == FileChanges({"lagoon.yaml": before + written + after[after.index(b"# after") :]})


def test_unchanged_json_is_preserved(root: Path) -> None:
    changes = change_and_check(root, only(lambda blob: blob.name == "reef", lambda _: PackageBlob("reef", "x")))
    written = b'{\n    "schema": "olm.package",\n    "name": "reef",\n    "defaultChannel": "x"\n}'
    assert changes == FileChanges({"reef/all.json": written + JSON[JSON.index(b" {") :]})


def test_removed_blobs_are_removed_with_their_text(root: Path) -> None:
    changes = change_and_check(root, only(lambda blob: blob.schema == "olm.channel", lambda _: None))
    first, _, last = YAML.partition(b"--- # channels")[0], "", YAML[YAML.rindex(b"---") :]
    assert changes.write["lagoon.yaml"] == first + last
    first, last = JSON[: JSON.index(b"{", 1)], JSON[JSON.rindex(b"{ ") :]
    assert changes.write["reef/all.json"] == first + last


def test_files_without_documents_are_removed(root: Path) -> None:
    changes = change_and_check(root, only(lambda blob: blob.package == "lagoon", lambda _: None))
    assert changes == FileChanges(remove=("lagoon.yaml",))
    assert sorted(path.name for path in root.iterdir()) == ["reef"]


def test_new_blobs_are_inserted_after_those_of_their_schema(root: Path) -> None:
    more = root / "more.yaml"
    more.write_text("schema: olm.bundle\nname: reef.v0\npackage: reef\nimage: quay.io/me/reef:0")
    bundles = [BundleBlob(f"{package}.v2", package, f"quay.io/me/{package}:2") for package in ("lagoon", "reef")]
    new: list[Blob] = [ChannelBlob("beta", "reef", (EntryBlob("reef.v2"),)), *bundles, DeprecationsBlob("reef")]
    changes = change_and_check(root, same, *new)
    assert names(changes.write["lagoon.yaml"]) == ["lagoon", "alpha", "lagoon.v1", "lagoon.v2"]
    assert changes.write["lagoon.yaml"].startswith(YAML)
    assert names(changes.write["reef/all.json"]) == ["reef", "alpha", "beta", "reef.v1", "reef.v2", ""]
    assert changes.write.keys() == {"lagoon.yaml", "reef/all.json"}


def test_new_blobs_get_their_own_files_if_others_have(root: Path) -> None:
    for name in ("reef.v1", "reef.v2", "reef.v3"):
        bundle = {"schema": "olm.bundle", "name": name, "package": "atoll", "image": "i"}
        (root / f"{name}.json").write_text(json.dumps(bundle))
    (root / "atoll.v1.yaml").write_text("schema: olm.channel\npackage: atoll\nname: atoll.v1\n")
    (root / "x.yaml").write_text("schema: olm.channel\npackage: x\nname: x\n")
    (root / ".indexignore").write_text("left*")
    valid, ignored, existing = (BundleBlob(name, "atoll", "i") for name in ("reef.v2.1", "left-out", "reef.v1"))
    nested, similar, other = ChannelBlob("a/b", "atoll"), ChannelBlob("y", "atoll"), ChannelBlob("y", "x")
    gone = only(lambda blob: blob.name == "reef.v3", lambda _: None)
    changes = change_and_check(root, gone, valid, ignored, existing, nested, similar, other, DeprecationsBlob("atoll"))
    assert {name: names(raw) for name, raw in changes.write.items()} == {
        "reef.v2.1.json": ["reef.v2.1"],
        "reef.v3.json": ["reef.v1", "left-out", ""],
        "atoll.v1.yaml": ["atoll.v1", "a/b"],
        "y.yaml": ["y"],
        "x.yaml": ["x", "y"],
    }
    assert changes.write["reef.v2.1.json"].startswith(b"{")


def names(raw: bytes) -> list[str]:
    return [blob.name for blob in sorted(parse_blobs(raw, "x"), key=lambda blob: blob.location.line)]


def test_block_scalar_at_the_end_gets_no_additional_line_break(root: Path) -> None:
    (root / "note.yaml").write_text("schema: note\ntext: |\n  one\n  two")
    change_and_check(root, same, note({"more": True}))
    assert (root / "note.yaml").read_text().count("---") == 1


def test_byte_order_mark_is_preserved(root: Path) -> None:
    (root / "note.yaml").write_bytes(b"\xef\xbb\xbfschema: note\nname: a\n---\nschema: note\nname: b\n")
    changes = change_and_check(root, only(lambda blob: blob.name == "a", lambda _: None))
    assert changes.write == {"note.yaml": b"\xef\xbb\xbf---\nschema: note\nname: b\n"}


def test_empty_documents_are_ignored(root: Path) -> None:
    (root / "note.yaml").write_text("schema: note\nname: a\n---\n---\nschema: note\nname: b\n---\n")
    changes = change_and_check(root, only(lambda blob: blob.name == "a", lambda _: None))
    assert changes.write == {"note.yaml": b"---\nschema: note\nname: b\n"}


def test_one_of_several_blobs_with_the_same_name_is_removed(root: Path) -> None:
    (root / "note.json").write_text('{"schema":"note","a":1}{"schema":"note","a":2}\n{"schema":"note","a":3}')
    gone = only(lambda blob: isinstance(blob, OtherBlob) and blob.content.get("a") == 1, lambda _: None)
    assert change_and_check(root, gone).write == {"note.json": b'{"schema":"note","a":2}\n{"schema":"note","a":3}'}


def test_new_packages_get_directories(root: Path) -> None:
    (root / "tide").write_bytes(b"schema: note\n")
    (root / "wave").mkdir()
    (root / "wave/catalog.yaml").write_bytes(b"# not yet\n")
    (root / "wave/.indexignore").write_bytes(b"catalog.yaml\n")
    new = [PackageBlob(name, "alpha") for name in ("atoll", "tide", "wave")]
    changes = change_and_check(root, same, *new, note({}), note({"package": "atoll"}))
    assert changes.write.keys() == {"atoll/catalog.yaml", "tide-catalog.yaml", "wave/catalog-2.yaml", "tide"}
    assert names(changes.write["atoll/catalog.yaml"]) == ["atoll", ""]


@pytest.mark.parametrize("existing", [False, True])
def test_empty_directories_get_json(tmp_path: Path, existing: bool) -> None:
    root = tmp_path / "new"
    if existing:
        root.mkdir()
    after = Blobs.from_blobs([PackageBlob("atoll", "alpha"), note({})])
    changes = plan_changes(root, Blobs(), after)
    assert changes.write.keys() == {"atoll/catalog.json", "catalog.json"}
    apply_changes(root, changes)
    assert read_blobs(root) == after


@pytest.mark.parametrize("name", ["..", "a/b", "."])
def test_package_names_must_be_valid_directory_names(root: Path, name: str) -> None:
    before = read_blobs(root)
    with pytest.raises(CatalogError, match="not a valid directory name"):
        plan_changes(root, before, before + Blobs((PackageBlob(name),)))


def test_new_packages_must_not_be_ignored(root: Path) -> None:
    (root / ".indexignore").write_text("atoll/\n")
    before = read_blobs(root)
    with pytest.raises(CatalogError, match=r"atoll/catalog.json: .*\.indexignore"):
        plan_changes(root, before, before + Blobs((PackageBlob("atoll"),)))


def test_concurrent_changes_are_detected(root: Path) -> None:
    before = read_blobs(root)
    after = replace(before, packages=())
    for content in (
        YAML.replace(b"alpha", b"beta", 1),
        YAML[: YAML.rindex(b"---")],
        YAML + b"---\nschema: note\n",
        b"{",
    ):
        (root / "lagoon.yaml").write_bytes(content)
        with pytest.raises(CatalogError, match=r"lagoon.yaml: changed by another program"):
            plan_changes(root, before, after)


def test_links_become_files(root: Path) -> None:
    (root / ".indexignore").write_text("/real\n")
    (root / "real").write_text("schema: note\nname: a\n")
    (root / "link").symlink_to("real")
    change_and_check(root, only(lambda blob: blob.name == "a", lambda _: note({"name": "a", "more": 1})))
    assert not (root / "link").is_symlink()
    assert (root / "real").read_text() == "schema: note\nname: a\n"


def test_links_out_of_the_catalog_are_not_followed(root: Path, tmp_path: Path) -> None:
    before = read_blobs(root)
    changes = plan_changes(root, before, Blobs())
    (root / "reef").rename(tmp_path / "elsewhere")
    (root / "reef").symlink_to(tmp_path / "elsewhere")
    for action in (lambda: plan_changes(root, before, Blobs()), lambda: apply_changes(root, changes)):
        with pytest.raises(CatalogError, match="a symbolic link leads out of"):
            action()
    with pytest.raises(CatalogError, match="a symbolic link leads out of"):
        apply_changes(root, FileChanges({"reef/new.json": b"{}"}))
    assert (tmp_path / "elsewhere/all.json").read_bytes() == JSON
    assert (root / "lagoon.yaml").exists()


def test_file_modes_are_preserved(root: Path) -> None:
    (root / "lagoon.yaml").chmod(0o640)
    apply_changes(root, FileChanges({"lagoon.yaml": b"", "new.yaml": b""}))
    assert (root / "lagoon.yaml").stat().st_mode & 0o777 == 0o640


def test_failed_writes_change_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    (root / "dir").mkdir()
    with pytest.raises(Exception, match="dir"):
        apply_changes(root, FileChanges({"dir": b""}))
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_loaders_ignore_the_staging_directory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, seen = read_blobs(root), []
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: seen.append(read_blobs(root)))
    apply_changes(root, FileChanges({"new.json": b'{"schema": "note"}'}))
    assert seen == [before]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_changes_of_random_catalogs(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    write_catalog(rng, random_catalog(rng, packages=4, bundles=6), tmp_path)
    (tmp_path / "notes").mkdir(exist_ok=True)
    (tmp_path / ".indexignore").write_text("*.md\nnotes/\n")
    (tmp_path / "notes/x.yaml").write_text("left: alone\n")
    untouched = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    new = parse_blobs(json.dumps(rng.choice(random_catalog(rng, packages=6))).encode(), "new")
    changes = change_and_check(tmp_path, lambda blob: _random_change(rng, blob), *new)
    for path, content in untouched.items():
        name = str(path.relative_to(tmp_path))
        if name not in changes.write and name not in changes.remove:
            assert path.read_bytes() == content


YAML_DOCUMENTS = [
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
YAML_SEPARATORS = ["---\n", "--- # c\n", "---   \n", "---\r\n", "---\n# a\n", "---\n\n"]
JSON_DOCUMENTS = [
    '{"schema":"note","name":"N"}',
    '{\n  "schema": "note",\n  "name": "N"\n}',
    '{"schema":"note","name":"N","t":"€}\\n{"}',
]
JSON_SEPARATORS = ["", "\n", " ", "\n\n\t", "\r\n"]


@pytest.mark.slow
def test_random_changes_of_all_syntaxes(tmp_path: Path) -> None:
    for seed in range(150):
        rng = random.Random(seed)
        root = tmp_path / str(seed)
        root.mkdir()
        for number in range(rng.randint(1, 2)):
            text = rng.choice([_random_yaml, _random_json])(rng, f"{number}-")
            (root / f"{number}.yaml").write_bytes(rng.choice([b"", b"", b"\xef\xbb\xbf"]) + text.encode())
        new = [note({"name": "x"})] * rng.randint(0, 2)
        change_and_check(root, functools.partial(_random_note, rng), *new)


def _random_yaml(rng: random.Random, prefix: str) -> str:
    text = rng.choice(["# top\n\n", "---\n", "schema: note\nname: top\n---\n"])
    for number in range(rng.randint(1, 4)):
        start = rng.choice(YAML_SEPARATORS) if number else ""
        text += "\n" * (number and not text.endswith("\n")) + start
        text += rng.choice(YAML_DOCUMENTS).replace("N", f"{prefix}{number}")
    return text


def _random_json(rng: random.Random, prefix: str) -> str:
    texts = (rng.choice(JSON_DOCUMENTS).replace("N", f"{prefix}{number}") for number in range(rng.randint(1, 4)))
    return rng.choice(["", "\n "]) + "".join(text + rng.choice(JSON_SEPARATORS) for text in texts)


def _random_note(rng: random.Random, blob: Any) -> Blob | None:
    choice = rng.random()
    if choice < 0.25:
        return None
    return note({**blob.content, "more": rng.choice([1, "a\n\n", "x", "# q\n"])}) if choice < 0.5 else blob


def _random_change(rng: random.Random, blob: Blob) -> Blob | None:
    choice = rng.random()
    if choice < 0.2:
        return None
    if choice < 0.4 and isinstance(blob, PackageBlob | ChannelBlob | BundleBlob):
        values: list[JsonValue] = ["a", " b\n\n\n", "# c\n", "\n", "---\nd", {"e": [1.5, None]}]
        return replace(blob, properties=(*blob.properties, BlobProperty("example.com/more", rng.choice(values))))
    if choice < 0.5 and not isinstance(blob, OtherBlob):
        return replace(blob, name="pack-9") if isinstance(blob, PackageBlob) else replace(blob, package="pack-9")
    return blob
