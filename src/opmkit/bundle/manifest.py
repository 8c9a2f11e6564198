"""Manifests: Kubernetes objects in the compact JSON that an index stores, and the APIs that CRDs provide."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict, deque
from concurrent.futures import Future
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.kinds import CRD_KIND
from opmkit.bundle.model import ApiKey
from opmkit.documents import fields
from opmkit.documents.document import read_document
from opmkit.documents.errors import FieldTypeError, InvalidDocument
from opmkit.documents.json_value import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.documents.json_value import JsonValue


_GROUP = "apiextensions.k8s.io"


def provided_apis(crd: Mapping[str, JsonValue]) -> tuple[ApiKey, ...]:
    """Return one API per version of a CRD of apiVersion ``v1`` or ``v1beta1``; none for other apiVersions.

    Raises:
        InvalidBundle: A field has the wrong type, or the API group is not ``apiextensions.k8s.io``.
    """
    group, _, version = fields.text(crd.get("apiVersion"), "apiVersion").rpartition("/")
    if version not in ("v1", "v1beta1"):
        return ()
    if group != _GROUP:
        raise InvalidBundle(
            f"a {CRD_KIND} of the unknown API group {group!r}", hint=f"set its apiVersion to {_GROUP}/{version}"
        )
    spec = fields.mapping(crd.get("spec"), "spec")
    names = fields.mapping(spec.get("names"), "spec.names")
    versions = [
        fields.text(fields.mapping(entry, "spec.versions").get("name"), "spec.versions.name")
        for entry in fields.items(spec.get("versions"), "spec.versions")
    ]
    if version == "v1beta1" and (single := fields.text(spec.get("version"), "spec.version")):
        versions.append(single)
    provider = fields.text(spec.get("group"), "spec.group")
    kind = fields.text(names.get("kind"), "spec.names.kind")
    plural = fields.text(names.get("plural"), "spec.names.plural")
    return tuple(dict.fromkeys(ApiKey(provider, name, kind, plural) for name in versions))


class ObjectManifest(Struct, frozen=True):
    """The first object of a file.

    Attributes:
        kind: Kind of the object.
        json: Compact JSON of the object, without a trailing newline.
        has_more: Whether the file contains other documents.
        apis: APIs that a CRD provides.
        crd_error: Why the APIs of a CRD are unknown.
    """

    kind: str
    json: bytes
    has_more: bool
    apis: tuple[ApiKey, ...] = ()
    crd_error: InvalidBundle | None = None


def read_manifest(content: bytes) -> ObjectManifest | None:
    """Parse the first object of a file; return None if its first document is empty.

    Raises:
        InvalidDocument: The document is invalid or not a Kubernetes object.
    """
    document = read_document(content)
    return None if document.value is None else manifest_from_value(document.value, has_more=document.has_more)


def manifest_from_value(value: JsonValue, *, has_more: bool = False) -> ObjectManifest:
    """Return the manifest of a decoded object. ``value`` may be modified.

    Raises:
        InvalidDocument: The value is not a Kubernetes object.
    """
    if not isinstance(value, dict):
        raise InvalidDocument("not a Kubernetes object: not a mapping")
    kind, api_version = value.get("kind"), value.get("apiVersion")
    if not isinstance(kind, str) or not kind or (isinstance(api_version, str) and api_version.count("/") > 1):
        raise InvalidDocument("not a Kubernetes object: missing or invalid kind or apiVersion")
    apis: tuple[ApiKey, ...] = ()
    crd_error = None
    if kind == CRD_KIND:
        try:
            apis = provided_apis(value)
        except (InvalidBundle, FieldTypeError) as error:
            crd_error = InvalidBundle(error.message, hint=error.hint)
    try:
        return ObjectManifest(kind, encode(value), has_more, apis, crd_error)
    except ValueError as error:
        raise InvalidDocument(f"cannot be encoded as JSON: {error}") from error


def try_manifest(content: bytes) -> ObjectManifest | InvalidDocument | None:
    """Return the result of `read_manifest`, or its error."""
    try:
        return read_manifest(content)
    except InvalidDocument as error:
        return error


class Claim(Struct, frozen=True):
    """A content and its future manifest; if ``mine`` is set, the caller must parse it and call `settle`."""

    content: bytes
    digest: bytes
    manifest: Future[ObjectManifest | InvalidDocument | None]
    mine: bool


class ManifestCache:
    """LRU cache of manifests by their content; the versions of an operator have most files in common.

    Safe for concurrent use: one thread parses a content, and others wait for it.
    """

    def __init__(self, max_bytes: int = 32 * 1024 * 1024) -> None:
        """Create an empty cache for up to ``max_bytes`` of JSON."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._manifests: OrderedDict[bytes, Future[ObjectManifest | InvalidDocument | None]] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, content: bytes) -> ObjectManifest | None:
        """Return the cached result of `read_manifest`.

        Raises:
            InvalidDocument: The document is invalid or not a Kubernetes object.
        """
        claim = self.claim(content)
        if claim.mine:
            self.settle([claim], map(try_manifest, [content]))
        manifest = claim.manifest.result()
        if isinstance(manifest, InvalidDocument):
            raise manifest
        return manifest

    def claim(self, content: bytes) -> Claim:
        """Return the entry of a content. If it is new, the caller must settle the claim."""
        digest = hashlib.sha256(content).digest()
        with self._lock:
            manifest = self._manifests.get(digest)
            mine = manifest is None
            if manifest is None:
                manifest = self._manifests[digest] = Future()
            self._manifests.move_to_end(digest)
        return Claim(content, digest, manifest, mine)

    def settle(self, claims: Sequence[Claim], results: Iterable[ObjectManifest | InvalidDocument | None]) -> None:
        """Set the results of claims, in their order. An exception of ``results`` is set on the remaining claims."""
        unsettled = deque(claims)
        try:
            for result in results:
                claim = unsettled.popleft()
                claim.manifest.set_result(result)
                self._account(claim)
        except BaseException as error:
            for claim in unsettled:
                claim.manifest.set_exception(error)
            raise

    def _account(self, claim: Claim) -> None:
        """Add the size of a new result, and evict the least recently used ones."""
        with self._lock:
            if self._manifests.get(claim.digest) is claim.manifest:
                self._bytes += _size(claim.manifest)
            while self._bytes > self._max_bytes:
                self._bytes -= _size(self._manifests.popitem(last=False)[1])


def _size(manifest: Future[ObjectManifest | InvalidDocument | None]) -> int:
    """Return the size of the JSON, 0 if the result is pending or an error."""
    result = manifest.result() if manifest.done() and not manifest.exception() else None
    return len(result.json) if isinstance(result, ObjectManifest) else 0
