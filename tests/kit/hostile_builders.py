"""Builders of hostile images, and a registry that serves them without any checks."""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

from opmkit.imagetools.spec import media_types
from tests.kit import zstd
from tests.kit.bundles import bundle_content, bundle_labels
from tests.kit.images import Member, member, tar
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Json = dict[str, Any]
BUNDLE = bundle_content("hostile", "1.0.0")
CSV = BUNDLE["manifests/csv.yaml"]
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class ServedImage:
    """The manifest of an image, and its blobs by digest, which they need not match."""

    manifest: bytes
    blobs: Mapping[str, bytes]
    media_type: str = media_types.OCI_MANIFEST


class HostileRegistry:
    """A registry that serves images as ``HOST/hostile/NAME:1``; ``unexpected_paths`` lists requests for other paths."""

    def __init__(self) -> None:
        self.unexpected_paths: list[str] = []
        self._images: dict[str, ServedImage] = {}

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

    def put(self, name: str, image: ServedImage) -> str:
        """Add an image and return its reference."""
        self._images[name] = image
        return f"{self._web.host}/hostile/{name}:1"

    def content(self, path: str) -> tuple[bytes | None, str]:
        """Return the content of a URL path and its media type."""
        _, _, repository, name, kind, identifier = (*path.split("/", 5), "", "", "", "", "")[:6]
        image = self._images.get(name)
        if repository != "hostile" or image is None:
            self.unexpected_paths.append(path)
            return None, ""
        if kind == "manifests" and identifier == "1":
            return image.manifest, image.media_type
        content = image.blobs.get(identifier)
        return content, str(json.loads(content).get("mediaType", "")) if content and kind == "manifests" else ""


def digest_of(content: bytes) -> str:
    """Return the digest as ``sha256:<hex>``."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def dump(value: object) -> bytes:
    """Return a JSON document."""
    return json.dumps(value).encode()


def descriptor(content: bytes, media_type: str, **more: object) -> Json:
    """Return the descriptor of a blob, with more fields."""
    return {"mediaType": media_type, "digest": digest_of(content), "size": len(content), **more}


@dataclass(frozen=True)
class ImageParts:
    """The parts of an image; ``layers`` are blobs with their media types, ``manifest`` are fields to replace."""

    layers: tuple[tuple[bytes, str], ...]
    config: Json
    manifest: Json = field(default_factory=dict)

    def serve(self) -> ServedImage:
        """Build the manifest."""
        config = dump(self.config)
        manifest = {
            "schemaVersion": 2,
            "mediaType": media_types.OCI_MANIFEST,
            "config": descriptor(config, media_types.OCI_CONFIG),
            "layers": [descriptor(*layer) for layer in self.layers],
            **self.manifest,
        }
        blobs = [config, *(content for content, _ in self.layers)]
        return ServedImage(dump(manifest), {digest_of(content): content for content in blobs})


def bundle(*extra_layers: tuple[bytes, str]) -> ImageParts:
    """Return a valid bundle with these layers on top."""
    base = tar(member(path, content) for path, content in BUNDLE.items())
    layers = ((gzip.compress(base, mtime=0), media_types.OCI_LAYER_GZIP), *extra_layers)
    config = {
        "os": "linux",
        "architecture": "amd64",
        "config": {"Labels": bundle_labels("hostile")},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(base)] * len(layers)},
    }
    return ImageParts(layers, config)


def raw(content: bytes, media_type: str = media_types.OCI_LAYER) -> ServedImage:
    """Return a bundle with a layer of these bytes on top."""
    return bundle((content, media_type)).serve()


def gzipped(content: bytes) -> ServedImage:
    """Return a bundle with a layer of these bytes, compressed, on top."""
    return raw(gzip.compress(content, mtime=0), media_types.OCI_LAYER_GZIP)


def layers(*layers_bottom_first: Iterable[Member]) -> ServedImage:
    """Return a bundle with layers of these entries on top."""
    return bundle(*((tar(members), media_types.OCI_LAYER) for members in layers_bottom_first)).serve()


def layer(*members: Member) -> ServedImage:
    """Return a bundle with a layer of these entries on top."""
    return layers(members)


def manifest(**changes: object) -> ServedImage:
    """Return a bundle with changed fields in its manifest."""
    return replace(bundle(), manifest=changes).serve()


def first_layer(**changes: object) -> ServedImage:
    """Return a bundle with changed fields in the descriptor of its layer."""
    return manifest(layers=[descriptor(*bundle().layers[0]) | changes])


def config(**changes: object) -> ServedImage:
    """Return a bundle with changed fields in its configuration."""
    parts = bundle()
    return replace(parts, config=parts.config | changes).serve()


def labels(value: object) -> ServedImage:
    """Return a bundle with other labels."""
    return config(config={"Labels": value})


def config_blob(content: bytes, **changes: object) -> ServedImage:
    """Return a bundle with these bytes as configuration, and ``changes`` in their descriptor."""
    parts = replace(bundle(), manifest={"config": descriptor(content, media_types.OCI_CONFIG) | changes}).serve()
    return replace(parts, blobs={**parts.blobs, digest_of(content): content})


def document(content: bytes, media_type: str = media_types.OCI_MANIFEST) -> ServedImage:
    """Return a bundle with these bytes as manifest."""
    return ServedImage(content, bundle().serve().blobs, media_type)


def index(manifests: object, blobs: Mapping[str, bytes] | None = None, **more: object) -> ServedImage:
    """Return an image index."""
    content = dump({"schemaVersion": 2, "mediaType": media_types.OCI_INDEX, "manifests": manifests, **more})
    return ServedImage(content, blobs or {}, media_types.OCI_INDEX)


def header(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> bytes:
    """Return the header of an entry without its content."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def with_field(block: bytes, offset: int, value: bytes) -> bytes:
    """Return a header with other bytes in one of its fields, and the right checksum."""
    changed = bytearray(block)
    changed[offset : offset + len(value)] = value
    changed[148:156] = b" " * 8
    changed[148:156] = b"%06o\0 " % sum(changed[:512])
    return bytes(changed)


def pax(records: Mapping[str, str], *members: Member) -> bytes:
    """Return an archive whose first entry has a pax header with these records."""
    text = b"".join(_record(key.encode(), value.encode()) for key, value in records.items())
    return header("pax", tarfile.XHDTYPE, len(text)) + text.ljust(-(-len(text) // 512) * 512, b"\0") + tar(members)


def _record(key: bytes, value: bytes) -> bytes:
    length = len(key) + len(value) + 3
    while len(b"%d %b=%b\n" % (length, key, value)) != length:
        length += 1
    return b"%d %b=%b\n" % (length, key, value)


def gzip_bomb() -> ServedImage:
    """Return a bundle with 5 GiB of zeros after the end of an archive, compressed to 5 MB."""
    zeros = gzip.compress(bytes(64 * MEBIBYTE), 9, mtime=0)
    return raw(gzip.compress(tar([])) + zeros * 80, media_types.OCI_LAYER_GZIP)


def zstd_bomb() -> ServedImage:
    """Return a bundle with 5 GiB of zeros after the end of an archive, compressed to less than 1 MB."""
    zeros = zstd.compress(bytes(64 * MEBIBYTE))
    start = zstd.compress(tar([]))
    return raw(start + zeros * 80, media_types.OCI_LAYER_ZSTD)


def many_files() -> ServedImage:
    """Return a bundle with small compressed files of 15 MiB each."""
    compress = zstd.compress
    zeros = compress(bytes(15 * MEBIBYTE))
    names = (header(f"manifests/big{number}.yaml", size=15 * MEBIBYTE) for number in range(6))
    return raw(b"".join(compress(name) + zeros for name in names), media_types.OCI_LAYER_ZSTD)


def many_entries() -> ServedImage:
    """Return a bundle with a million directory entries, compressed to 2 MB."""
    piece = gzip.compress(header("d/", tarfile.DIRTYPE) * 10_000, mtime=0)
    return raw(piece * 100, media_types.OCI_LAYER_GZIP)


def many_layers() -> ServedImage:
    """Return a bundle with ten thousand layers."""
    return bundle(*[(tar([member("same", b"1")]), media_types.OCI_LAYER)] * 9_999).serve()


def sparse() -> ServedImage:
    """Return a bundle with an 8 GiB hole in the old GNU format of sparse files."""
    block = with_field(header("manifests/sparse", tarfile.GNUTYPE_SPARSE), 483, b"%011o\0" % (8 << 30))
    return raw(block + bytes(1024))


def nested_indexes(depth: int) -> ServedImage:
    """Return a bundle in nested indexes."""
    image = bundle().serve()
    blobs = {**image.blobs, digest_of(image.manifest): image.manifest}
    entry = descriptor(image.manifest, media_types.OCI_MANIFEST)
    for _ in range(depth):
        served = index([entry], blobs)
        blobs[digest_of(served.manifest)] = served.manifest
        entry = descriptor(served.manifest, media_types.OCI_INDEX)
    return served


def index_of_itself() -> ServedImage:
    """Return an index that lists the digest under which it is served."""
    claimed = f"sha256:{'5' * 64}"
    served = index([{"mediaType": media_types.OCI_INDEX, "digest": claimed, "size": 300}])
    return replace(served, blobs={claimed: served.manifest})


def index_with_missing_image() -> ServedImage:
    """Return an index whose image is not served."""
    whole = nested_indexes(1)
    image = bundle().serve().manifest
    return replace(whole, blobs={digest: blob for digest, blob in whole.blobs.items() if digest != digest_of(image)})


def foreign_layer() -> ServedImage:
    """Return a bundle with a layer that is only available from URLs in its descriptor."""
    content = tar([member("manifests/foreign.yaml", b"x: 1\n")])
    kind = "application/vnd.oci.image.layer.nondistributable.v1.tar"
    parts = bundle((content, kind))
    descriptors = [descriptor(*layer) for layer in parts.layers]
    descriptors[1]["urls"] = ["http://127.0.0.1:1/foreign", "file:///etc/passwd"]
    served = replace(parts, manifest={"layers": descriptors}).serve()
    return replace(served, blobs={digest: blob for digest, blob in served.blobs.items() if blob != content})


def other_content(position: int) -> ServedImage:
    """Return a bundle whose configuration (0) or layer (1) is served with other content of the same size."""
    served = bundle().serve()
    digest = list(served.blobs)[position]
    return replace(served, blobs={**served.blobs, digest: bytes(len(served.blobs[digest]))})


def duplicate_keys() -> ServedImage:
    """Return a bundle whose manifest has two fields ``layers``, of which programs use different ones."""
    good = bundle().serve()
    empty = good.manifest.replace(b'"layers":', b'"layers": [], "layers":')
    return replace(good, manifest=empty)
