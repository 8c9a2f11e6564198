"""Images of ill will: a table of them by name, and a registry that serves them and checks nothing.

Every image starts as a good bundle, so that what is done to it is all that can be wrong with it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
import tarfile
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

import zstandard

from opmkit.imagetools.spec import media_types
from tests.kit.bundles import bundle_content, bundle_labels
from tests.kit.images import Member, directory, hardlink, member, symlink, tar
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Json = dict[str, Any]
BUNDLE = bundle_content("hostile", "1.0.0")
CSV = BUNDLE["manifests/csv.yaml"]
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Served:
    """What a registry gives for one image: a manifest by its tag, and content by digest, true to that or not."""

    manifest: bytes
    blobs: Mapping[str, bytes]
    media_type: str = media_types.OCI_MANIFEST


@dataclass(frozen=True)
class Hostile:
    """An image that is made by ``make``.

    It is refused with an error that has ``says`` in it; ``add_says`` where taking it for a bundle fails otherwise than
    unpacking it. Where that is empty it is as good as any: ``holds`` has files of it, None for those it must not have.
    """

    make: Callable[[], Served]
    says: str = ""
    holds: Mapping[str, bytes | None] = field(default_factory=dict)
    add_says: str | None = None

    @property
    def says_of_adding(self) -> str:
        return self.says if self.add_says is None else self.add_says


class HostileRegistry:
    """Serves images under ``HOST/hostile/NAME:1`` in a thread, while the context lasts; ``asked`` has other paths."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._images: dict[str, Served] = {}

    def __enter__(self) -> Self:
        registry = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:  # noqa: N802 (http.server names it)
                content, media_type = registry.content(unquote(self.path))
                self.answer(200 if content is not None else 404, content or b"", {"Content-Type": media_type})

            do_HEAD = do_GET  # noqa: N815

        self._web = WebServer(Handler).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._web.__exit__()

    def put(self, name: str, image: Served) -> str:
        """Serve an image from now on; its reference."""
        self._images[name] = image
        return f"{self._web.host}/hostile/{name}:1"

    def content(self, path: str) -> tuple[bytes | None, str]:
        """The content of a path and its type."""
        _, _, repository, name, kind, identifier = (*path.split("/", 5), "", "", "", "", "")[:6]
        image = self._images.get(name)
        if repository != "hostile" or image is None:
            self.asked.append(path)
            return None, ""
        if kind == "manifests" and identifier == "1":
            return image.manifest, image.media_type
        content = image.blobs.get(identifier)
        return content, str(json.loads(content).get("mediaType", "")) if content and kind == "manifests" else ""


# --- the parts of an image


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def dump(value: object) -> bytes:
    return json.dumps(value).encode()


def described(content: bytes, media_type: str, **more: object) -> Json:
    return {"mediaType": media_type, "digest": digest_of(content), "size": len(content), **more}


@dataclass(frozen=True)
class Parts:
    """The parts of an image, before they are served; ``layers`` are blobs with their media types."""

    layers: tuple[tuple[bytes, str], ...]
    config: Json
    manifest: Json = field(default_factory=dict)

    def served(self) -> Served:
        config = dump(self.config)
        manifest = {
            "schemaVersion": 2,
            "mediaType": media_types.OCI_MANIFEST,
            "config": described(config, media_types.OCI_CONFIG),
            "layers": [described(*layer) for layer in self.layers],
            **self.manifest,
        }
        blobs = [config, *(content for content, _ in self.layers)]
        return Served(dump(manifest), {digest_of(content): content for content in blobs})


def bundle(*over: tuple[bytes, str]) -> Parts:
    """A good bundle, with these layers over it."""
    base = tar(member(path, content) for path, content in BUNDLE.items())
    layers = ((gzip.compress(base, mtime=0), media_types.OCI_LAYER_GZIP), *over)
    config = {
        "os": "linux",
        "architecture": "amd64",
        "config": {"Labels": bundle_labels("hostile")},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(base)] * len(layers)},
    }
    return Parts(layers, config)


def raw(content: bytes, media_type: str = media_types.OCI_LAYER) -> Served:
    """A bundle with a layer of these bytes on top."""
    return bundle((content, media_type)).served()


def zipped(content: bytes) -> Served:
    """A bundle with a layer on top that is these bytes compressed, perhaps in several members of gzip."""
    return raw(gzip.compress(content, mtime=0), media_types.OCI_LAYER_GZIP)


def layers(*each: Iterable[Member]) -> Served:
    """A bundle with layers of these entries on top."""
    return bundle(*((tar(members), media_types.OCI_LAYER) for members in each)).served()


def layer(*members: Member) -> Served:
    """A bundle with a layer of these entries on top."""
    return layers(members)


def manifest(**changes: object) -> Served:
    """A bundle with other fields in its manifest."""
    return replace(bundle(), manifest=changes).served()


def first_layer(**changes: object) -> Served:
    """A bundle with other fields in the descriptor of its layer."""
    return manifest(layers=[described(*bundle().layers[0]) | changes])


def config(**changes: object) -> Served:
    """A bundle with other fields in its configuration."""
    parts = bundle()
    return replace(parts, config=parts.config | changes).served()


def labels(value: object) -> Served:
    return config(config={"Labels": value})


def config_blob(content: bytes, **changes: object) -> Served:
    """A bundle with these bytes for a configuration, described truly but for ``changes``."""
    parts = replace(bundle(), manifest={"config": described(content, media_types.OCI_CONFIG) | changes}).served()
    return replace(parts, blobs={**parts.blobs, digest_of(content): content})


def document(content: bytes, media_type: str = media_types.OCI_MANIFEST) -> Served:
    """A bundle with these bytes for a manifest."""
    return Served(content, bundle().served().blobs, media_type)


def index(manifests: object, blobs: Mapping[str, bytes] | None = None, **more: object) -> Served:
    content = dump({"schemaVersion": 2, "mediaType": media_types.OCI_INDEX, "manifests": manifests, **more})
    return Served(content, blobs or {}, media_types.OCI_INDEX)


# --- what takes more than a line


def header(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> bytes:
    """The header of an entry, without what it announces."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def with_field(block: bytes, at: int, value: bytes) -> bytes:
    """A header with other bytes in one of its fields, and its checksum set right."""
    changed = bytearray(block)
    changed[at : at + len(value)] = value
    changed[148:156] = b" " * 8
    changed[148:156] = b"%06o\0 " % sum(changed[:512])
    return bytes(changed)


def pax(records: Mapping[str, str], *members: Member) -> bytes:
    """An archive whose first entry has these records before it."""
    text = b"".join(_record(key.encode(), value.encode()) for key, value in records.items())
    return header("pax", tarfile.XHDTYPE, len(text)) + text.ljust(-(-len(text) // 512) * 512, b"\0") + tar(members)


def _record(key: bytes, value: bytes) -> bytes:
    length = len(key) + len(value) + 3
    while len(b"%d %b=%b\n" % (length, key, value)) != length:
        length += 1
    return b"%d %b=%b\n" % (length, key, value)


def gzip_bomb() -> Served:
    """5 GiB of zeros behind the archive's end, in some 5 MB."""
    zeros = gzip.compress(bytes(64 * MEBIBYTE), 9, mtime=0)
    return raw(gzip.compress(tar([])) + zeros * 80, media_types.OCI_LAYER_GZIP)


def zstd_bomb() -> Served:
    zeros = zstandard.ZstdCompressor().compress(bytes(64 * MEBIBYTE))
    start = zstandard.ZstdCompressor().compress(tar([]))
    return raw(start + zeros * 80, media_types.OCI_LAYER_ZSTD)


def many_files() -> Served:
    """Files of next to nothing that are 15 MiB each when they are unpacked."""
    compress = zstandard.ZstdCompressor().compress
    zeros = compress(bytes(15 * MEBIBYTE))
    names = (header(f"manifests/big{number}.yaml", size=15 * MEBIBYTE) for number in range(6))
    return raw(b"".join(compress(name) + zeros for name in names), media_types.OCI_LAYER_ZSTD)


def many_entries() -> Served:
    """A million directories, in some 2 MB."""
    piece = gzip.compress(header("d/", tarfile.DIRTYPE) * 10_000, mtime=0)
    return raw(piece * 100, media_types.OCI_LAYER_GZIP)


def many_layers() -> Served:
    return bundle(*[(tar([member("same", b"1")]), media_types.OCI_LAYER)] * 9_999).served()


def sparse() -> Served:
    """The old form of GNU's sparse files: 8 GiB that are a hole."""
    block = with_field(header("manifests/sparse", tarfile.GNUTYPE_SPARSE), 483, b"%011o\0" % (8 << 30))
    return raw(block + bytes(1024))


def nested_indexes(depth: int) -> Served:
    """An index of an index of ... a bundle."""
    image = bundle().served()
    blobs = {**image.blobs, digest_of(image.manifest): image.manifest}
    entry = described(image.manifest, media_types.OCI_MANIFEST)
    for _ in range(depth):
        served = index([entry], blobs)
        blobs[digest_of(served.manifest)] = served.manifest
        entry = described(served.manifest, media_types.OCI_INDEX)
    return served


def index_of_itself() -> Served:
    """No honest content can name its own digest: the registry has to lie."""
    claimed = f"sha256:{'5' * 64}"
    served = index([{"mediaType": media_types.OCI_INDEX, "digest": claimed, "size": 300}])
    return replace(served, blobs={claimed: served.manifest})


def index_with_missing_image() -> Served:
    whole = nested_indexes(1)
    image = bundle().served().manifest
    return replace(whole, blobs={digest: blob for digest, blob in whole.blobs.items() if digest != digest_of(image)})


def foreign_layer() -> Served:
    """A layer that is to be fetched from an address of the image's choice."""
    content = tar([member("manifests/foreign.yaml", b"x: 1\n")])
    kind = "application/vnd.oci.image.layer.nondistributable.v1.tar"
    parts = bundle((content, kind))
    descriptors = [described(*layer) for layer in parts.layers]
    descriptors[1]["urls"] = ["http://127.0.0.1:1/foreign", "file:///etc/passwd"]
    served = replace(parts, manifest={"layers": descriptors}).served()
    return replace(served, blobs={digest: blob for digest, blob in served.blobs.items() if blob != content})


def other_content(position: int) -> Served:
    """A bundle whose configuration (0) or layer (1) is other content of the same size."""
    served = bundle().served()
    digest = list(served.blobs)[position]
    return replace(served, blobs={**served.blobs, digest: bytes(len(served.blobs[digest]))})


def duplicate_keys() -> Served:
    """JSON that names its layers twice: as other tools do, the last counts."""
    good = bundle().served()
    empty = good.manifest.replace(b'"layers":', b'"layers": [], "layers":')
    return replace(good, manifest=empty)


OUT = "points outside the image"
DAMAGED = "invalid tar archive"
DEVICE = tarfile.CHRTYPE
LONG = "x" * 300
YAML = b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: n}\n"
FILE = "manifests/more.yaml"

PATHS = {
    "parent": Hostile(partial(layer, member("../evil", b"x")), OUT),
    "parent of a directory": Hostile(partial(layer, member("manifests/../../evil", b"x")), OUT),
    "parent after the root": Hostile(partial(layer, member("/../../evil", b"x")), OUT),
    "parent within": Hostile(partial(layer, member("manifests/../evil", b"x")), OUT),
    "absolute": Hostile(partial(layer, member("/outside/file", b"evil")), holds={"outside/file": b"evil"}),
    "only dots and slashes": Hostile(partial(layer, directory("./././"), directory("//"), directory("/."))),
    "hard link to the parent": Hostile(
        partial(layer, hardlink("manifests/x.yaml", "../outside/file")), OUT, add_says=OUT
    ),
    "hard link to an absolute path": Hostile(partial(layer, hardlink(FILE, "/etc/passwd")), holds={FILE: None}),
    "hard link by a link": Hostile(
        partial(layer, symlink("l", "../outside"), hardlink(FILE, "l/file")), holds={FILE: None}
    ),
    "write through a link": Hostile(
        partial(layer, symlink("manifests/l", "../../outside"), member("manifests/l/file", b"evil")),
        holds={"manifests/l/file": b"evil"},
    ),
    "write through an absolute link": Hostile(
        partial(layers, [symlink("l", "/outside")], [member("l/file", b"evil")]), holds={"l/file": b"evil"}
    ),
    "write over a link": Hostile(
        partial(layers, [symlink(FILE, "../../outside/file")], [member(FILE, YAML)]), holds={FILE: YAML}
    ),
    "write through two links": Hostile(
        partial(layer, directory("d"), symlink("d/a", "../.."), symlink("b", "d/a/outside"), member("b/file", b"evil")),
        holds={"b/file": b"evil"},
    ),
    "links in a ring": Hostile(
        partial(layer, symlink("manifests/a.yaml", "b.yaml"), symlink("manifests/b.yaml", "a.yaml"))
    ),
    "link to itself": Hostile(partial(layer, symlink(FILE, "more.yaml"))),
    "link to a file outside": Hostile(partial(layer, symlink(FILE, "/etc/passwd")), holds={FILE: None}),
    "all manifests a link": Hostile(partial(layer, symlink("manifests", "/etc")), "manifests", {}),
}

KINDS = {
    "device": Hostile(partial(layer, member(FILE, kind=DEVICE)), holds={FILE: None}),
    "block device over a file": Hostile(
        partial(layer, member("manifests/csv.yaml", kind=tarfile.BLKTYPE)),
        "no Kubernetes object",
        add_says="no manifests directory",
    ),
    "pipe": Hostile(partial(layer, member(FILE, kind=tarfile.FIFOTYPE)), holds={FILE: None}),
    "set-uid": Hostile(partial(layer, member("bin/su", b"x", mode=0o6755)), holds={"bin/su": b"x"}),
    "modes of nothing": Hostile(
        partial(layer, directory("manifests", 0), member(FILE, YAML, mode=0)), holds={FILE: YAML}
    ),
    "unknown kind": Hostile(partial(layer, member(FILE, YAML, kind=b"Z")), holds={FILE: None}),
    "file in place of a directory": Hostile(partial(layers, [member("manifests", b"x")]), "manifests"),
    "directory in place of a file": Hostile(
        partial(layers, [member("a", b"x")], [directory("a"), member("a/b", b"y")]), holds={"a/b": b"y"}
    ),
    "link in place of a directory": Hostile(
        partial(layers, [directory("a"), member("a/b", b"x")], [symlink("a", "/outside")], [member("a/file", b"y")]),
        holds={"a/file": b"y", "a/b": None},
    ),
    "same file twice": Hostile(partial(layer, member(FILE, b"first: 1\n"), member(FILE, YAML)), holds={FILE: YAML}),
    "file and directory at once": Hostile(partial(layer, member("a", b"x"), directory("a"), member("a/b", b"y"))),
    "names that differ by case": Hostile(
        partial(layer, member("manifests/MORE.yaml", YAML), member(FILE, YAML)),
        holds={FILE: YAML, "manifests/MORE.yaml": YAML},
    ),
}

WHITEOUTS = {
    "whiteout of nothing": Hostile(partial(layer, member("manifests/.wh.")), "invalid whiteout"),
    "whiteout of the directory": Hostile(partial(layer, member("manifests/.wh..")), "invalid whiteout"),
    "whiteout of the parent": Hostile(partial(layer, member(".wh...")), "invalid whiteout"),
    "whiteout above": Hostile(partial(layer, member("../.wh.outside")), OUT),
    "whiteout of what isn't there": Hostile(partial(layer, member("manifests/.wh.none"))),
    "whiteout through a link": Hostile(partial(layers, [symlink("l", "../outside")], [member("l/.wh.file")])),
    "whiteout of a whiteout": Hostile(partial(layer, member(".wh..wh.manifests"))),
    "opaque root": Hostile(partial(layer, member(".wh..wh..opq")), "manifests"),
    "opaque above": Hostile(partial(layer, member("../.wh..wh..opq")), OUT),
    "opaque through a link": Hostile(partial(layers, [symlink("l", "../outside")], [member("l/.wh..wh..opq")])),
    "opaque before its files": Hostile(
        partial(layers, [member("a/old", b"1")], [member("a/new", b"2"), member("a/.wh..wh..opq")]),
        holds={"a/new": b"2", "a/old": None},
    ),
}

ARCHIVES = {
    "negative size": Hostile(partial(raw, with_field(header("a"), 124, b"\xff" * 12) + bytes(1024)), "negative size"),
    "eight exbibytes": Hostile(
        partial(raw, with_field(header(FILE), 124, struct.pack(">BxxxQ", 0x80, (1 << 63) - 512)) + bytes(1024)),
        "bytes per file",
    ),
    "size beyond the end": Hostile(
        partial(raw, header(FILE, size=10_000) + bytes(512)), "unexpected end of the archive"
    ),
    "cut off in a header": Hostile(partial(raw, tar([member(FILE, YAML)])[:200]), DAMAGED),
    "cut off in gzip": Hostile(
        partial(raw, gzip.compress(tar([member(FILE, YAML)]))[:60], media_types.OCI_LAYER_GZIP), DAMAGED
    ),
    "garbage after the end": Hostile(partial(raw, tar([member(FILE, YAML)]) + b"garbage" * 999), holds={FILE: YAML}),
    "garbage after gzip": Hostile(
        partial(raw, gzip.compress(tar([member(FILE, YAML)])) + b"garbage", media_types.OCI_LAYER_GZIP), DAMAGED
    ),
    "wrong checksum": Hostile(partial(raw, tar([member(FILE, YAML)]).replace(b"0000644", b"0000777")), DAMAGED),
    "text": Hostile(partial(raw, b"<html>not an archive</html>" * 99), DAMAGED),
    "nothing": Hostile(partial(raw, b"")),
    "gzip in gzip": Hostile(partial(zipped, gzip.compress(tar([member(FILE, YAML)]))), DAMAGED),
    "zstd that says gzip": Hostile(
        partial(raw, zstandard.ZstdCompressor().compress(tar([])), media_types.OCI_LAYER_GZIP),
        "but content is zstd data",
    ),
    "huge pax header": Hostile(partial(zipped, header("p", tarfile.XHDTYPE, 1 << 30) + bytes(MEBIBYTE)), "header of"),
    "huge global header": Hostile(partial(zipped, header("p", b"g", 1 << 30) + bytes(MEBIBYTE)), "header of"),
    "long name of a mebibyte": Hostile(
        partial(zipped, header("././@LongLink", b"L", MEBIBYTE) + b"x" * MEBIBYTE), "header of"
    ),
    "chain of long names": Hostile(partial(zipped, header("././@LongLink", b"L") * 9999), DAMAGED),
    "path in a pax header": Hostile(partial(raw, pax({"path": "../evil"}, member("good", b"x"))), OUT),
    "size in a pax header": Hostile(partial(raw, pax({"size": "-1"}, member(FILE, YAML))), "negative size"),
    "size of words": Hostile(partial(raw, pax({"size": "many"}, member(FILE, YAML))), DAMAGED),
    "sparse file": Hostile(sparse, "sparse"),
    "sparse file by pax": Hostile(
        partial(
            raw, pax({"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}, member(FILE, b"1\n0\n9\n".ljust(512, b"\0")))
        ),
        "sparse",
    ),
    "ten thousand directories deep": Hostile(partial(layer, member("d/" * 10_000 + "f")), "bytes per path"),
    "path of three thousand bytes": Hostile(partial(layer, member("manifests/" + "x/" * 1500)), "bytes per path"),
    "name of 300 bytes": Hostile(partial(layer, member(f"manifests/{LONG}", YAML)), "bytes per file name"),
}

BOMBS = {
    "gzip bomb": Hostile(gzip_bomb, "decompressed bytes"),
    "zstd bomb": Hostile(zstd_bomb, "decompressed bytes"),
    "file of two gibibytes": Hostile(partial(zipped, header(FILE, size=2 << 30) + bytes(9999)), "bytes per file"),
    "many large files": Hostile(many_files, "has more than 67108864 bytes", add_says="extracted bytes"),
    "a million entries": Hostile(many_entries, "50000 entries"),
    "ten thousand layers": Hostile(many_layers, "manifest.layers: 10000 elements"),
}

NAMES = {
    "composed and decomposed": Hostile(
        partial(layer, member("manifests/\u00e9.yaml", YAML), member("manifests/e\u0301.yaml", YAML)),
        holds={"manifests/\u00e9.yaml": YAML, "manifests/e\u0301.yaml": YAML},
    ),
    "right to left": Hostile(
        partial(layer, member("manifests/\u202elmay.yaml", YAML)), holds={"manifests/\u202elmay.yaml": YAML}
    ),
    "not UTF-8": Hostile(partial(raw, tar([member("manifests/XX.yaml", YAML)]).replace(b"XX", b"\xff\xfe")), DAMAGED),
    "surrogates": Hostile(partial(layer, member("manifests/\udcff\udcfe.yaml", YAML))),
    "NUL": Hostile(partial(raw, pax({"path": "manifests/a\0b"}, member("good", b"x"))), OUT),
    "line feed": Hostile(partial(layer, member("manifests/a\nError: b.yaml", YAML))),
    "control sequence": Hostile(partial(layer, member("../\x1b[31m\x1b]0;evil\x07", b"x")), OUT),
    "no name": Hostile(partial(layer, member("", b"x")), "the root is not a directory"),
    "link in place of the root": Hostile(partial(layers, [symlink("./", "../outside")]), "the root is not a directory"),
    "link to NUL": Hostile(partial(raw, pax({"linkpath": "a\0b"}, symlink(FILE, "x"))), "invalid link target"),
    "link of five thousand bytes": Hostile(partial(layer, symlink(FILE, "x/" * 2500)), "bytes per path"),
}

DESCRIPTORS = {
    "other layer": Hostile(partial(other_content, 1), "digest mismatch"),
    "other configuration": Hostile(partial(other_content, 0), "digest mismatch"),
    "layer that is shorter": Hostile(partial(first_layer, size=9_999), "expected 9999 bytes"),
    "layer that is longer": Hostile(partial(first_layer, size=9), "expected 9 bytes"),
    "layer that isn't there": Hostile(partial(first_layer, digest=f"sha256:{'0' * 64}"), "not found"),
    "size below zero": Hostile(
        partial(first_layer, size=-1), "layers[0].size: expected a non-negative integer, got -1"
    ),
    "size of a fraction": Hostile(
        partial(first_layer, size=1.5), "layers[0].size: expected a non-negative integer, got 1.5"
    ),
    "size beyond 64 bits": Hostile(partial(first_layer, size=1 << 70), "layers[0].size"),
    "size in words": Hostile(
        partial(first_layer, size="1"), "layers[0].size: expected a non-negative integer, got '1'"
    ),
    "unknown algorithm": Hostile(
        partial(first_layer, digest=f"md5:{'0' * 32}"),
        "layers[0].digest: expected a sha256, sha384 or sha512 digest, got 'md5:",
    ),
    "digest with a path": Hostile(
        partial(first_layer, digest="sha256:../../etc/passwd"), "layers[0].digest: expected a"
    ),
    "digest in capitals": Hostile(partial(first_layer, digest=f"sha256:{'A' * 64}"), "layers[0].digest: expected a"),
    "no digest": Hostile(partial(first_layer, digest=None), "layers[0].digest: missing"),
    "foreign layer": Hostile(foreign_layer, "not found"),
    "annotations of numbers": Hostile(
        partial(manifest, annotations={"a": 1}), "manifest.annotations.a: expected a string, got 1"
    ),
    "annotations in a list": Hostile(
        partial(manifest, annotations=["a"]), "manifest.annotations: expected an object, got ['a']"
    ),
    "layers that are none": Hostile(partial(manifest, layers="many"), "manifest.layers: expected a list, got 'many'"),
    "too many layers": Hostile(partial(manifest, layers=[{}] * 99_999), "manifest.layers: 99999 elements"),
}

DOCUMENTS = {
    "schema 1": Hostile(partial(manifest, schemaVersion=1), "schema 1"),
    "schema 3": Hostile(partial(manifest, schemaVersion=3), "schemaVersion: expected 2"),
    "schema in words": Hostile(partial(manifest, schemaVersion="2"), "schemaVersion: expected 2"),
    "schema of nothing": Hostile(partial(manifest, schemaVersion=None), "schemaVersion: expected 2"),
    "unknown type": Hostile(partial(manifest, mediaType="application/x"), "unsupported manifest type 'application/x'"),
    "index and image at once": Hostile(partial(manifest, manifests=[]), "ambiguous manifest"),
    "keys twice": Hostile(duplicate_keys, holds=BUNDLE),
    "manifest without end": Hostile(partial(document, b" " * (5 * MEBIBYTE)), "the response exceeds the limit"),
    "manifest deep": Hostile(partial(document, b'{"a":' * 200_000), "invalid JSON"),
    "manifest deep and whole": Hostile(partial(document, b'{"a":' * 900 + b"1" + b"}" * 900), "JSON nesting exceeds"),
    "a wealth of lists": Hostile(partial(manifest, more=[[]] * 900_000), holds=BUNDLE),
    "not JSON": Hostile(partial(document, b"<html>"), "invalid JSON"),
    "byte order mark": Hostile(partial(document, b"\xef\xbb\xbf" + bundle().served().manifest), "invalid JSON"),
    "JSON that isn't UTF-8": Hostile(partial(document, b'{"\xff":1}'), "invalid JSON"),
    "no number": Hostile(partial(document, b'{"schemaVersion":NaN}'), "invalid JSON"),
    "list": Hostile(partial(document, b"[]"), "manifest: expected an object"),
    "empty": Hostile(partial(document, b""), "invalid JSON"),
    "artifact": Hostile(
        partial(config_blob, b"{}", mediaType="application/vnd.oci.empty.v1+json"), "an artifact of type"
    ),
    "index nested twice": Hostile(partial(nested_indexes, 2), holds=BUNDLE),
    "index nested deep": Hostile(partial(nested_indexes, 9), "nested indexes exceed"),
    "index of itself": Hostile(index_of_itself, "the registry sent another manifest"),
    "index of nothing": Hostile(partial(index, []), "has no image"),
    "index of numbers": Hostile(partial(index, [1, 2]), "manifests[0]: expected an object, got 1"),
    "index whose image isn't there": Hostile(index_with_missing_image, "not found"),
    "index of too many": Hostile(partial(index, [{}] * 99_999), "99999 elements"),
    "deep index": Hostile(partial(document, b'{"manifests":' + b"[" * 99_999, media_types.OCI_INDEX), "invalid JSON"),
}

CONFIGS = {
    "configuration that is no JSON": Hostile(partial(config_blob, tar([])), "invalid JSON"),
    "configuration deep": Hostile(partial(config_blob, b'{"a":' * 900 + b"1" + b"}" * 900), "JSON nesting exceeds"),
    "configuration too long": Hostile(partial(config_blob, b"{}", size=1 << 40), "exceed the limit of"),
    "configuration that grows": Hostile(partial(config_blob, b" " * (9 * MEBIBYTE), size=2), "size mismatch"),
    "labels of numbers": Hostile(partial(labels, {"a": 1}), "config.Labels.a: expected a string, got 1"),
    "labels in a list": Hostile(partial(labels, ["a"]), "config.Labels: expected an object, got ['a']"),
    "labels of a surrogate": Hostile(partial(labels, {"a": "\ud800"}), "invalid JSON"),
    "huge label": Hostile(partial(labels, {"a": "x" * (7 * MEBIBYTE)}), holds=BUNDLE),
    "fewer layers": Hostile(partial(config, rootfs={"diff_ids": []}), "has 1 layers, its configuration 0"),
    "content of another layer": Hostile(partial(config, rootfs={"diff_ids": [f"sha256:{'0' * 64}"]}), holds=BUNDLE),
    "content without digest": Hostile(partial(config, rootfs={"diff_ids": ["x"]}), "invalid digest 'x'"),
    "history of more": Hostile(partial(config, history=[{"created_by": "x"}] * 9_999), holds=BUNDLE),
    "history too long": Hostile(partial(config, history=[{}] * 99_999), "config.history: 99999 elements"),
    "history of numbers": Hostile(partial(config, history=[1]), "config.history[0]: expected an object, got 1"),
    "platform of numbers": Hostile(partial(config, os=1), "config.os: expected a string, got 1"),
}

HOSTILE: dict[str, Hostile] = {
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
"""The images by what is wrong with them."""
