"""A repository of a registry as a place where images live."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, BinaryIO, cast

from opmkit.imagetools.errors import DigestMismatch, LimitExceeded, NotFound, prefix_errors
from opmkit.imagetools.registry.access import PUSH, Access
from opmkit.imagetools.registry.blobs import BlobStream
from opmkit.imagetools.registry.messages import Request, Response, content_length
from opmkit.imagetools.registry.uploads import Upload
from opmkit.imagetools.repository import TAG_MOVE_WINDOW, check_tag, verify_stream
from opmkit.imagetools.spec import (
    MAX_CONFIG_SIZE,
    MAX_MANIFEST_SIZE,
    Descriptor,
    is_digest,
    media_types,
    new_hash,
    parse_manifest,
    sha256_digest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.registry.transport import Transport
    from opmkit.imagetools.registry_config import RepositoryLocation
    from opmkit.imagetools.repository import BlobOpener, ImageSource
    from opmkit.imagetools.spec import IndexManifest, Manifest

TAGS_PAGE = 1000
TAGS_LIMIT = 1_000_000
_TAGS_BODY = 4 << 20
_HEAD_REFUSED = (400, 405, 406, 415, 501)
_ACCEPT = {"Accept": ", ".join(media_types.ACCEPT)}
_log = logging.getLogger(__name__)


class RegistryRepository:
    """One repository over HTTP (OCI distribution-spec 1.1); see :class:`opmkit.imagetools.repository.Repository`."""

    def __init__(self, transport: Transport, place: RepositoryLocation) -> None:
        """Nothing is sent yet."""
        self.place = place
        self._transport = transport
        self._endpoint = transport.endpoint(place)
        self._pull = Access(place)
        self._push = Access(place, PUSH)

    @property
    def name(self) -> str:
        """Registry and repository."""
        return self._endpoint.name

    @property
    def places(self) -> tuple[RepositoryLocation, ...]:
        """Where what is read comes from."""
        return (self.place,)

    def __repr__(self) -> str:
        """Class and name."""
        return f"RegistryRepository({self.name!r})"

    def resolve(self, identifier: str) -> Descriptor:
        """The descriptor behind a tag or digest, by HEAD; by GET from registries that tell too little that way."""
        answer = self._transport.call(self._manifest_request("HEAD", identifier, ok=(200, *_HEAD_REFUSED)))
        digest = answer.headers.get("Docker-Content-Digest", "")
        size = content_length(answer.headers)
        media_type = _media_type(answer)
        if answer.status != 200 or not is_digest(digest) or size is None or not media_type:
            return self._descriptor(identifier)
        if is_digest(identifier) and digest != identifier:
            raise self._mismatch(identifier)
        return Descriptor(media_type, digest, size)

    def get_manifest(self, identifier: str) -> Manifest | IndexManifest:
        """The manifest or index, checked against the digest it was asked by or, for a tag, that the registry names."""
        answer = self._fetch_manifest(identifier)
        with prefix_errors(self._endpoint.subject(identifier)):
            return parse_manifest(answer.body, _media_type(answer) or None)

    def get_config(self, descriptor: Descriptor) -> bytes:
        """A blob of at most MAX_CONFIG_SIZE bytes, verified."""
        if descriptor.size > MAX_CONFIG_SIZE:
            raise LimitExceeded(
                f"{self._endpoint.subject(descriptor.digest)}: a configuration of {descriptor.size} bytes is longer "
                f"than the {MAX_CONFIG_SIZE} that are read"
            )
        with self.open_blob(descriptor) as stream:
            return stream.read()

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """A blob's content from the network, verified while it is read, resumed where the connection breaks."""
        return verify_stream(cast("BinaryIO", self.blob_from(descriptor, 0)), descriptor, self.name)

    def blob_from(self, descriptor: Descriptor, offset: int) -> BlobStream:
        """A blob's content from ``offset`` on, not verified."""
        subject = self._endpoint.subject(descriptor.digest)
        request = Request("GET", self._endpoint.blob(descriptor.digest), subject, self._pull)
        return BlobStream(self._transport, request, descriptor.size, offset)

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Whether the blob is there, by HEAD."""
        return self._has_blob(descriptor, self._pull)

    def put_blob(self, descriptor: Descriptor, opener: BlobOpener, *, mount_from: ImageSource | None = None) -> None:
        """Send a blob, unless it is there or can be mounted from ``mount_from``."""
        if not self._has_blob(descriptor, self._push):
            source = self._mountable(mount_from)
            Upload(self._transport, self._endpoint, self._push, descriptor, opener).run(source)

    def put_manifest(
        self, manifest: Manifest | IndexManifest, tag: str | None = None, *, replacing: str | None = None
    ) -> Descriptor:
        """Store a manifest under its digest, or together with ``tag`` in one request.

        Raises:
            DigestMismatch: if the registry reports success, but has another manifest there, or none.
        """
        identifier = tag or manifest.digest
        clock = self._transport.retry.clock
        checked = clock()

        def body() -> bytes:
            """The body of one attempt; none of them is sent without a look at the tag right before."""
            nonlocal checked
            checked = clock()
            if replacing is not None:
                check_tag(self, identifier, replacing, manifest.digest)
            return manifest.raw

        answer = self._transport.call(
            Request(
                "PUT",
                self._endpoint.manifest(identifier),
                self._endpoint.subject(identifier),
                self._push,
                {"Content-Type": manifest.media_type},
                body,
                ok=(201,),
            )
        )
        if replacing is not None and (took := clock() - checked) > TAG_MOVE_WINDOW:
            subject = self._endpoint.subject(identifier)
            _log.warning(
                "%s: the registry took %.1f s to move the tag; what another writer published in that time may be lost",
                subject,
                took,
            )
        if answer.headers.get("Docker-Content-Digest") != manifest.digest:
            self._check_stored(identifier, manifest.digest)
        return manifest.descriptor

    def tags(self) -> Iterator[str]:
        """The tags, in the registry's order; LimitExceeded beyond TAGS_LIMIT."""
        found: list[str] = []

        def take(answer: Response) -> bool:
            page = answer.json(self.name).get("tags")
            if not isinstance(page, list):
                return False
            found.extend(tag for tag in page if isinstance(tag, str))
            if len(found) > TAGS_LIMIT:
                raise LimitExceeded(f"{self.name}: more than {TAGS_LIMIT} tags")
            return bool(page)

        first = Request("GET", self._endpoint.tags(TAGS_PAGE), self.name, self._pull, limit=_TAGS_BODY)
        self._transport.pages(first, take)
        return iter(found)

    def _check_stored(self, identifier: str, digest: str) -> None:
        """Raise DigestMismatch unless the registry itself, not a mirror of it, has the manifest that it accepted."""
        subject = self._endpoint.subject(identifier)
        hint = "push again; if the error persists, report it to the operator of the registry"
        try:
            found = RegistryRepository.resolve(self, identifier).digest
        except NotFound:
            raise DigestMismatch(
                f"{subject}: the registry accepted the manifest {digest} but did not store it", hint=hint
            ) from None
        if found != digest:
            raise DigestMismatch(
                f"{subject}: the registry accepted the manifest {digest} but has {found} there", hint=hint
            )

    def _has_blob(self, descriptor: Descriptor, access: Access) -> bool:
        digest = descriptor.digest
        url, subject = self._endpoint.blob(digest), self._endpoint.subject(digest)
        return self._transport.call(Request("HEAD", url, subject, access, ok=(200, 404))).status == 200

    def _mountable(self, source: ImageSource | None) -> str:
        """The name of ``source`` where it is another repository of the same registry, else nothing."""
        if not isinstance(source, RegistryRepository):
            return ""
        registry, repository = self.place.registry, self.place.repository
        near = (place.repository for place in source.places if place.registry == registry)
        return next((name for name in near if name != repository), "")

    def _manifest_request(self, method: str, identifier: str, ok: tuple[int, ...] = (200,)) -> Request:
        url, subject = self._endpoint.manifest(identifier), self._endpoint.subject(identifier)
        return Request(method, url, subject, self._pull, _ACCEPT, ok=ok, limit=MAX_MANIFEST_SIZE)

    def _fetch_manifest(self, identifier: str) -> Response:
        answer = self._transport.call(self._manifest_request("GET", identifier))
        promised = identifier if is_digest(identifier) else answer.headers.get("Docker-Content-Digest", "")
        if is_digest(promised):
            content = new_hash(promised)
            content.update(answer.body)
            if content.hexdigest() != promised.partition(":")[2]:
                raise self._mismatch(identifier)
        return answer

    def _descriptor(self, identifier: str) -> Descriptor:
        """The descriptor made from the manifest itself."""
        answer = self._fetch_manifest(identifier)
        digest = identifier if is_digest(identifier) else sha256_digest(answer.body)
        with prefix_errors(self._endpoint.subject(identifier)):
            media_type = parse_manifest(answer.body, _media_type(answer) or None).media_type
        return Descriptor(media_type, digest, len(answer.body))

    def _mismatch(self, identifier: str) -> DigestMismatch:
        return DigestMismatch(
            f"{self._endpoint.subject(identifier)}: the registry sends a manifest with another digest than it should",
            hint="try again; if it stays so, the copy in the registry is damaged: push it anew",
        )


def _media_type(answer: Response) -> str:
    return answer.headers.get("Content-Type", "").partition(";")[0].strip()
