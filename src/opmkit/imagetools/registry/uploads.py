"""Upload of a blob: mounted from another repository, in one request, or in chunks."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from opmkit.imagetools.errors import AuthenticationFailed, DigestMismatch, NotFound, RegistryUnavailable
from opmkit.imagetools.registry.messages import Request, Response, location_header
from opmkit.imagetools.registry.retry import TransientError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from opmkit.http.messages import Deadline
    from opmkit.imagetools.registry.access import Access
    from opmkit.imagetools.registry.messages import Endpoint
    from opmkit.imagetools.registry.sessions import TransferCounter
    from opmkit.imagetools.registry.transport import RegistryTransport
    from opmkit.imagetools.repository import BlobOpener
    from opmkit.imagetools.spec import Descriptor

_WRITE_SIZE = 1 << 17
"""Bytes to write at a time; each write must finish within the connection's timeout."""
_MONOLITHIC_REFUSED = frozenset({405, 411, 413, 501})
"""Status codes with which registries, and proxies in front of them, refuse a blob in one request."""


class _Body(Struct, frozen=True):
    """``size`` bytes of a stream, as an iterable with a length, which becomes the Content-Length."""

    opener: BlobOpener
    size: int
    subject: str
    counter: TransferCounter
    missing: list[NotFound] = []
    """The error if the content does not exist."""

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[bytes]:
        left = self.size
        try:
            with self.opener() as stream:
                while left:
                    data = stream.read(min(left, _WRITE_SIZE))
                    if not data:
                        raise DigestMismatch(f"{self.subject}: size mismatch: the content is {left} bytes too short")
                    left -= len(data)
                    self.counter.count(written=len(data))
                    yield data
        except NotFound as error:
            self.missing.append(error)
            raise


class BlobUpload(Struct, frozen=True):
    """The upload of one blob to ``endpoint``, with ``access`` to push there."""

    transport: RegistryTransport
    endpoint: Endpoint
    access: Access
    descriptor: Descriptor
    opener: BlobOpener

    def run(self, mount_from: str = "") -> None:
        """Upload the blob, from the start after each transient failure.

        Args:
            mount_from: A repository of the same registry to mount the blob from, if it exists there.
        """
        deadline = self.transport.deadline(self.descriptor.size)
        self.transport.retry.run(lambda: self._attempt(mount_from, deadline), deadline)

    def _attempt(self, mount_from: str, deadline: Deadline) -> None:
        session_url = self._mount(mount_from, deadline) if mount_from else self._start(deadline)
        if session_url is None:
            return
        if self.descriptor.size <= self.transport.options.chunked_above:
            if self._send_monolithic(session_url, deadline):
                return
            session_url = self._start(deadline)
        self._send_chunks(session_url, deadline)

    def _mount(self, repository: str, deadline: Deadline) -> str | None:
        """Mount the blob from another repository; return None, or the URL of an upload session if it is not there."""
        query = urlencode({"mount": self.descriptor.digest, "from": repository})
        url, access = f"{self.endpoint.uploads()}?{query}", self.access.with_mount_from(repository)
        request = Request("POST", url, self._subject, access, ok=(201, 202))
        try:
            response = self._send_with_retries(request, deadline)
        except (AuthenticationFailed, NotFound):
            return self._start(deadline)
        return None if response.status == 201 else self._session_url(url, response)

    def _start(self, deadline: Deadline) -> str:
        url = self.endpoint.uploads()
        request = Request("POST", url, self._subject, self.access, ok=(202,))
        return self._session_url(url, self._send_with_retries(request, deadline))

    def _send_with_retries(self, request: Request, deadline: Deadline) -> Response:
        """Send a request with its own retries, besides those of the whole upload, for very unreliable registries."""
        return self.transport.retry.run(lambda: self.transport.send_once(request, deadline), deadline)

    def _send_monolithic(self, session_url: str, deadline: Deadline) -> bool:
        """Send the blob in one request; return whether the registry accepts that."""
        response = self._send(
            "PUT",
            self._closing_url(session_url),
            deadline,
            body=_Body(self.opener, self.descriptor.size, self._subject, self.transport.counter),
            ok=(201, *_MONOLITHIC_REFUSED),
        )
        return response.status == 201

    def _send_chunks(self, session_url: str, deadline: Deadline) -> None:
        counter, start = self.transport.counter, 0
        with self.opener() as stream:
            while chunk := stream.read(self.transport.options.chunk_size):
                response = self._send(
                    "PATCH",
                    session_url,
                    deadline,
                    body=_Body(partial(io.BytesIO, chunk), len(chunk), self._subject, counter),
                    headers={"Content-Range": f"{start}-{start + len(chunk) - 1}"},
                    ok=(202,),
                )
                session_url, start = self._session_url(session_url, response), start + len(chunk)
        self._send("PUT", self._closing_url(session_url), deadline, ok=(201,))

    def _send(
        self,
        method: str,
        url: str,
        deadline: Deadline,
        *,
        ok: Collection[int],
        body: _Body | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        headers = {"Content-Type": "application/octet-stream", **(headers or {})} if body else {}
        create_body = (lambda: body) if body else None
        request = Request(method, url, self._subject, self.access, headers, create_body, ok)
        try:
            return self.transport.send_once(request, deadline)
        except NotFound as error:
            if body and body.missing:
                raise
            raise TransientError(f"{error.message}: upload session lost", hint="try again later") from error

    def _session_url(self, url: str, response: Response) -> str:
        """Return the URL at which the upload continues."""
        target = location_header(response.headers)
        if not target:
            raise RegistryUnavailable(f"{self._subject}: invalid response: no Location for the upload")
        request = Request("PUT", url, self._subject, self.access)
        session_url, request_url = urlsplit(self.transport.next_url(request, url, target)), urlsplit(url)
        if session_url.netloc == request_url.netloc:
            session_url = session_url._replace(scheme=request_url.scheme)
        return session_url.geturl()

    def _closing_url(self, session_url: str) -> str:
        return f"{session_url}{'&' if '?' in session_url else '?'}{urlencode({'digest': self.descriptor.digest})}"

    @property
    def _subject(self) -> str:
        return self.endpoint.reference(self.descriptor.digest)
