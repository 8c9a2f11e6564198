"""Loading of catalog directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import (
    BlobProperty,
    BundleBlob,
    ChannelBlob,
    Deprecation,
    EntryBlob,
    Icon,
    PackageBlob,
    RelatedImage,
)
from opmkit.index.fbc.load import load_directory, parse_blobs, read_blobs

if TYPE_CHECKING:
    from pathlib import Path

CATALOG = b"""\
schema: olm.package
name: lagoon
defaultChannel: stable
icon: {base64data: aGk=, mediatype: image/png}
description: pools
---
Schema: olm.channel
package: lagoon
NAME: stable
entries:
- {name: lagoon.v2, replaces: lagoon.v1, skips: [a, b], skipRange: <2.0.0, other: 1}
- name: lagoon.v1
---
schema: olm.bundle
package: lagoon
name: lagoon.v1
image: example.com/lagoon:v1
properties: [{type: olm.package, value: {version: 1.0.0, packageName: lagoon}}]
relatedImages: [{image: x}]
---
schema: olm.deprecations
package: lagoon
entries: [{reference: {schema: olm.bundle, name: lagoon.v1}, message: old}]
---
schema: example.note
package: lagoon
name: note
text: hello
"""


def test_blobs_of_all_schemas() -> None:
    blobs = parse_blobs(CATALOG, "catalog.yaml")
    assert blobs.packages == (PackageBlob("lagoon", "stable", Icon("aGk=", "image/png"), "pools"),)
    entries = (EntryBlob("lagoon.v2", "lagoon.v1", ("a", "b"), "<2.0.0"), EntryBlob("lagoon.v1"))
    assert blobs.channels == (ChannelBlob("stable", "lagoon", entries),)
    properties = (BlobProperty("olm.package", {"packageName": "lagoon", "version": "1.0.0"}),)
    images = (RelatedImage("", "x"),)
    assert blobs.bundles == (BundleBlob("lagoon.v1", "lagoon", "example.com/lagoon:v1", properties, images),)
    assert blobs.deprecations[0].entries == (Deprecation("olm.bundle", "lagoon.v1", "old"),)
    assert blobs.others[0].content["text"] == "hello"
    assert [str(blob.location) for blob in blobs] == [f"catalog.yaml:{line}" for line in (1, 7, 14, 21, 25)]


def write(root: Path, files: dict[str, bytes]) -> Path:
    for name, raw in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(raw)
    return root


PACKAGE = b'{"schema": "olm.package", "name": "%s"}'


def test_all_files_are_read_except_ignored_ones(tmp_path: Path) -> None:
    names = ["a.txt", ".hidden", "deep/down/b", "deep/keep/c", "docs/README.md", "docs/more/d", "drop.me"]
    files = {name: PACKAGE % name.replace("/", "-").encode() for name in names}
    ignores = {".indexignore": b"# not part of it\ndocs/\n*.me\n/deep/down/*\n", "deep/.indexignore": b"!down/b\n"}
    root = write(tmp_path, files | ignores)
    assert [package.name for package in read_blobs(root).packages] == [".hidden", "a.txt", "deep-down-b", "deep-keep-c"]


def test_links_out_of_the_catalog_and_broken_links_are_skipped(tmp_path: Path) -> None:
    root = write(tmp_path / "catalog", {"a": PACKAGE % b"a"})
    outside = write(tmp_path / "outside", {"b": PACKAGE % b"b"})
    (root / "inside").symlink_to("a")
    (root / "out").symlink_to(outside / "b")
    (root / "directory").symlink_to(outside)
    (root / "nowhere").symlink_to("gone")
    (root / "itself").symlink_to("itself")
    assert [package.name for package in read_blobs(root).packages] == ["a", "a"]


def test_an_empty_directory_is_an_empty_catalog(tmp_path: Path) -> None:
    assert list(read_blobs(tmp_path)) == []


def test_all_errors_are_collected_with_their_locations(tmp_path: Path) -> None:
    files = {
        "README.md": b"# A title\n\nSome text.\n",
        "a.yaml": b"name: x\n---\nschema: 1\n---\nschema: olm.channel\nentries:\n- name: 1\n  skips: [2]\n- x\n",
        "b.json": b'{"schema": "olm.package", "icon": [],\n "properties": {}}\n{',
        "c.png": b"\x89PNG\x00",
    }
    loaded = load_directory(write(tmp_path, files))
    assert [str(error) for error in loaded.errors] == [
        "README.md:3: the document is a string, not a mapping with a schema",
        "a.yaml:1: the document has no schema",
        "a.yaml:3: schema is a number, not a string",
        "a.yaml:3: the document has no schema",
        "a.yaml:5: entries[0].name is a number, not a string",
        "a.yaml:5: entries[0].skips[0] is a number, not a string",
        "a.yaml:5: entries[1] is a string, not a mapping",
        "b.json:1: icon is a list, not a mapping",
        "b.json:1: properties is a mapping, not a list",
        "b.json:3: invalid YAML or JSON: Expecting property name enclosed in double quotes",
        "c.png:1: invalid YAML or JSON: invalid leading UTF-8 octet",
    ]
    with pytest.raises(InvalidCatalog) as raised:
        read_blobs(tmp_path)
    assert raised.value.message.splitlines() == [str(error) for error in loaded.errors]


def test_duplicate_keys_are_warnings(tmp_path: Path) -> None:
    loaded = load_directory(write(tmp_path, {"a.yaml": b"schema: one\n---\nschema: two\nname: a\nname: b\n"}))
    assert loaded.errors == ()
    assert [str(warning) for warning in loaded.warnings] == [
        "a.yaml:5: duplicate key 'name': only the last value counts"
    ]
