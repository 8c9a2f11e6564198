"""HTTP with registries: one session, authenticated, with timeouts, every failure a typed error."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests
import urllib3.exceptions
from requests.utils import get_environ_proxies

from opmkit import __version__
from opmkit.imagetools.errors import AuthenticationFailed, ImageToolsError, LimitExceeded, RegistryUnavailable
from opmkit.imagetools.registry.access import PULL, PUSH, Access
from opmkit.imagetools.registry.endpoint import host_of, registry_of
from opmkit.imagetools.registry.exchange import Answer, Meter, Request, http_url
from opmkit.imagetools.registry.failures import no_answer, refusal
from opmkit.imagetools.registry.provider import Registry
from opmkit.imagetools.registry.tls import Adapter
from opmkit.imagetools.registry.tokens import Authenticator

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.imagetools.auth import Keychain
    from opmkit.imagetools.registry.options import RegistryOptions
    from opmkit.imagetools.registry.retry import Deadline, RetryPolicy

CONNECT_TIMEOUT, READ_TIMEOUT = 10.0, 60.0
"""Seconds that a connection, or the next piece of an answer, may take."""
SLOWEST = 16 << 10
"""Bytes a second that a transfer may always take without meeting its deadline."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REDIRECT_LIMIT = 5
_API_PATH = re.compile(r"/v2/(?P<name>.+)/(?:manifests/[^/]+|blobs/.+|tags/list)")
_PIECE = 1 << 16
_log = logging.getLogger(__name__)


class Transport(Registry):  # type: ignore[misc] # oras has no types
    """oras' registry provider with another way of sending.

    oras' session, its cookie policy and its paging stay. New are tokens by scope, credentials by what the registry asks
    for, timeouts, retries by a policy, typed errors and the count of traffic. ``.netrc`` is never read, since requests
    would let it take the place of the registry's credentials; proxies come from the environment.
    """

    def __init__(self, options: RegistryOptions, retry: RetryPolicy, keychain: Keychain) -> None:
        """Set up the session; nothing is sent yet."""
        super().__init__(insecure=options.plain_http, tls_verify=options.verify_tls)
        self.options = options
        self.retry = retry
        self.meter = Meter()
        self.session.trust_env = False
        # Redirects are followed here: requests reads their bodies to the end, however long, even if told not to follow.
        self.session.get_redirect_target = lambda response: None
        self.session.headers.update({"User-Agent": f"opmkit/{__version__}", "Accept-Encoding": "identity"})
        adapter = Adapter(options)
        self.session.mount("https://", adapter)
        self.session.mount("http://", adapter)
        self._authenticator = Authenticator(keychain, self.once, retry.clock, plain_http=options.plain_http)

    def deadline(self, size: int = 0) -> Deadline:
        """The deadline of a call that starts now and moves ``size`` bytes."""
        return self.retry.deadline(self.options.deadline + size / SLOWEST)

    def call(self, request: Request) -> Answer:
        """Send, read the answer, try again where that may help."""
        deadline = self.deadline()
        return self.retry.run(lambda: self.once(request, deadline), deadline)

    def once(self, request: Request, deadline: Deadline) -> Answer:
        """Send and read the answer, one attempt."""
        with self.open(request, deadline) as response:
            return self._answer(request, response)

    def open(self, request: Request, deadline: Deadline) -> requests.Response:
        """Send, one attempt; the answer's body is still to be read, and the answer to be closed.

        A 401 is met with credentials or a fresh token, once. Raises Transient for what may pass; AuthenticationFailed,
        NotFound, InsecureTransport and other ImageToolsErrors for what doesn't.
        """
        access = request.access
        header = self._authenticator.header(access, deadline) if access else None
        response = self._follow(request, header, deadline)
        if access and response.status_code == 401 and self._is_registry(response.url, access):
            asked = response.headers.get("WWW-Authenticate", "")
            self._drop(response)
            header = self._authenticator.answer(asked, access, header, deadline)
            response = self._follow(request, header, deadline)
        if response.status_code in request.ok:
            return response
        raise self._refusal(request, response)

    def do_request(
        self,
        url: str,
        method: str = "GET",
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
        json: object = None,
        stream: bool = False,
    ) -> requests.Response:
        """What oras' own methods send with; answers other than 200 to 202 are raised.

        The body is left to be read even without ``stream``, so that its reader can bound it; ``json`` is not for us.
        """
        parts = urlsplit(url)
        registry, path = registry_of(parts.netloc), _API_PATH.fullmatch(parts.path)
        actions = PULL if method in ("GET", "HEAD") else PUSH
        access = Access(registry, path["name"], actions) if path else None
        body = (lambda: data) if data is not None else None
        subject = access.name if access else registry
        request = Request(method, url, subject, access, headers or {}, body, ok=(200, 201, 202))
        deadline = self.deadline()
        return self.retry.run(lambda: self.open(request, deadline), deadline)

    def pages(self, first: Request, take: Callable[[Answer], bool]) -> None:
        """Hand each page of a list to ``take``, along the Link headers, until there is none or it says no."""
        try:
            self._do_paginated_request(first.url, lambda response: take(self._answer(first, response)))
        except ValueError as error:  # oras follows a link that is no URL
            raise RegistryUnavailable(f"{first.subject}: the registry's list goes on nowhere") from error

    def _follow(self, request: Request, authorization: str | None, deadline: Deadline) -> requests.Response:
        """Send, and follow redirects; only the registry itself ever sees its Authorization header.

        A token server may not lead to another host, since requests to it have credentials in themselves.
        """
        url = request.url
        for _ in range(_REDIRECT_LIMIT):
            trusted = request.access is not None and self._is_registry(url, request.access)
            response = self._send(request, url, authorization if trusted else None, deadline)
            if response.status_code not in _REDIRECTS or "Location" not in response.headers:
                return response
            self._drop(response)
            url = http_url(url, response.headers["Location"], request.subject)
            if request.access is None and _origin(url) != _origin(request.url):
                raise RegistryUnavailable(f"{request.subject}: it redirects to another host, which gets no credentials")
        raise RegistryUnavailable(f"{request.subject}: the registry redirects more than {_REDIRECT_LIMIT} times")

    def _send(self, request: Request, url: str, authorization: str | None, deadline: Deadline) -> requests.Response:
        left = max(deadline.left(), 1.0)
        body = request.body() if request.body else None
        if isinstance(body, bytes):
            self.meter.count(written=len(body))
        try:
            response: requests.Response = self.session.request(
                request.method,
                url,
                data=body,
                headers=dict(request.headers) | ({"Authorization": authorization} if authorization else {}),
                stream=True,
                timeout=(min(CONNECT_TIMEOUT, left), min(READ_TIMEOUT, left)),
                verify=self.options.verify_tls,
                proxies=get_environ_proxies(url),
            )
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise no_answer(request, error) from None
        _log.debug("%s %s: %d", request.method, urlsplit(url).path, response.status_code)
        return response

    def _answer(self, request: Request, response: requests.Response) -> Answer:
        body = bytearray()
        while piece := self.read(request, response, _PIECE):
            body += piece
            if len(body) > request.limit:
                raise LimitExceeded(f"{request.subject}: the answer is longer than {request.limit} bytes")
        return Answer(response.status_code, response.headers, bytes(body))

    def read(self, request: Request, response: requests.Response, size: int) -> bytes:
        """The next ``size`` bytes of an answer's body, fewer only at its end; Transient if the connection breaks."""
        try:
            piece: bytes = response.raw.read(size)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            response.close()
            raise no_answer(request, error) from None
        self.meter.count(read=len(piece))
        return piece

    def _refusal(self, request: Request, response: requests.Response) -> ImageToolsError:
        body = b""
        with response, suppress(RegistryUnavailable):
            body = self.read(request, response, _PIECE)
        error = refusal(request, Answer(response.status_code, response.headers, body))
        if not isinstance(error, AuthenticationFailed) or request.access is None:
            return error
        if not self._is_registry(response.url, request.access):
            host = urlsplit(response.url).netloc
            return RegistryUnavailable(f"{request.subject}: {host}, where the registry redirects to, denies access")
        return self._authenticator.denied(request.access, error.message)

    def _drop(self, response: requests.Response) -> None:
        """Be done with an answer; a short one is read to its end, so that the connection can be used again."""
        length = response.headers.get("Content-Length", "")
        with response, suppress(urllib3.exceptions.HTTPError, OSError):
            if length.isdecimal() and int(length) < _PIECE:
                self.meter.count(read=len(response.raw.read(_PIECE)))

    def _is_registry(self, url: str, access: Access) -> bool:
        return _origin(url) == (self.prefix, host_of(access.registry))


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
