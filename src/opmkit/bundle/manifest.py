"""Manifests: the Kubernetes object of one file, in the compact form that an index stores."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict, deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle import crd
from opmkit.bundle.document import read_document
from opmkit.bundle.errors import InvalidBundle, InvalidDocument
from opmkit.bundle.json_value import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit.bundle.json_value import JsonValue
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
    return None if document.value is None else manifest_of(document.value, more=document.more)


def manifest_of(value: JsonValue, *, more: bool = False) -> Manifest:
    """Give the manifest of an object that has been read; ``value`` may be changed by this.

    Raises:
        InvalidDocument: if it is no Kubernetes object.
    """
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
            flaw = InvalidBundle(error.message, hint=error.hint)
    try:
        return Manifest(kind, encode(value), more, apis, flaw)
    except ValueError as error:
        raise InvalidDocument(f"no JSON can hold it: {error}") from error


def try_manifest(content: bytes) -> Manifest | InvalidDocument | None:
    """Do as `read_manifest` does, with its error for a result."""
    try:
        return read_manifest(content)
    except InvalidDocument as error:
        return error


@dataclass(frozen=True, slots=True)
class Claim:
    """A content, and what it holds once it is read; who ``mine`` is set for has to see to that."""

    content: bytes
    digest: bytes
    manifest: Future[Manifest | InvalidDocument | None]
    mine: bool


class ManifestCache:
    """Manifests by their content, for the versions of an operator repeat most files byte for byte.

    Safe for several threads: each content is read by one of them, and the others wait for it. It keeps the most
    recently used, up to ``max_bytes`` of JSON.
    """

    def __init__(self, max_bytes: int = 128 * 1024 * 1024) -> None:
        """Start empty."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._manifests: OrderedDict[bytes, Future[Manifest | InvalidDocument | None]] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, content: bytes) -> Manifest | None:
        """Do as `read_manifest` does, unless this content was read before."""
        claim = self.claim(content)
        if claim.mine:
            self.settle([claim], map(try_manifest, [content]))
        manifest = claim.manifest.result()
        if isinstance(manifest, InvalidDocument):
            raise manifest
        return manifest

    def claim(self, content: bytes) -> Claim:
        """Find what became of a content, or take it on; then it has to be settled."""
        digest = hashlib.sha256(content).digest()
        with self._lock:
            manifest = self._manifests.get(digest)
            mine = manifest is None
            if manifest is None:
                manifest = self._manifests[digest] = Future()
            self._manifests.move_to_end(digest)
        return Claim(content, digest, manifest, mine)

    def settle(self, claims: Sequence[Claim], results: Iterable[Manifest | InvalidDocument | None]) -> None:
        """Hand in the results of claims, in their order; an error among them goes to all who wait for the rest."""
        unsettled = deque(claims)
        try:
            for result in results:
                claim = unsettled.popleft()
                claim.manifest.set_result(result)
                self._keep(claim)
        except BaseException as error:
            for claim in unsettled:
                claim.manifest.set_exception(error)
            raise

    def _keep(self, claim: Claim) -> None:
        """Count what was read, and let go of what was not used for longest."""
        with self._lock:
            if self._manifests.get(claim.digest) is claim.manifest:
                self._bytes += _size(claim.manifest)
            while self._bytes > self._max_bytes:
                self._bytes -= _size(self._manifests.popitem(last=False)[1])


def _size(manifest: Future[Manifest | InvalidDocument | None]) -> int:
    """The bytes of JSON; none where it is not read yet."""
    result = manifest.result() if manifest.done() and not manifest.exception() else None
    return len(result.json) if isinstance(result, Manifest) else 0
