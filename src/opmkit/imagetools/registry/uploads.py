"""Sending a blob to a registry: mounted from another repository, in one request, or in pieces."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from opmkit.imagetools.errors import AuthenticationFailed, DigestMismatch, NotFound, RegistryUnavailable
from opmkit.imagetools.registry.messages import Meter, Request, Response, http_url
from opmkit.imagetools.registry.retry import TransientError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from opmkit.imagetools.registry.access import Access
    from opmkit.imagetools.registry.endpoint import Endpoint
    from opmkit.imagetools.registry.retry import Deadline
    from opmkit.imagetools.registry.transport import Transport
    from opmkit.imagetools.repository import BlobOpener
    from opmkit.imagetools.spec import Descriptor

_PIECE = 1 << 17
"""Bytes handed to the network at a time; each has to leave within the connection's timeout."""
_NOT_AT_ONCE = frozenset({405, 411, 413, 501})
"""How registries, and proxies before them, refuse a blob in one request."""


@dataclass(frozen=True, slots=True)
class _Body:
    """``size`` bytes of a stream, in the form in which requests streams a body whose length is known."""

    opener: BlobOpener
    size: int
    subject: str
    meter: Meter

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[bytes]:
        left = self.size
        with self.opener() as stream:
            while left:
                piece = stream.read(min(left, _PIECE))
                if not piece:
                    raise DigestMismatch(f"{self.subject}: the content to send is {left} bytes short of its descriptor")
                left -= len(piece)
                self.meter.count(written=len(piece))
                yield piece


@dataclass(frozen=True, slots=True)
class Upload:
    """The transfer of one blob to ``endpoint``; ``access`` has the right to push there."""

    transport: Transport
    endpoint: Endpoint
    access: Access
    descriptor: Descriptor
    opener: BlobOpener

    def run(self, mount_from: str = "") -> None:
        """Make the blob be there; ``mount_from`` is a repository of the same registry that may have it.

        A broken transfer is started anew.
        """
        deadline = self.transport.deadline(self.descriptor.size)
        self.transport.retry.run(lambda: self._attempt(mount_from, deadline), deadline)

    def _attempt(self, mount_from: str, deadline: Deadline) -> None:
        session = self._mount(mount_from, deadline) if mount_from else self._begin(deadline)
        if session is None:
            return
        if self.descriptor.size <= self.transport.options.chunked_above:
            if self._send_whole(session, deadline):
                return
            session = self._begin(deadline)
        self._send_chunks(session, deadline)

    def _mount(self, repository: str, deadline: Deadline) -> str | None:
        """Ask the registry to take the blob from its other repository; None if it did, else an upload session."""
        query = urlencode({"mount": self.descriptor.digest, "from": repository})
        url, access = f"{self.endpoint.uploads()}?{query}", self.access.mounting(repository)
        request = Request("POST", url, self._subject, access, ok=(201, 202))
        try:
            answer = self._insist(request, deadline)
        except (AuthenticationFailed, NotFound):
            return self._begin(deadline)
        return None if answer.status == 201 else self._location(url, answer)

    def _begin(self, deadline: Deadline) -> str:
        url = self.endpoint.uploads()
        return self._location(url, self._insist(Request("POST", url, self._subject, self.access, ok=(202,)), deadline))

    def _insist(self, request: Request, deadline: Deadline) -> Response:
        """The answer to what begins a transfer, tried again by itself: where requests fail often, each step counts."""
        return self.transport.retry.run(lambda: self.transport.once(request, deadline), deadline)

    def _send_whole(self, session: str, deadline: Deadline) -> bool:
        """Whether the registry took the blob in one request."""
        answer = self._exchange(
            "PUT",
            self._closing(session),
            deadline,
            body=_Body(self.opener, self.descriptor.size, self._subject, self.transport.meter),
            ok=(201, *_NOT_AT_ONCE),
        )
        return answer.status == 201

    def _send_chunks(self, session: str, deadline: Deadline) -> None:
        meter, start = self.transport.meter, 0
        with self.opener() as stream:
            while chunk := stream.read(self.transport.options.chunk_size):
                answer = self._exchange(
                    "PATCH",
                    session,
                    deadline,
                    body=_Body(partial(io.BytesIO, chunk), len(chunk), self._subject, meter),
                    headers={"Content-Range": f"{start}-{start + len(chunk) - 1}"},
                    ok=(202,),
                )
                session, start = self._location(session, answer), start + len(chunk)
        self._exchange("PUT", self._closing(session), deadline, ok=(201,))

    def _exchange(
        self,
        method: str,
        url: str,
        deadline: Deadline,
        *,
        ok: Collection[int],
        body: _Body | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        octets = {"Content-Type": "application/octet-stream", **(headers or {})} if body else {}
        factory = (lambda: body) if body else None
        request = Request(method, url, self._subject, self.access, octets, factory, ok)
        try:
            return self.transport.once(request, deadline)
        except NotFound as error:
            raise TransientError(f"{error.message}: it has forgotten the upload", hint="try again later") from error

    def _location(self, url: str, answer: Response) -> str:
        """Where the upload goes on."""
        if "Location" not in answer.headers:
            raise RegistryUnavailable(f"{self._subject}: the registry doesn't say where to send the content")
        location = urlsplit(http_url(url, answer.headers["Location"], self._subject))
        asked = urlsplit(url)
        if location.netloc == asked.netloc:
            # A registry behind a proxy that ends TLS may not know that it is spoken to with it.
            location = location._replace(scheme=asked.scheme)
        return location.geturl()

    def _closing(self, session: str) -> str:
        return f"{session}{'&' if '?' in session else '?'}{urlencode({'digest': self.descriptor.digest})}"

    @property
    def _subject(self) -> str:
        return self.endpoint.subject(self.descriptor.digest)
