"""Hostile images by name.

Every image is a valid bundle except for the one thing that its name describes.
"""

from __future__ import annotations

import gzip
import struct
import tarfile
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from opmkit.imagetools.spec import media_types
from tests.kit import zstd
from tests.kit.images import directory, hardlink, member, symlink, tar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

from tests.kit.hostile_builders import (
    BUNDLE,
    MEBIBYTE,
    ServedImage,
    bundle,
    config,
    config_blob,
    document,
    duplicate_keys,
    first_layer,
    foreign_layer,
    gzip_bomb,
    gzipped,
    header,
    index,
    index_of_itself,
    index_with_missing_image,
    labels,
    layer,
    layers,
    manifest,
    many_entries,
    many_files,
    many_layers,
    nested_indexes,
    other_content,
    pax,
    raw,
    sparse,
    with_field,
    zstd_bomb,
)


@dataclass(frozen=True)
class HostileImage:
    """A hostile image and the expected result of using it.

    ``error`` is part of the error of ``bundle unpack``, "" if it succeeds; then ``files`` are expected contents of
    unpacked files, None for files that must not exist. ``add_error`` is the error of ``index add`` if that differs.
    """

    build: Callable[[], ServedImage]
    error: str = ""
    files: Mapping[str, bytes | None] = field(default_factory=dict)
    add_error: str | None = None

    @property
    def index_add_error(self) -> str:
        """Part of the error of ``index add``, "" if it succeeds."""
        return self.error if self.add_error is None else self.add_error


OUT = "points outside the image"
NOT_READ = "not one of the files that are read"
DAMAGED = "invalid tar archive"
DEVICE = tarfile.CHRTYPE
LONG = "x" * 300
YAML = b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: n}\n"
FILE = "manifests/more.yaml"

PATHS = {
    "parent": HostileImage(partial(layer, member("../evil", b"x")), OUT),
    "parent of a directory": HostileImage(partial(layer, member("manifests/../../evil", b"x")), OUT),
    "parent after the root": HostileImage(partial(layer, member("/../../evil", b"x")), OUT),
    "parent within": HostileImage(partial(layer, member("manifests/../evil", b"x")), OUT),
    "absolute": HostileImage(partial(layer, member("/outside/file", b"evil")), files={"outside/file": b"evil"}),
    "only dots and slashes": HostileImage(partial(layer, directory("./././"), directory("//"), directory("/."))),
    "hard link to the parent": HostileImage(
        partial(layer, hardlink("manifests/x.yaml", "../outside/file")), OUT, add_error=OUT
    ),
    "hard link to an absolute path": HostileImage(partial(layer, hardlink(FILE, "/etc/passwd")), NOT_READ),
    "hard link by a link": HostileImage(partial(layer, symlink("l", "../outside"), hardlink(FILE, "l/file")), NOT_READ),
    "write through a link": HostileImage(
        partial(layer, symlink("manifests/l", "../../outside"), member("manifests/l/file", b"evil")),
        files={"manifests/l/file": b"evil"},
    ),
    "write through an absolute link": HostileImage(
        partial(layers, [symlink("l", "/outside")], [member("l/file", b"evil")]), files={"l/file": b"evil"}
    ),
    "write over a link": HostileImage(
        partial(layers, [symlink(FILE, "../../outside/file")], [member(FILE, YAML)]), files={FILE: YAML}
    ),
    "write through two links": HostileImage(
        partial(layer, directory("d"), symlink("d/a", "../.."), symlink("b", "d/a/outside"), member("b/file", b"evil")),
        files={"b/file": b"evil"},
    ),
    "link cycle": HostileImage(
        partial(layer, symlink("manifests/a.yaml", "b.yaml"), symlink("manifests/b.yaml", "a.yaml")),
        "broken symbolic link",
        add_error="",
    ),
    "link to itself": HostileImage(partial(layer, symlink(FILE, "more.yaml")), "broken symbolic link", add_error=""),
    "link to a file outside": HostileImage(partial(layer, symlink(FILE, "/etc/passwd")), NOT_READ),
    "link to a file of another directory": HostileImage(
        partial(layer, member("real/more.yaml", YAML), symlink(FILE, "../real/more.yaml")), NOT_READ
    ),
    "hard link to a file of another directory": HostileImage(
        partial(layer, member("real/more.yaml", YAML), hardlink(FILE, "real/more.yaml")), NOT_READ
    ),
    "file by a link of the directory": HostileImage(
        partial(layer, symlink("l", "manifests"), member("l/more.yaml", YAML)), "is written through a link"
    ),
    "file of another layer by a link of the directory": HostileImage(
        partial(layers, [symlink("k", "l"), symlink("l", "manifests")], [member("k/more.yaml", YAML)]),
        "is written through a link",
    ),
    "link in place of the manifests": HostileImage(partial(layer, symlink("manifests", "/etc")), "manifests", {}),
}

KINDS = {
    "device": HostileImage(partial(layer, member(FILE, kind=DEVICE)), files={FILE: None}),
    "block device over a file": HostileImage(
        partial(layer, member("manifests/csv.yaml", kind=tarfile.BLKTYPE)),
        "no Kubernetes object",
        add_error="no manifests directory",
    ),
    "pipe": HostileImage(partial(layer, member(FILE, kind=tarfile.FIFOTYPE)), files={FILE: None}),
    "set-uid": HostileImage(partial(layer, member("bin/su", b"x", mode=0o6755)), files={"bin/su": b"x"}),
    "modes without permissions": HostileImage(
        partial(layer, directory("manifests", 0), member(FILE, YAML, mode=0)), files={FILE: YAML}
    ),
    "unknown kind": HostileImage(partial(layer, member(FILE, YAML, kind=b"Z")), files={FILE: None}),
    "file in place of a directory": HostileImage(partial(layers, [member("manifests", b"x")]), "manifests"),
    "directory in place of a file": HostileImage(
        partial(layers, [member("a", b"x")], [directory("a"), member("a/b", b"y")]), files={"a/b": b"y"}
    ),
    "link in place of a directory": HostileImage(
        partial(layers, [directory("a"), member("a/b", b"x")], [symlink("a", "/outside")], [member("a/file", b"y")]),
        files={"a/file": b"y", "a/b": None},
    ),
    "same file twice": HostileImage(
        partial(layer, member(FILE, b"first: 1\n"), member(FILE, YAML)), files={FILE: YAML}
    ),
    "file and directory at once": HostileImage(partial(layer, member("a", b"x"), directory("a"), member("a/b", b"y"))),
    "names that differ by case": HostileImage(
        partial(layer, member("manifests/MORE.yaml", YAML), member(FILE, YAML)),
        files={FILE: YAML, "manifests/MORE.yaml": YAML},
    ),
}

WHITEOUTS = {
    "whiteout without a name": HostileImage(partial(layer, member("manifests/.wh.")), "invalid whiteout"),
    "whiteout of the directory": HostileImage(partial(layer, member("manifests/.wh..")), "invalid whiteout"),
    "whiteout of the parent": HostileImage(partial(layer, member(".wh...")), "invalid whiteout"),
    "whiteout above": HostileImage(partial(layer, member("../.wh.outside")), OUT),
    "whiteout of a missing file": HostileImage(partial(layer, member("manifests/.wh.none"))),
    "whiteout through a link": HostileImage(partial(layers, [symlink("l", "../outside")], [member("l/.wh.file")])),
    "whiteout of a whiteout": HostileImage(partial(layer, member(".wh..wh.manifests"))),
    "opaque root": HostileImage(partial(layer, member(".wh..wh..opq")), "manifests"),
    "opaque above": HostileImage(partial(layer, member("../.wh..wh..opq")), OUT),
    "opaque through a link": HostileImage(partial(layers, [symlink("l", "../outside")], [member("l/.wh..wh..opq")])),
    "opaque before its files": HostileImage(
        partial(layers, [member("a/old", b"1")], [member("a/new", b"2"), member("a/.wh..wh..opq")]),
        files={"a/new": b"2", "a/old": None},
    ),
}

ARCHIVES = {
    "negative size": HostileImage(
        partial(raw, with_field(header("a"), 124, b"\xff" * 12) + bytes(1024)), "negative size"
    ),
    "size of eight exbibytes": HostileImage(
        partial(raw, with_field(header(FILE), 124, struct.pack(">BxxxQ", 0x80, (1 << 63) - 512)) + bytes(1024)),
        "bytes per file",
    ),
    "size beyond the end": HostileImage(
        partial(raw, header(FILE, size=10_000) + bytes(512)), "unexpected end of the archive"
    ),
    "cut off in a header": HostileImage(partial(raw, tar([member(FILE, YAML)])[:200]), DAMAGED),
    "cut off in gzip": HostileImage(
        partial(raw, gzip.compress(tar([member(FILE, YAML)]))[:60], media_types.OCI_LAYER_GZIP), DAMAGED
    ),
    "garbage after the end": HostileImage(
        partial(raw, tar([member(FILE, YAML)]) + b"garbage" * 999), files={FILE: YAML}
    ),
    "garbage after gzip": HostileImage(
        partial(raw, gzip.compress(tar([member(FILE, YAML)])) + b"garbage", media_types.OCI_LAYER_GZIP), DAMAGED
    ),
    "wrong checksum": HostileImage(partial(raw, tar([member(FILE, YAML)]).replace(b"0000644", b"0000777")), DAMAGED),
    "text": HostileImage(partial(raw, b"<html>not an archive</html>" * 99), DAMAGED),
    "empty blob": HostileImage(partial(raw, b"")),
    "gzip in gzip": HostileImage(partial(gzipped, gzip.compress(tar([member(FILE, YAML)]))), DAMAGED),
    "zstd with the media type of gzip": HostileImage(
        partial(raw, zstd.compress(tar([])), media_types.OCI_LAYER_GZIP),
        "but content is zstd data",
    ),
    "huge pax header": HostileImage(
        partial(gzipped, header("p", tarfile.XHDTYPE, 1 << 30) + bytes(MEBIBYTE)), "header of"
    ),
    "huge global header": HostileImage(partial(gzipped, header("p", b"g", 1 << 30) + bytes(MEBIBYTE)), "header of"),
    "long name of a mebibyte": HostileImage(
        partial(gzipped, header("././@LongLink", b"L", MEBIBYTE) + b"x" * MEBIBYTE), "header of"
    ),
    "chain of long names": HostileImage(partial(gzipped, header("././@LongLink", b"L") * 9999), DAMAGED),
    "path in a pax header": HostileImage(partial(raw, pax({"path": "../evil"}, member("good", b"x"))), OUT),
    "size in a pax header": HostileImage(partial(raw, pax({"size": "-1"}, member(FILE, YAML))), "negative size"),
    "size that is not a number": HostileImage(partial(raw, pax({"size": "many"}, member(FILE, YAML))), DAMAGED),
    "two names in pax headers": HostileImage(
        partial(raw, pax({"path": "other"})[:1024] + pax({"path": FILE}, member("x", YAML))), "several extended headers"
    ),
    "name in a global header": HostileImage(
        partial(raw, with_field(pax({"path": "other"}, member(FILE, YAML)), 156, b"g")), "invalid path"
    ),
    "prefix that is not one": HostileImage(
        partial(raw, with_field(header(FILE, size=1), 345, b"other") + b"x".ljust(512, b"\0") + bytes(1024)), "prefix"
    ),
    "sparse file": HostileImage(sparse, "sparse"),
    "sparse file by pax": HostileImage(
        partial(
            raw, pax({"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}, member(FILE, b"1\n0\n9\n".ljust(512, b"\0")))
        ),
        "sparse",
    ),
    "ten thousand directories deep": HostileImage(partial(layer, member("d/" * 10_000 + "f")), "bytes per path"),
    "path of three thousand bytes": HostileImage(partial(layer, member("manifests/" + "x/" * 1500)), "bytes per path"),
    "name of 300 bytes": HostileImage(partial(layer, member(f"manifests/{LONG}", YAML)), "bytes per file name"),
}

BOMBS = {
    "gzip bomb": HostileImage(gzip_bomb, "decompressed bytes"),
    "zstd bomb": HostileImage(zstd_bomb, "decompressed bytes"),
    "file of two gibibytes": HostileImage(partial(gzipped, header(FILE, size=2 << 30) + bytes(9999)), "bytes per file"),
    "many large files": HostileImage(many_files, "larger than 67108864 bytes", add_error="extracted bytes"),
    "a million entries": HostileImage(many_entries, "50000 entries"),
    "ten thousand layers": HostileImage(many_layers, "manifest.layers: 10000 elements"),
}

NAMES = {
    "composed and decomposed": HostileImage(
        partial(layer, member("manifests/\u00e9.yaml", YAML), member("manifests/e\u0301.yaml", YAML)),
        files={"manifests/\u00e9.yaml": YAML, "manifests/e\u0301.yaml": YAML},
    ),
    "right to left": HostileImage(
        partial(layer, member("manifests/\u202elmay.yaml", YAML)), files={"manifests/\u202elmay.yaml": YAML}
    ),
    "not UTF-8": HostileImage(
        partial(raw, tar([member("manifests/XX.yaml", YAML)]).replace(b"XX", b"\xff\xfe")), DAMAGED
    ),
    "surrogates": HostileImage(partial(layer, member("manifests/\udcff\udcfe.yaml", YAML))),
    "NUL": HostileImage(partial(raw, pax({"path": "manifests/a\0b"}, member("good", b"x"))), OUT),
    "line feed": HostileImage(partial(layer, member("manifests/a\nError: b.yaml", YAML))),
    "control sequence": HostileImage(partial(layer, member("../\x1b[31m\x1b]0;evil\x07", b"x")), OUT),
    "no name": HostileImage(partial(layer, member("", b"x")), "the root is not a directory"),
    "link in place of the root": HostileImage(
        partial(layers, [symlink("./", "../outside")]), "the root is not a directory"
    ),
    "link to NUL": HostileImage(partial(raw, pax({"linkpath": "a\0b"}, symlink(FILE, "x"))), "invalid link target"),
    "link of five thousand bytes": HostileImage(partial(layer, symlink(FILE, "x/" * 2500)), "bytes per path"),
}

DESCRIPTORS = {
    "other layer": HostileImage(partial(other_content, 1), "digest mismatch"),
    "other configuration": HostileImage(partial(other_content, 0), "digest mismatch"),
    "layer that is shorter": HostileImage(partial(first_layer, size=9_999), "expected 9999 bytes"),
    "layer that is longer": HostileImage(partial(first_layer, size=9), "expected 9 bytes"),
    "missing layer": HostileImage(partial(first_layer, digest=f"sha256:{'0' * 64}"), "not found"),
    "size below zero": HostileImage(
        partial(first_layer, size=-1), "layers[0].size: expected a non-negative integer, got -1"
    ),
    "fractional size": HostileImage(
        partial(first_layer, size=1.5), "layers[0].size: expected a non-negative integer, got 1.5"
    ),
    "size beyond 64 bits": HostileImage(partial(first_layer, size=1 << 70), "layers[0].size"),
    "size as a string": HostileImage(
        partial(first_layer, size="1"), "layers[0].size: expected a non-negative integer, got '1'"
    ),
    "unknown algorithm": HostileImage(
        partial(first_layer, digest=f"md5:{'0' * 32}"),
        "layers[0].digest: expected a sha256, sha384 or sha512 digest, got 'md5:",
    ),
    "digest with a path": HostileImage(
        partial(first_layer, digest="sha256:../../etc/passwd"), "layers[0].digest: expected a"
    ),
    "digest in capitals": HostileImage(
        partial(first_layer, digest=f"sha256:{'A' * 64}"), "layers[0].digest: expected a"
    ),
    "no digest": HostileImage(partial(first_layer, digest=None), "layers[0].digest: missing"),
    "foreign layer": HostileImage(foreign_layer, "not found"),
    "annotations of numbers": HostileImage(
        partial(manifest, annotations={"a": 1}), "manifest.annotations.a: expected a string, got 1"
    ),
    "annotations in a list": HostileImage(
        partial(manifest, annotations=["a"]), "manifest.annotations: expected an object, got ['a']"
    ),
    "layers that are not a list": HostileImage(
        partial(manifest, layers="many"), "manifest.layers: expected a list, got 'many'"
    ),
    "too many layers": HostileImage(partial(manifest, layers=[{}] * 99_999), "manifest.layers: 99999 elements"),
}

DOCUMENTS = {
    "schema 1": HostileImage(partial(manifest, schemaVersion=1), "schema 1"),
    "schema 3": HostileImage(partial(manifest, schemaVersion=3), "schemaVersion: expected 2"),
    "schema version as a string": HostileImage(partial(manifest, schemaVersion="2"), "schemaVersion: expected 2"),
    "null schema version": HostileImage(partial(manifest, schemaVersion=None), "schemaVersion: expected 2"),
    "unknown type": HostileImage(
        partial(manifest, mediaType="application/x"), "unsupported manifest type 'application/x'"
    ),
    "index and image at once": HostileImage(partial(manifest, manifests=[]), "ambiguous manifest"),
    "keys twice": HostileImage(duplicate_keys, "ambiguous fields"),
    "key in another case": HostileImage(partial(manifest, Layers=[]), "ambiguous fields 'layers' and 'Layers'"),
    "manifest without end": HostileImage(partial(document, b" " * (5 * MEBIBYTE)), "the response exceeds the limit"),
    "deep and truncated manifest": HostileImage(partial(document, b'{"a":' * 200_000), "invalid JSON"),
    "deep manifest": HostileImage(partial(document, b'{"a":' * 900 + b"1" + b"}" * 900), "JSON nesting exceeds"),
    "many lists": HostileImage(partial(manifest, more=[[]] * 900_000), files=BUNDLE),
    "not JSON": HostileImage(partial(document, b"<html>"), "invalid JSON"),
    "byte order mark": HostileImage(partial(document, b"\xef\xbb\xbf" + bundle().serve().manifest), "invalid JSON"),
    "JSON that is not UTF-8": HostileImage(partial(document, b'{"\xff":1}'), "invalid JSON"),
    "NaN": HostileImage(partial(document, b'{"schemaVersion":NaN}'), "invalid JSON"),
    "list": HostileImage(partial(document, b"[]"), "manifest: expected an object"),
    "empty": HostileImage(partial(document, b""), "invalid JSON"),
    "artifact": HostileImage(
        partial(config_blob, b"{}", mediaType="application/vnd.oci.empty.v1+json"), "an artifact of type"
    ),
    "index nested twice": HostileImage(partial(nested_indexes, 2), "unsupported nested index"),
    "index nested deep": HostileImage(partial(nested_indexes, 9), "unsupported nested index"),
    "index of itself": HostileImage(index_of_itself, "the registry sent another manifest"),
    "empty index": HostileImage(partial(index, []), "has no image"),
    "index of numbers": HostileImage(partial(index, [1, 2]), "manifests[0]: expected an object, got 1"),
    "index with a missing image": HostileImage(index_with_missing_image, "not found"),
    "index of too many images": HostileImage(partial(index, [{}] * 99_999), "99999 elements"),
    "deep and truncated index": HostileImage(
        partial(document, b'{"manifests":' + b"[" * 99_999, media_types.OCI_INDEX), "invalid JSON"
    ),
}

CONFIGS = {
    "configuration that is not JSON": HostileImage(partial(config_blob, tar([])), "invalid JSON"),
    "configuration deep": HostileImage(
        partial(config_blob, b'{"a":' * 900 + b"1" + b"}" * 900), "JSON nesting exceeds"
    ),
    "configuration too long": HostileImage(partial(config_blob, b"{}", size=1 << 40), "exceed the limit of"),
    "configuration that grows": HostileImage(partial(config_blob, b" " * (9 * MEBIBYTE), size=2), "size mismatch"),
    "labels of numbers": HostileImage(partial(labels, {"a": 1}), "config.Labels.a: expected a string, got 1"),
    "labels in a list": HostileImage(partial(labels, ["a"]), "config.Labels: expected an object, got ['a']"),
    "labels of a surrogate": HostileImage(partial(labels, {"a": "\ud800"}), "invalid JSON"),
    "huge label": HostileImage(partial(labels, {"a": "x" * (7 * MEBIBYTE)}), files=BUNDLE),
    "fewer layers": HostileImage(partial(config, rootfs={"diff_ids": []}), "has 1 layers, its configuration 0"),
    "content of another layer": HostileImage(
        partial(config, rootfs={"diff_ids": [f"sha256:{'0' * 64}"]}), files=BUNDLE
    ),
    "content without digest": HostileImage(partial(config, rootfs={"diff_ids": ["x"]}), "invalid digest 'x'"),
    "history longer than the layers": HostileImage(
        partial(config, history=[{"created_by": "x"}] * 9_999), files=BUNDLE
    ),
    "history too long": HostileImage(partial(config, history=[{}] * 99_999), "config.history: 99999 elements"),
    "history of numbers": HostileImage(partial(config, history=[1]), "config.history[0]: expected an object, got 1"),
    "platform of numbers": HostileImage(partial(config, os=1), "config.os: expected a string, got 1"),
}

HOSTILE: dict[str, HostileImage] = {
    **PATHS,
    **KINDS,
    **WHITEOUTS,
    **ARCHIVES,
    **BOMBS,
    **NAMES,
    **DESCRIPTORS,
    **DOCUMENTS,
    **CONFIGS,
}
"""The images by a description of what is wrong with them."""
