"""Manifests: the Kubernetes object of one file, in the compact form that an index stores."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle import crd
from opmkit.bundle.document import read_document
from opmkit.bundle.errors import InvalidBundle, InvalidDocument
from opmkit.bundle.jsonvalue import encode

if TYPE_CHECKING:
    from opmkit.bundle.model import ApiKey


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object: ``json`` is compact and without line end, ``more`` tells that its file holds other documents.

    ``apis`` are those of a CRD; ``flaw`` is why they can't be told.
    """

    kind: str
    json: bytes
    more: bool
    apis: tuple[ApiKey, ...] = ()
    flaw: InvalidBundle | None = None


def read_manifest(content: bytes) -> Manifest | None:
    """Read the first object of a file; None if its first document is empty.

    Raises:
        InvalidDocument: if there is something, but no Kubernetes object.
    """
    document = read_document(content)
    value = document.value
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidDocument("no Kubernetes object, which would be a mapping")
    kind, api_version = value.get("kind"), value.get("apiVersion")
    if not isinstance(kind, str) or not kind or (isinstance(api_version, str) and api_version.count("/") > 1):
        raise InvalidDocument("no Kubernetes object, which would have a kind and an apiVersion")
    apis: tuple[ApiKey, ...] = ()
    flaw = None
    if kind == crd.KIND:
        try:
            apis = crd.provided_apis(value)
        except InvalidBundle as error:
            flaw = InvalidBundle(error.message, advice=error.advice)
    try:
        return Manifest(kind, encode(value), document.more, apis, flaw)
    except ValueError as error:
        raise InvalidDocument(f"no JSON can hold it: {error}") from error


class ManifestCache:
    """Manifests by their content, for the versions of an operator repeat most files byte for byte.

    Safe for several threads. It keeps the most recently used, up to ``max_bytes`` of JSON.
    """

    def __init__(self, max_bytes: int = 128 * 1024 * 1024) -> None:
        """Start empty."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._manifests: OrderedDict[bytes, Manifest | None] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, content: bytes) -> Manifest | None:
        """Do as `read_manifest` does, unless this content was read before."""
        digest = hashlib.sha256(content).digest()
        with self._lock:
            if digest in self._manifests:
                self._manifests.move_to_end(digest)
                return self._manifests[digest]
        manifest = read_manifest(content)
        with self._lock:
            if digest not in self._manifests:
                self._manifests[digest] = manifest
                self._bytes += _size(manifest)
            while self._bytes > self._max_bytes:
                self._bytes -= _size(self._manifests.popitem(last=False)[1])
        return manifest


def _size(manifest: Manifest | None) -> int:
    return len(manifest.json) if manifest else 0
