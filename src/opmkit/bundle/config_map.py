"""A bundle as a ConfigMap, the way in which OLM takes the content of a bundle's image out of a pod that runs it.

The keys, annotations and encoding are those that OLM's bundle unpacking reads.
"""

from __future__ import annotations

import base64
import gzip
import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.bundle import labels
from opmkit.bundle.errors import BundleError
from opmkit.bundle.load import DIRECTORIES
from opmkit.bundle.metadata import read_metadata
from opmkit.imagetools.hints import Hint, Setting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_BYTES = 1 << 20
"""What a cluster lets a ConfigMap have, its annotations apart."""
SOURCE_IMAGE = "olm.sourceImage"
ENCODING = "olm.contentEncoding"
GZIP = "gzip+base64"
BUNDLE_LABELS = (
    *(labels.MANIFESTS, labels.MEDIA_TYPE, labels.METADATA),
    *(labels.PACKAGE, labels.CHANNELS, labels.DEFAULT_CHANNEL),
)
OWN_ANNOTATIONS = frozenset({*BUNDLE_LABELS, SOURCE_IMAGE, ENCODING})
"""The annotations by which a bundle is told; those of an earlier bundle go when another is written."""

_ANNOTATIONS_FILE = "metadata/annotations.yaml"
_FORBIDDEN = re.compile(r"[^-A-Za-z0-9_.]|^\.\.")
_LONGEST_KEY = 253


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """A ConfigMap of a cluster: texts in ``data``, what is no text in ``binary_data``, by distinct keys."""

    namespace: str
    name: str
    data: Mapping[str, str] = field(default_factory=dict, hash=False)
    binary_data: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)

    def manifest(self) -> dict[str, object]:
        """The object as the API has it in JSON."""
        binary = {key: base64.b64encode(value).decode() for key, value in self.binary_data.items()}
        metadata = {"name": self.name, "namespace": self.namespace, "annotations": dict(self.annotations)}
        content = {"data": dict(self.data), "binaryData": binary}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            **{section: values for section, values in content.items() if values},
        }


@dataclass(frozen=True, slots=True)
class Extraction:
    """How a bundle becomes a ConfigMap: its name, the bytes that it may have, and whether its files are compressed.

    ``image`` is the name of the bundle's image, "" if there is none.
    """

    namespace: str
    name: str
    limit: int = MAX_BYTES
    compress: bool = False
    image: str = ""


def bundle_config_map(files: Mapping[str, bytes], extraction: Extraction) -> ConfigMap:
    """Put the files of a bundle, by their paths from its root, into a ConfigMap.

    The bundle's annotations become those of the ConfigMap; the file ``annotations.yaml`` is left out. Keys are the
    names of the files, with ``-`` for what a key can't have, and a number behind a name that is there already. With
    ``compress`` all files are gzip in base64; without, those that are no UTF-8 are binary.

    Raises:
        InvalidBundle: if no file says where the bundle belongs.
        BundleError: if the files are too large.
    """
    metadata = {path: content for path, content in files.items() if path.startswith("metadata/")}
    found = read_metadata(metadata).labels
    annotations = {label: found.get(label, "") for label in BUNDLE_LABELS}
    if extraction.image:
        annotations[SOURCE_IMAGE] = extraction.image
    if extraction.compress:
        annotations[ENCODING] = GZIP
    texts: dict[str, str] = {}
    binaries: dict[str, bytes] = {}
    left = extraction.limit
    for path, content in _in_order(files):
        key = _key(path.rpartition("/")[2], texts.keys() | binaries.keys())
        stored = _compressed(content) if extraction.compress else content
        left -= len(stored)
        if left < 0:
            raise _too_large(extraction, path)
        if extraction.compress or (text := _text(stored)) is None:
            binaries[key] = stored
        else:
            texts[key] = text
    return ConfigMap(extraction.namespace, extraction.name, texts, binaries, annotations)


def _in_order(files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """The files in the two directories of a bundle, not those below, as they count for the limit."""
    for path in sorted(files):
        directory, _, name = path.partition("/")
        if directory in DIRECTORIES and "/" not in name and path != _ANNOTATIONS_FILE:
            yield path, files[path]


def _key(name: str, taken: set[str]) -> str:
    key = base = _FORBIDDEN.sub("-", name)[:_LONGEST_KEY]
    number = 1
    while key in taken:
        number += 1
        key = f"{base[: _LONGEST_KEY - 4]}.{number}"
    return key


def _compressed(content: bytes) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as file:
        file.write(content)
    return base64.b64encode(packed.getvalue())


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _too_large(extraction: Extraction, path: str) -> BundleError:
    hint = Hint(f"reduce their size: a cluster accepts at most {MAX_BYTES} bytes")
    if extraction.limit < MAX_BYTES:
        hint = Hint("raise {}; a cluster accepts at most {} bytes", Setting.DATA_LIMIT, str(MAX_BYTES))
    elif not extraction.compress:
        hint = Hint("compress them with {}; a cluster accepts at most {} bytes", Setting.GZIP, str(MAX_BYTES))
    return BundleError(f"bundle files exceeded {extraction.limit} bytes limit, at {path}", hint=hint)
