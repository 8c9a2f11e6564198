"""HTTP with registries: authenticated, with timeouts, every failure a typed error."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests
import urllib3.exceptions
from requests.utils import get_environ_proxies

from opmkit.imagetools import interrupts
from opmkit.imagetools.errors import AuthenticationFailed, ImageToolsError, LimitExceeded, RegistryUnavailable
from opmkit.imagetools.registry.authenticator import Authenticator
from opmkit.imagetools.registry.connections import reading_until
from opmkit.imagetools.registry.endpoint import Endpoint, registry_host
from opmkit.imagetools.registry.http_errors import no_answer, refusal
from opmkit.imagetools.registry.messages import Meter, Request, Response, content_length, http_url
from opmkit.imagetools.registry.provider import Registry
from opmkit.imagetools.registry.retry import TransientError
from opmkit.imagetools.registry.scheme_probe import SchemeProbe
from opmkit.imagetools.registry.tls import SessionPool, TLSConfig
from opmkit.imagetools.registry_config import Certificates

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.imagetools.auth import Keychain
    from opmkit.imagetools.registry.options import RegistryOptions
    from opmkit.imagetools.registry.retry import Deadline, RetryPolicy
    from opmkit.imagetools.registry_config import RegistrySettings, RepositoryLocation

CONNECT_TIMEOUT, READ_TIMEOUT = 10.0, 60.0
"""Seconds that a connection, or the next piece of an answer, may take."""
SLOWEST = 16 << 10
"""Bytes a second below which a transfer is too slow, once the time that a call may take is used up."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REDIRECT_LIMIT = 5
_PIECE = 1 << 16
_log = logging.getLogger(__name__)


class Transport:
    """Sends requests: by the settings for their registries, with tokens by scope or credentials by what a registry asks
    for, with timeouts, retries by a policy and typed errors. Counts what it moves. Proxies come from the environment.
    """

    def __init__(
        self, options: RegistryOptions, retry: RetryPolicy, keychain: Keychain, hosts: RegistrySettings
    ) -> None:
        """Nothing is sent yet; raises ImageToolsError for certificates in ``options`` that can't be used."""
        self.options = options
        self.retry = retry
        self.meter = Meter()
        self._hosts = hosts
        self._given = options.certificates()
        self._sessions = SessionPool(plain_http=options.plain_http)
        self._schemes = SchemeProbe(plain_http=options.plain_http)
        self._authenticator = Authenticator(keychain, self.once, retry.clock, plain_http=options.plain_http)
        if self._given != Certificates():
            self._sessions.session(TLSConfig(options.verify_tls, self._given))

    def endpoint(self, place: RepositoryLocation) -> Endpoint:
        """The URLs of a repository."""
        return Endpoint(self._schemes.first, place)

    def close(self) -> None:
        """Close the connections."""
        self._sessions.close()

    def deadline(self, size: int = 0) -> Deadline:
        """The deadline of a call that starts now and sends ``size`` bytes."""
        return self.retry.deadline(self.options.deadline + size / SLOWEST)

    def call(self, request: Request) -> Response:
        """Send, read the answer, try again where that may help."""
        deadline = self.deadline()
        return self.retry.run(lambda: self.once(request, deadline), deadline)

    def once(self, request: Request, deadline: Deadline) -> Response:
        """Send and read the answer, one attempt."""
        with self.open(request, deadline) as response:
            return self._answer(request, response, deadline)

    def open(self, request: Request, deadline: Deadline) -> requests.Response:
        """Send, one attempt; the answer's body is still to be read, and the answer to be closed.

        A 401 is answered with credentials or a new token, once. Raises TransientError, AuthenticationFailed,
        NotFound, InsecureTransport and other ImageToolsErrors for what doesn't.
        """
        _refuse_blocked(request)
        access = request.access
        header = None if request.for_token else self._authenticator.header(access, deadline)
        response = self._follow(request, header, deadline)
        if response.status_code == 401 and self._is_registry(response.url, request):
            asked = response.headers.get("WWW-Authenticate", "")
            self._drop(response, deadline)
            header = self._authenticator.answer(asked, access, header, deadline)
            response = self._follow(request, header, deadline)
        if response.status_code in request.ok:
            return response
        raise self._refusal(request, response, deadline)

    def pages(self, first: Request, take: Callable[[Response], bool]) -> None:
        """Hand each page of a list to ``take``, along the Link headers, until there is none or it says no."""
        try:
            _Pages(self, first)._do_paginated_request(
                first.url, lambda response: take(self._answer(first, response, self.deadline()))
            )
        except ValueError as error:  # oras follows a link that is no URL
            raise RegistryUnavailable(f"{first.subject}: the registry's list goes on nowhere") from error

    def _follow(self, request: Request, authorization: str | None, deadline: Deadline) -> requests.Response:
        """Send, and follow redirects; only the registry itself ever sees its Authorization header.

        A token server may not lead to another host, since requests to it have credentials in themselves.
        """
        url = request.url
        for _ in range(_REDIRECT_LIMIT):
            response = self._reach(request, url, authorization, deadline)
            if response.status_code not in _REDIRECTS or "Location" not in response.headers:
                return response
            self._drop(response, deadline)
            target = http_url(response.url, response.headers["Location"], request.subject)
            if request.for_token and _origin(target) != _origin(response.url):
                raise RegistryUnavailable(f"{request.subject}: it redirects to another host, which gets no credentials")
            url = target
        raise RegistryUnavailable(f"{request.subject}: the registry redirects more than {_REDIRECT_LIMIT} times")

    def _reach(self, request: Request, url: str, authorization: str | None, deadline: Deadline) -> requests.Response:
        """Send by the scheme that the host speaks."""

        def send(url: str) -> requests.Response:
            trusted = self._is_registry(url, request)
            return self._send(request, url, authorization if trusted else None, deadline)

        return self._schemes.try_on(url, request.access.place, send)

    def _send(self, request: Request, url: str, authorization: str | None, deadline: Deadline) -> requests.Response:
        left = max(deadline.left(), 1.0)
        body = request.body() if request.body else None
        if isinstance(body, bytes):
            self.meter.count(written=len(body))
        trust = self._trust(request, url)
        session = self._sessions.session(trust)
        try:
            response = session.request(
                request.method,
                url,
                data=body,
                headers=dict(request.headers) | ({"Authorization": authorization} if authorization else {}),
                stream=True,
                timeout=(min(CONNECT_TIMEOUT, left), min(READ_TIMEOUT, left)),
                verify=trust.verify,
                proxies=get_environ_proxies(url),
            )
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            interrupts.check()
            raise no_answer(replace(request, url=url), error) from None
        _log.debug("%s %s: %d", request.method, urlsplit(url).path, response.status_code)
        return response

    def _trust(self, request: Request, url: str) -> TLSConfig:
        """What TLS connections to ``url`` are made with: the trust in the registry holds for its token server, too.

        It also holds where the registry redirects to, but there we don't show who we are.
        """
        place = request.access.place
        found = (
            self._given if self.options.cert_dir else self._hosts.certificates(place.registry).with_more(self._given)
        )
        trust = TLSConfig(self.options.verify_tls and not place.insecure, found)
        return trust if request.for_token or self._is_registry(url, request) else trust.without_client()

    def _answer(self, request: Request, response: requests.Response, deadline: Deadline) -> Response:
        body = bytearray()
        while piece := self.read(request, response, _PIECE, deadline):
            body += piece
            if len(body) > request.limit:
                raise LimitExceeded(f"{request.subject}: the answer is longer than {request.limit} bytes")
        return Response(response.status_code, response.headers, bytes(body))

    def read(self, request: Request, response: requests.Response, size: int, deadline: Deadline) -> bytes:
        """What has come of an answer's body, at most ``size`` bytes; nothing only at its end.

        Raises TransientError if the connection breaks, or the deadline passes while the body trickles in.
        """
        try:
            with reading_until(deadline):
                piece: bytes = response.raw.read1(size) or b""
        except (urllib3.exceptions.HTTPError, OSError) as error:
            response.close()
            interrupts.check()
            raise (no_answer(request, error) if deadline.left() else _too_slow(request)) from None
        self.meter.count(read=len(piece))
        if not deadline.left():
            response.close()
            raise _too_slow(request)
        return piece

    def _refusal(self, request: Request, response: requests.Response, deadline: Deadline) -> ImageToolsError:
        answer = Response(response.status_code, response.headers, b"")
        with response, suppress(RegistryUnavailable, LimitExceeded):
            answer = self._answer(request, response, deadline)
        error = refusal(request, answer)
        if not isinstance(error, AuthenticationFailed) or request.for_token:
            return error
        if not self._is_registry(response.url, request):
            host = urlsplit(response.url).netloc
            return RegistryUnavailable(f"{request.subject}: {host}, where the registry redirects to, denies access")
        return self._authenticator.denied(request.access, error.message)

    def _drop(self, response: requests.Response, deadline: Deadline) -> None:
        """Be done with an answer; a short one is read to its end, so that the connection can be used again."""
        length = content_length(response.headers)
        with response, reading_until(deadline), suppress(urllib3.exceptions.HTTPError, OSError):
            if length is not None and length < _PIECE:
                self.meter.count(read=len(response.raw.read(_PIECE)))

    def _is_registry(self, url: str, request: Request) -> bool:
        """Whether ``url`` is the registry's own, and not that of a token server or of where it redirects to."""
        place = request.access.place
        host = registry_host(place.registry)
        return not request.for_token and _origin(url) == (self._schemes.spoken(host, place), host)


class _Pages(Registry):  # type: ignore[misc] # oras has no types
    """oras' provider, for its way through the pages of a list; ``first`` tells what each page needs."""

    def __init__(self, transport: Transport, first: Request) -> None:
        super().__init__()
        self._transport = transport
        self._first = first

    def do_request(self, url: str, method: str = "GET", **_: object) -> requests.Response:
        """What oras sends with; the body is left to be read, so that its reader can bound it."""
        transport, request = self._transport, replace(self._first, url=url)
        deadline = transport.deadline()
        return transport.retry.run(lambda: transport.open(request, deadline), deadline)


def _refuse_blocked(request: Request) -> None:
    place = request.access.place
    if place.blocked_by:
        raise ImageToolsError(
            f"{request.subject}: {place.name} is blocked in {place.blocked_by}",
            hint="take the image from elsewhere, or take back `blocked = true` there",
        )


def _too_slow(request: Request) -> TransientError:
    return TransientError(f"{request.subject}: the answer comes too slowly", hint="try again later")


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
