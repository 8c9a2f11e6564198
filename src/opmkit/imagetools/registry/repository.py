"""Repository of a registry, over HTTP (OCI distribution-spec 1.1)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, BinaryIO, TypeGuard, cast

from msgspec.structs import replace

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.errors import (
    DeletesUnsupported,
    DigestMismatch,
    InvalidImage,
    NotFound,
    RegistryUnavailable,
    UnsupportedImage,
    prefix_errors,
)
from opmkit.imagetools.registry.access import DELETE, PUSH, Access
from opmkit.imagetools.registry.blobs import BlobStream
from opmkit.imagetools.registry.http_errors import MalformedResponse
from opmkit.imagetools.registry.messages import Request, Response, content_length
from opmkit.imagetools.repository import (
    MAX_REFERRERS,
    TAG_MOVE_WINDOW,
    add_to_fallback_tag,
    check_tag,
    digest_tag,
    referrer_descriptor,
    select_referrers,
    verify_stream,
)
from opmkit.imagetools.spec import (
    MAX_CONFIG_SIZE,
    MAX_MANIFEST_SIZE,
    Descriptor,
    IndexManifest,
    check_digest,
    is_digest,
    media_types,
    new_hash,
    parse_manifest,
    sha256_digest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.imagetools.registry.transport import RegistryTransport
    from opmkit.imagetools.registry_config import RepositoryLocation
    from opmkit.imagetools.repository import BlobOpener, ImageSource
    from opmkit.imagetools.spec import Manifest

MAX_TAGS = 1_000_000
_TAGS_PAGE_SIZE = 1000
_MAX_TAGS_BODY = 4 << 20
_REFERRERS_OK = (200, 400, 404, 405, 406, 501)
_DELETED, _DELETE_REFUSED = (200, 202, 204, 404, 410), (405, 501)
_HEAD_REFUSED = (204, 400, 403, 405, 406, 415, 501)
_PUT_ACCEPTED = (200, 201, 202, 204)
"""Status codes of registries that accept a manifest; only with 201 they say that they have stored it."""
_ACCEPT = ", ".join(media_types.ACCEPT)
_log = logging.getLogger(__name__)


class RegistryRepository:
    """A repository of a registry; implements `opmkit.imagetools.repository.Repository`."""

    def __init__(self, transport: RegistryTransport, location: RepositoryLocation) -> None:
        """Create a repository, without sending anything yet."""
        self.location = location
        self._transport = transport
        self._endpoint = transport.endpoint(location)
        self._pull = Access(location)
        self._push = Access(location, PUSH)
        self._listed: dict[str, Sequence[Descriptor]] = {}

    @property
    def name(self) -> str:
        """Registry and repository, separated by a slash."""
        return self._endpoint.name

    @property
    def locations(self) -> tuple[RepositoryLocation, ...]:
        """The locations that images are read from."""
        return (self.location,)

    def __repr__(self) -> str:
        """Return the class and the name."""
        return f"RegistryRepository({self.name!r})"

    def resolve(self, identifier: str) -> Descriptor:
        """Resolve a tag or digest by HEAD, or by GET if the registry does not support that or omits headers."""
        try:
            response = self._transport.send(self._manifest_request("HEAD", identifier, ok=(200, *_HEAD_REFUSED)))
        except MalformedResponse:  # such as an invalid Content-Length
            return self._resolve_by_get(identifier)
        digest = response.headers.get("Docker-Content-Digest", "")
        size = content_length(response.headers)
        media_type = _media_type(response)
        if response.status != 200 or not is_digest(digest) or size is None or not media_type:
            return self._resolve_by_get(identifier)
        if is_digest(identifier) and digest != identifier:
            raise self._digest_mismatch(identifier)
        return Descriptor(media_type, digest, size)

    def get_manifest(self, identifier: str) -> Manifest | IndexManifest:
        """Get a manifest or index, verified against its digest or, for a tag, against the registry's digest header."""
        response = self._fetch_manifest(identifier)
        with prefix_errors(self._endpoint.reference(identifier)):
            return parse_manifest(response.body, _media_type(response) or None)

    def fetch_manifest(self, identifier: str, accept: str) -> Response:
        """Get a manifest of any type, verified as by `get_manifest` but not parsed."""
        return self._fetch_manifest(identifier, accept)

    def get_config(self, descriptor: Descriptor) -> bytes:
        """Read a blob of at most MAX_CONFIG_SIZE bytes and verify it."""
        if descriptor.size > MAX_CONFIG_SIZE:
            raise LimitExceeded(
                f"{self._endpoint.reference(descriptor.digest)}: a configuration of {descriptor.size} bytes exceeds "
                f"the limit of {MAX_CONFIG_SIZE}"
            )
        with self.open_blob(descriptor) as stream:
            return stream.read()

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """Open a blob; reading it to the end verifies it. The download resumes if the connection breaks."""
        return verify_stream(cast("BinaryIO", self.open_unverified_blob(descriptor, 0)), descriptor, self.name)

    def open_unverified_blob(self, descriptor: Descriptor, offset: int) -> BlobStream:
        """Open a blob at ``offset``, without verification."""
        subject = self._endpoint.reference(descriptor.digest)
        request = Request("GET", self._endpoint.blob(descriptor.digest), subject, self._pull, is_verified=True)
        return BlobStream(self._transport, request, descriptor.size, offset)

    def describe_blob(self, digest: str) -> Descriptor:
        """Return the digest and size of a blob; raises NotFound."""
        subject = self._endpoint.reference(digest)
        response = self._transport.send(Request("HEAD", self._endpoint.blob(digest), subject, self._pull))
        size = content_length(response.headers)
        if size is None:
            raise RegistryUnavailable(f"{subject}: the registry does not send the size of the blob")
        return Descriptor(_media_type(response), digest, size)

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Return whether the blob exists."""
        return self._has_blob(descriptor, self._pull)

    def put_blob(self, descriptor: Descriptor, opener: BlobOpener, *, mount_from: ImageSource | None = None) -> None:
        """Upload a blob, unless it exists or can be mounted from ``mount_from``."""
        if not self._has_blob(descriptor, self._push):
            from opmkit.imagetools.registry.uploads import BlobUpload  # slow to import: most commands only read

            repository = self._mountable_repository(mount_from)
            BlobUpload(self._transport, self._endpoint, self._push, descriptor, opener).run(repository)

    def put_manifest(
        self, manifest: Manifest | IndexManifest, tag: str | None = None, *, replacing: str | None = None
    ) -> Descriptor:
        """Upload a manifest by its digest, or together with ``tag`` in one request; see `Repository.put_manifest`.

        Raises:
            TagMoved: The tag names something else than ``replacing``.
            DigestMismatch: The registry reports success, but has another manifest, or none.
        """
        identifier = tag or manifest.digest
        clock = self._transport.retry.clock
        checked_at = clock()

        def body() -> bytes:
            """Return the body of an attempt, after a check of the tag right before it is sent."""
            nonlocal checked_at
            checked_at = clock()
            if replacing is not None:
                check_tag(self, identifier, replacing, manifest.digest)
            return manifest.raw

        response = self._transport.send(
            Request(
                "PUT",
                self._endpoint.manifest(identifier),
                self._endpoint.reference(identifier),
                self._push,
                {"Content-Type": manifest.media_type},
                body,
                ok=_PUT_ACCEPTED,
            )
        )
        if replacing is not None and (seconds := clock() - checked_at) > TAG_MOVE_WINDOW:
            _log.warning(
                "%s: moving the tag took %.1f s; an update by another writer in that time may be lost",
                self._endpoint.reference(identifier),
                seconds,
            )
        if response.status != 201 or response.headers.get("Docker-Content-Digest") != manifest.digest:
            self._check_stored(identifier, manifest.digest)
        if manifest.subject is not None and response.headers.get("OCI-Subject") != manifest.subject.digest:
            add_to_fallback_tag(RegistryRepository(self._transport, self.location), manifest)
        return manifest.descriptor

    def delete_manifest(self, digest: str) -> None:
        """Delete a manifest or index with all tags that name it, unless it does not exist; its blobs remain.

        Raises:
            DeletesUnsupported: The registry does not delete manifests.
        """
        url, subject = self._endpoint.manifest(check_digest(digest)), self._endpoint.reference(digest)
        access = Access(self.location, DELETE)
        response = self._transport.send(Request("DELETE", url, subject, access, ok=(*_DELETED, *_DELETE_REFUSED)))
        if response.status in _DELETE_REFUSED:
            raise DeletesUnsupported(
                f"{subject}: {self.location.registry} does not delete images ({response.status})",
                hint="enable deletes in the registry's configuration, such as REGISTRY_STORAGE_DELETE_ENABLED=true",
            )

    def delete_tag(self, tag: str) -> None:
        """Delete a tag, unless it does not exist, in a registry that keeps the tags of deleted manifests."""
        url, subject = self._endpoint.manifest(tag), self._endpoint.reference(tag)
        self._transport.send(Request("DELETE", url, subject, Access(self.location, DELETE), ok=_DELETED))

    def registry_repositories(self) -> Iterator[str]:
        """List the repositories of the registry that the user of these credentials may see, in its order.

        Raises:
            LimitExceeded: There are more than MAX_TAGS.
        """
        names: list[str] = []
        registry = replace(self.location, repository="")
        url = self._endpoint.repositories(_TAGS_PAGE_SIZE)
        request = Request("GET", url, registry.registry, Access(registry), limit=_MAX_TAGS_BODY)
        for response in self._transport.pages(request):
            page = response.json(registry.registry).get("repositories")
            if not _is_list_of_strings(page):
                raise RegistryUnavailable(f"{registry.registry}: invalid response: expected a list of repositories")
            names.extend(page)
            if len(names) > MAX_TAGS:
                raise LimitExceeded(f"{registry.registry}: more than {MAX_TAGS} repositories")
        return iter(names)

    def referrers(self, digest: str, artifact_type: str = "") -> tuple[Descriptor, ...]:
        """List the artifacts whose subject is ``digest``, by the referrers API or else by the fallback tag.

        Raises:
            LimitExceeded: There are more than MAX_REFERRERS, or the client reads more than MAX_REFERRERS further pages.
        """
        referrers = self._listed.pop(digest, None)
        if referrers is None:
            referrers = self._referrers_by_api(digest)
        if referrers is None:
            try:
                index = self.get_manifest(digest_tag(digest))
            except NotFound:
                return ()
            referrers = index.manifests if isinstance(index, IndexManifest) else ()
        return select_referrers(map(self._with_artifact_type, referrers), artifact_type)

    def _with_artifact_type(self, referrer: Descriptor) -> Descriptor:
        """Return a referrer with its artifact type, for which some registries report that of the empty config."""
        if referrer.artifact_type not in ("", media_types.OCI_EMPTY):
            return referrer
        try:
            return referrer_descriptor(self.get_manifest(referrer.digest))
        except (DigestMismatch, InvalidImage, LimitExceeded, NotFound, UnsupportedImage):
            return referrer

    def has_referrers_api(self, digest: str) -> bool:
        """Return whether the registry answers requests for the referrers of ``digest``, instead of a fallback tag.

        What it answers is what the next call of `referrers` for the digest returns.
        """
        listed = self._referrers_by_api(digest)
        if listed is not None:
            self._listed[digest] = listed
        return listed is not None

    def tags(self) -> Iterator[str]:
        """List the tags in the registry's order.

        Raises:
            LimitExceeded: There are more than MAX_TAGS tags.
            RegistryUnavailable: A page is no list of tags, so that it is unknown which ones it omits.
        """
        tags: list[str] = []
        url = self._endpoint.tags(_TAGS_PAGE_SIZE)
        for response in self._transport.pages(Request("GET", url, self.name, self._pull, limit=_MAX_TAGS_BODY)):
            page = response.json(self.name).get("tags", "")  # null if there are none
            if page is not None and not _is_list_of_strings(page):
                raise RegistryUnavailable(f"{self.name}: invalid response: expected a list of tags")
            tags.extend(page or ())
            if len(tags) > MAX_TAGS:
                raise LimitExceeded(f"{self.name}: more than {MAX_TAGS} tags")
        return iter(tags)

    def _referrers_by_api(self, digest: str) -> Sequence[Descriptor] | None:
        """Return the referrers that the API lists, None if the registry does not have it.

        Raises:
            InvalidImage: The response is JSON, but no list of referrers.
            RegistryUnavailable: A later page is none.
        """
        subject, url = self._endpoint.reference(digest), self._endpoint.referrers(check_digest(digest))
        request = Request(
            "GET",
            url,
            subject,
            self._pull,
            {"Accept": media_types.OCI_INDEX},
            ok=_REFERRERS_OK,
            limit=MAX_MANIFEST_SIZE,
        )
        found: list[Descriptor] = []
        for pages, response in enumerate(self._transport.pages(request)):
            # One bound for all images, since an endless list of one is an endless list of all
            if pages and next(self._transport.referrer_pages) >= MAX_REFERRERS:
                raise LimitExceeded(f"{subject}: more than {MAX_REFERRERS} pages of referrers")
            # Registries without the API respond 200 as well, with a page for people. JSON that is no list is a failure.
            if response.status != 200 or not _media_type(response).endswith("json"):
                if pages:
                    raise RegistryUnavailable(f"{subject}: invalid response: expected a list of referrers")
                return None
            with prefix_errors(f"{subject}: list of referrers"):
                index = parse_manifest(response.body, media_types.OCI_INDEX)
            found.extend(index.children)
            if len(found) > MAX_REFERRERS:
                raise LimitExceeded(f"{subject}: more than {MAX_REFERRERS} referrers")
        return found

    def _check_stored(self, identifier: str, digest: str) -> None:
        """Raise DigestMismatch unless the registry itself, not a mirror, has the manifest that it accepted."""
        subject = self._endpoint.reference(identifier)
        hint = "push again; if the error persists, report it to the operator of the registry"
        try:
            stored = RegistryRepository.resolve(self, identifier).digest
        except NotFound:
            raise DigestMismatch(
                f"{subject}: the registry accepted the manifest {digest} but did not store it", hint=hint
            ) from None
        if stored != digest:
            raise DigestMismatch(
                f"{subject}: the registry accepted the manifest {digest} but stored {stored}", hint=hint
            )

    def _has_blob(self, descriptor: Descriptor, access: Access) -> bool:
        digest = descriptor.digest
        url, subject = self._endpoint.blob(digest), self._endpoint.reference(digest)
        return self._transport.send(Request("HEAD", url, subject, access, ok=(200, 404))).status == 200

    def _mountable_repository(self, source: ImageSource | None) -> str:
        """Return the name of ``source`` if it is another repository of the same registry, else ""."""
        if not isinstance(source, RegistryRepository):
            return ""
        for location in source.locations:
            if location.registry == self.location.registry and location.repository != self.location.repository:
                return location.repository
        return ""

    def _manifest_request(
        self, method: str, identifier: str, ok: tuple[int, ...] = (200,), accept: str = _ACCEPT
    ) -> Request:
        url, subject = self._endpoint.manifest(identifier), self._endpoint.reference(identifier)
        verified = method == "GET" and is_digest(identifier)
        headers = {"Accept": accept}
        return Request(method, url, subject, self._pull, headers, ok=ok, limit=MAX_MANIFEST_SIZE, is_verified=verified)

    def _fetch_manifest(self, identifier: str, accept: str = _ACCEPT) -> Response:
        response = self._transport.send(self._manifest_request("GET", identifier, accept=accept))
        digest = identifier if is_digest(identifier) else response.headers.get("Docker-Content-Digest", "")
        if is_digest(digest):
            content = new_hash(digest)
            content.update(response.body)
            if content.hexdigest() != digest.partition(":")[2]:
                raise self._digest_mismatch(identifier)
        return response

    def _resolve_by_get(self, identifier: str) -> Descriptor:
        response = self._fetch_manifest(identifier)
        digest = identifier if is_digest(identifier) else sha256_digest(response.body)
        with prefix_errors(self._endpoint.reference(identifier)):
            media_type = parse_manifest(response.body, _media_type(response) or None).media_type
        return Descriptor(media_type, digest, len(response.body))

    def _digest_mismatch(self, identifier: str) -> DigestMismatch:
        return DigestMismatch(
            f"{self._endpoint.reference(identifier)}: digest mismatch: the registry sent another manifest",
            hint="try again; if the error persists, the image in the registry is damaged: push it again",
        )


def _is_list_of_strings(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _media_type(response: Response) -> str:
    return response.headers.get("Content-Type", "").partition(";")[0].strip()
