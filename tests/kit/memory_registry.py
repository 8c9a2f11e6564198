"""A registry in memory, which can lie, and lose its client at any request."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.registry_config import RepositoryLocation
from opmkit.imagetools.repository import (
    check_tag,
    digest_tag,
    referrer_descriptor,
    select_referrers,
    update_tag,
    verify_stream,
)
from opmkit.imagetools.spec import Descriptor, IndexManifest, is_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.repository import BlobOpener, ImageSource
    from opmkit.imagetools.spec import Manifest


class Killed(BaseException):
    """The end of a client at a request."""


@dataclass
class StoredRepository:
    """The content of a repository."""

    manifests: dict[str, Manifest | IndexManifest] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)


@dataclass
class MemoryRegistry:
    """Repositories by name, and a client of all of them.

    ``lie`` is called with the kind of a request, the repository and the identifier before each answer; it may raise an
    error, or return an answer instead. Request number ``kill_at`` and all later ones raise `Killed`.
    """

    repositories: dict[str, StoredRepository] = field(default_factory=dict)
    lie: Callable[[str, str, str], object] = lambda *_: None
    kill_at: int = 0
    requests: int = 0
    deletes: int = 0
    has_referrers_api: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)

    def target(self, reference: Reference) -> MemoryRepository:
        return MemoryRepository(self, reference.registry, reference.repository)

    repository = target

    def count(self, kind: str, name: str, identifier: str) -> object:
        """Count a request, and return the lie instead of its answer, None for none."""
        self.requests += 1
        if self.kill_at and self.requests >= self.kill_at:
            raise Killed
        return self.lie(kind, name, identifier)


class MemoryRepository:
    """A repository of a `MemoryRegistry`; implements what `RegistryRepository` does."""

    def __init__(self, registry: MemoryRegistry, host: str, path: str) -> None:
        self.registry = registry
        self.path = path
        self.name = f"{host}/{path}"
        self.location = RepositoryLocation(host, path)
        self.locations = (self.location,)

    @property
    def _stored(self) -> StoredRepository:
        return self.registry.repositories.get(self.path, StoredRepository())

    def _created(self) -> StoredRepository:
        return self.registry.repositories.setdefault(self.path, StoredRepository())

    def _find(self, kind: str, identifier: str) -> Manifest | IndexManifest:
        with self.registry.lock:
            self.registry.count(kind, self.path, identifier)
            digest = identifier if is_digest(identifier) else self._stored.tags.get(identifier, "")
            if digest not in self._stored.manifests:
                raise NotFound(f"{self.name}:{identifier}: not found in the registry")
            return self._stored.manifests[digest]

    def resolve(self, identifier: str) -> Descriptor:
        return self._find("manifest", identifier).descriptor

    def get_manifest(self, identifier: str) -> Manifest | IndexManifest:
        return self._find("manifest", identifier)

    def get_config(self, descriptor: Descriptor) -> bytes:
        return self._blob("config", descriptor)

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        return verify_stream(io.BytesIO(self._blob("blob", descriptor)), descriptor, self.name)

    def _blob(self, kind: str, descriptor: Descriptor) -> bytes:
        with self.registry.lock:
            self.registry.count(kind, self.path, descriptor.digest)
            if descriptor.digest not in self._stored.blobs:
                raise NotFound(f"{self.name}@{descriptor.digest}: not found in the registry")
            return self._stored.blobs[descriptor.digest]

    def referrers(self, digest: str, artifact_type: str = "") -> tuple[Descriptor, ...]:
        if self.registry.has_referrers_api:
            found = [
                referrer_descriptor(each)
                for each in self._stored.manifests.values()
                if each.subject and each.subject.digest == digest
            ]
            return select_referrers(found, artifact_type)
        try:
            listed = self.get_manifest(digest_tag(digest))
        except NotFound:
            return ()
        return select_referrers(listed.manifests if isinstance(listed, IndexManifest) else (), artifact_type)

    def has_api(self, _: str) -> bool:
        return self.registry.has_referrers_api

    has_referrers_api = has_api

    def tags(self) -> Iterator[str]:
        with self.registry.lock:
            lie = self.registry.count("tags", self.path, "")
            if isinstance(lie, list):
                return iter(lie)
            if self.path not in self.registry.repositories:
                raise NotFound(f"{self.name}: not found in the registry")
            return iter(list(self._stored.tags))

    def registry_repositories(self) -> Iterator[str]:
        with self.registry.lock:
            lie = self.registry.count("repositories", "", "")
            return iter(lie if isinstance(lie, list) else list(self.registry.repositories))

    def has_blob(self, descriptor: Descriptor) -> bool:
        with self.registry.lock:
            self.registry.count("blob", self.path, descriptor.digest)
            return descriptor.digest in self._stored.blobs

    def put_blob(self, descriptor: Descriptor, opener: BlobOpener, *, mount_from: ImageSource | None = None) -> None:
        content = opener().read()
        with self.registry.lock:
            self.registry.count("put", self.path, descriptor.digest)
            self._created().blobs[descriptor.digest] = content

    def put_manifest(
        self, manifest: Manifest | IndexManifest, tag: str | None = None, *, replacing: str | None = None
    ) -> Descriptor:
        if tag and replacing is not None:
            check_tag(self, tag, replacing, manifest.digest)
        with self.registry.lock:
            self.registry.count("put", self.path, tag or manifest.digest)
            self._created().manifests[manifest.digest] = manifest
            if tag:
                self._created().tags[tag] = manifest.digest
        if manifest.subject and not self.registry.has_referrers_api:
            self._list_referrer(manifest, manifest.subject.digest)
        return manifest.descriptor

    def _list_referrer(self, manifest: Manifest | IndexManifest, subject: str) -> None:
        def add(current: Manifest | IndexManifest | None) -> IndexManifest:
            listed = current.manifests if isinstance(current, IndexManifest) else ()
            new = () if manifest.digest in {each.digest for each in listed} else (referrer_descriptor(manifest),)
            return IndexManifest.build([*listed, *new])

        update_tag(self, digest_tag(subject), add)

    def delete_manifest(self, digest: str) -> None:
        with self.registry.lock:
            self.registry.deletes += 1
            if self.registry.count("delete", self.path, digest):
                return
            self._stored.manifests.pop(digest, None)
            for tag in [tag for tag, named in self._stored.tags.items() if named == digest]:
                del self._stored.tags[tag]

    def delete_tag(self, tag: str) -> None:
        with self.registry.lock:
            self.registry.count("delete", self.path, tag)
            self._stored.tags.pop(tag, None)
