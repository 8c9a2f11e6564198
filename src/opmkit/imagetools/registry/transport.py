"""HTTP transport for registries, with authentication, timeouts, retries and typed errors."""

from __future__ import annotations

import itertools
import logging
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.structs import replace

from opmkit.core import interrupts
from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.core.escape import without_logins
from opmkit.http.errors import CONNECTION_ERRORS
from opmkit.http.messages import TimeLimits
from opmkit.http.proxies import environment_proxy
from opmkit.imagetools.credentials import Keychain
from opmkit.imagetools.errors import (
    AuthenticationFailed,
    ImageToolsError,
    InsecureTransport,
    NotFound,
    RegistryUnavailable,
)
from opmkit.imagetools.registry.access import Access
from opmkit.imagetools.registry.authenticator import Authenticator
from opmkit.imagetools.registry.http_errors import (
    MalformedResponse,
    error_from_exception,
    error_from_response,
    status_phrase,
)
from opmkit.imagetools.registry.messages import (
    Endpoint,
    Request,
    Response,
    content_length,
    http_url,
    location_header,
    registry_host,
    url_host,
)
from opmkit.imagetools.registry.retry import RetryPolicy, TransientError
from opmkit.imagetools.registry.sessions import SessionPool, TLSConfig, TransferCounter
from opmkit.imagetools.registry_config import Certificates, RegistrySettings, RepositoryLocation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opmkit.http.messages import Body, Deadline
    from opmkit.http.proxies import Proxy
    from opmkit.http.sessions import OpenResponse
    from opmkit.imagetools.registry.options import RegistryOptions


CONNECT_TIMEOUT, READ_TIMEOUT = 10.0, 60.0
"""Seconds for a connection, and for the next bytes of a response."""
MIN_TRANSFER_RATE = 16 << 10
"""Bytes per second that extend the deadline of a call that transfers a blob."""
MAX_PAGES = 10_000
"""Pages of a list; registries have at least 50 entries on a page."""
MAX_LIST_CALLS = 5
"""Calls that the deadline of a list has the time of."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 10
_PROXY_AUTHENTICATION_REQUIRED = 407
_READ_SIZE = 1 << 16
_log = logging.getLogger(__name__)


class RegistryTransport:
    """The HTTP transport of a client. Thread-safe. Proxies are configured by the environment."""

    def __init__(
        self, options: RegistryOptions, retry: RetryPolicy, keychain: Keychain, settings: RegistrySettings
    ) -> None:
        """Create a transport, without sending anything yet.

        Raises:
            ImageToolsError: A certificate file in ``options`` cannot be read or is invalid.
        """
        self.options = options
        self.retry = retry
        self.counter = TransferCounter(options.transfers)
        self.referrer_pages = itertools.count()
        """The number of pages of referrers, after the first of each list, that were read for all images."""
        self._settings = settings
        self._certificates = options.certificates()
        self._sessions = SessionPool()
        self._probe = SchemeProbe(plain_http=options.plain_http)
        self._proxies: dict[tuple[str, str], Proxy | None] = {}
        self._authenticator = Authenticator(keychain, self.send_once, retry.clock, plain_http=options.plain_http)
        if self._certificates != Certificates() and not options.plain_http:
            _ = self._sessions.session(TLSConfig(options.verify_tls, self._certificates)).context

    def endpoint(self, location: RepositoryLocation) -> Endpoint:
        """Return the URLs of a repository."""
        return Endpoint(self._probe.default, location)

    def close(self) -> None:
        """Close the connections."""
        self._sessions.close()

    def deadline(self, size: int = 0) -> Deadline:
        """Return the deadline of a call that starts now and sends ``size`` bytes."""
        return self.retry.deadline(self.options.deadline + size / MIN_TRANSFER_RATE)

    def send(self, request: Request) -> Response:
        """Send a request, with retries, and read the response."""
        deadline = self.deadline()
        return self.retry.run(lambda: self.send_once(request, deadline), deadline)

    def send_once(self, request: Request, deadline: Deadline) -> Response:
        """Send a request, without retries, and read the response."""
        with self.open(request, deadline) as response:
            return self._read(request, response, deadline.or_in(_grace(request)))

    def open(self, request: Request, deadline: Deadline) -> OpenResponse:
        """Send a request, without retries; the caller reads the body and closes the response.

        After a 401 response the request is sent once more, with credentials or a new token.

        Raises:
            TransientError: A retry may help.
            AuthenticationFailed: The registry denies access.
            NotFound: The registry returned 404.
            InsecureTransport: The scheme or the certificate is not as expected.
        """
        _check_blocked(request)
        access = request.access
        authorization = None if request.for_token else self._authenticator.authorization(access, deadline)
        response = self._send_following_redirects(request, authorization, deadline)
        if response.status == 401 and self._is_registry(response.url, request):
            challenge = response.headers.get("WWW-Authenticate", "")
            self._drain(response, deadline)
            authorization = self._authenticator.respond(challenge, access, authorization, deadline)
            response = self._send_following_redirects(request, authorization, deadline)
        if response.status in request.ok:
            return response
        raise self._error(request, response, deadline)

    def pages(self, request: Request) -> Iterator[Response]:
        """Yield the pages of a list, following the Link headers (RFC 8288) with the relation ``next``.

        Raises:
            LimitExceeded: There are more than MAX_PAGES pages.
            RegistryUnavailable: A page leads to one that was read before.
            MalformedResponse: A Link header is invalid.
            TransientError: The list takes longer than MAX_LIST_CALLS calls may take.
        """
        deadline = self.retry.deadline(MAX_LIST_CALLS * self.options.deadline)
        seen: set[str] = set()
        while len(seen) < MAX_PAGES:
            seen.add(request.url)
            response = self.send(request)
            yield response
            url = _next_page(response.headers.get("Link", ""), request.subject)
            if not url:
                return
            request = replace(request, url=self.next_url(request, request.url, url))
            if request.url in seen:
                raise RegistryUnavailable(f"{request.subject}: invalid response: a list continues with an earlier page")
            if not deadline.remaining():
                raise _timed_out(request)
        raise LimitExceeded(f"{request.subject}: more than {MAX_PAGES} pages in a list")

    def next_url(self, request: Request, base: str, url: str) -> str:
        """Return the URL that a response of ``base`` leads to, see `http_url`."""
        is_insecure = request.access.location.insecure or not self.options.verify_tls
        return http_url(base, url, request.subject, allow_http=request.is_verified or is_insecure)

    def read_body(self, request: Request, response: OpenResponse, size: int, deadline: Deadline) -> bytes:
        """Read at most ``size`` bytes of a response's body, none only at its end.

        Raises:
            TransientError: The connection broke, or the deadline passed.
        """
        try:
            data = response.read(size, deadline)
        except CONNECTION_ERRORS as error:
            response.close()
            interrupts.check()
            raise (error_from_exception(request, error) if deadline.remaining() else _timed_out(request)) from None
        self.counter.count(read=len(data))
        return data

    def _send_following_redirects(
        self, request: Request, authorization: str | None, deadline: Deadline
    ) -> OpenResponse:
        """Send a request. Only the registry receives the Authorization header, not the hosts that it redirects to."""
        url = request.url
        for _ in range(_MAX_REDIRECTS):
            response = self._send_by_scheme(request, url, authorization, deadline)
            if response.status not in _REDIRECTS or not (redirected := location_header(response.headers)):
                return response
            self._drain(response, deadline)
            target = self.next_url(request, response.url, redirected)
            if request.for_token and _origin(target) != _origin(response.url):
                # Requests for tokens contain credentials.
                raise RegistryUnavailable(f"{request.subject}: refusing to follow a redirect to another host")
            url = target
        raise RegistryUnavailable(f"{request.subject}: more than {_MAX_REDIRECTS} redirects")

    def _send_by_scheme(
        self, request: Request, url: str, authorization: str | None, deadline: Deadline
    ) -> OpenResponse:
        def send(url: str) -> OpenResponse:
            is_registry = self._is_registry(url, request)
            return self._send(request, url, authorization if is_registry else None, deadline)

        return self._probe.send(url, request.access.location, send)

    def _send(self, request: Request, url: str, authorization: str | None, deadline: Deadline) -> OpenResponse:
        if not deadline.remaining():
            raise _timed_out(request)
        session = self._sessions.session(self._tls_config(request, url))
        headers = dict(request.headers) | ({"Authorization": authorization} if authorization else {})
        proxy = self._proxy_for(url)
        try:
            response = session.send(
                request.method,
                url,
                headers=headers,
                body=self._counted(request.body),
                limits=TimeLimits(CONNECT_TIMEOUT, READ_TIMEOUT, deadline, _grace(request)),
                proxy=proxy,
                is_repeatable=request.method != "PATCH",  # a chunk that has arrived is refused
            )
            if proxy and response.status == _PROXY_AUTHENTICATION_REQUIRED:
                response.close()
                raise proxy.error(status=response.status)
        except (*CONNECTION_ERRORS, ValueError) as error:
            interrupts.check()
            raise error_from_exception(replace(request, url=url), error) from None
        _log.debug("%s %s: %d", request.method, urlsplit(url).path, response.status)
        return response

    def _counted(self, body: Callable[[], bytes | Body] | None) -> Callable[[], bytes | Body] | None:
        """Return a function that creates a body, and counts it unless it counts itself while it is sent."""

        def create() -> bytes | Body:
            content = body() if body else b""
            if isinstance(content, bytes):
                self.counter.count(written=len(content))
            return content

        return create if body else None

    def _tls_config(self, request: Request, url: str) -> TLSConfig:
        """Return the TLS settings for ``url``.

        The registry's settings also apply to its token server and to hosts that it redirects to, but the latter get no
        client certificate.
        """
        location = request.access.location
        certificates = self._certificates
        if not self.options.cert_dir:
            certificates = self._settings.certificates(location.registry).merge(certificates)
        config = TLSConfig(self.options.verify_tls and not location.insecure, certificates)
        if request.for_token or self._is_registry(url, request):
            return config
        return config.without_client_certificates()

    def _proxy_for(self, url: str) -> Proxy | None:
        """Return the proxy that the environment sets for a host, which takes longer to find than many requests."""
        origin = _origin(url)
        if origin not in self._proxies:
            self._proxies[origin] = environment_proxy(url)
        return self._proxies[origin]

    def _read(self, request: Request, response: OpenResponse, deadline: Deadline) -> Response:
        body = bytearray()
        while data := self.read_body(request, response, _READ_SIZE, deadline):
            body += data
            if len(body) > request.limit:
                raise LimitExceeded(f"{request.subject}: the response exceeds the limit of {request.limit} bytes")
        return Response(response.status, response.headers, bytes(body))

    def _error(self, request: Request, response: OpenResponse, deadline: Deadline) -> ImageToolsError:
        result = Response(response.status, response.headers, b"")
        with response, suppress(RegistryUnavailable, LimitExceeded):
            result = self._read(request, response, deadline)
        error = error_from_response(request, result)
        if not isinstance(error, AuthenticationFailed) or request.for_token:
            return error
        if not self._is_registry(response.url, request):
            host = url_host(response.url)
            return RegistryUnavailable(f"{request.subject}: access denied by {host}, where the registry redirects to")
        return self._authenticator.access_denied(request.access, error.message)

    def _drain(self, response: OpenResponse, deadline: Deadline) -> None:
        """Close a response; read a short body to its end, so that the connection can be reused."""
        length = content_length(response.headers)
        with response, suppress(*CONNECTION_ERRORS):
            while length is not None and length < _READ_SIZE and (data := response.read(_READ_SIZE, deadline)):
                self.counter.count(read=len(data))

    def _is_registry(self, url: str, request: Request) -> bool:
        """Return whether ``url`` is on the registry, not on its token server or a host that it redirects to."""
        location = request.access.location
        host = registry_host(location.registry)
        return not request.for_token and _origin(url) == (self._probe.scheme(host, location), host)


def _next_page(links: str, subject: str) -> str:
    """Return the URL with the relation ``next`` in a Link header, or "" if there is none.

    Raises:
        MalformedResponse: A link is invalid or has no relation, so that the list may be incomplete.
    """
    if not links:
        return ""
    from requests.utils import parse_header_links  # slow to import

    found = ""
    for link in parse_header_links(links):
        values = {key.lower(): value for key, value in link.items()}
        if not links.lstrip().startswith("<") or not values.get("rel") or not values["url"]:
            raise MalformedResponse(
                f"{subject}: invalid response: the list has an invalid Link header: {links!r:.80}",
                hint="check the registry, and the proxy in front of it",
            )
        if "next" in values["rel"].lower().split():
            found = found or values["url"]
    return found


def _check_blocked(request: Request) -> None:
    location = request.access.location
    if location.blocked_by:
        raise ImageToolsError(
            f"{request.subject}: {location.name} is blocked in {location.blocked_by}",
            hint="use another registry, or remove `blocked = true` there",
        )


def _grace(request: Request) -> float:
    """Return the seconds that a response has at least, if its request is sent shortly before the deadline.

    What the request changes is changed, so that its result is waited for.
    """
    return 1.0 if request.method in ("GET", "HEAD") else READ_TIMEOUT


def _timed_out(request: Request) -> TransientError:
    return TransientError(f"{request.subject}: timed out: the response is too slow", hint="try again later")


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


_HTTP, _HTTPS = "http", "https"


class SchemeProbe:
    """The schemes that hosts support, detected by the first request to each.

    HTTPS is tried first: a host without it gets nothing but a TLS handshake. Then the same request is sent over HTTP,
    without a separate probe, and the scheme that works is remembered. HTTP is only used for insecure registries, or
    for all of them with ``plain_http``, which tries it first: if the registries are insecure as well, HTTPS follows.
    """

    def __init__(self, *, plain_http: bool) -> None:
        """Create a probe."""
        self.default = _HTTP if plain_http else _HTTPS
        self._detected: dict[str, str] = {}

    def scheme(self, host: str, location: RepositoryLocation) -> str:
        """Return the scheme detected for the host of a location, else the default."""
        return self._detected.get(host, self.default) if location.insecure else self.default

    def send(self, url: str, location: RepositoryLocation, send: Callable[[str], OpenResponse]) -> OpenResponse:
        """Call ``send`` with the URL under the right scheme. URLs on other hosts than the registry's are unchanged."""
        parts = urlsplit(url)
        host = parts.netloc
        is_registry = host == registry_host(location.registry)
        if not location.insecure or parts.scheme != self.default or not is_registry:
            return send(url)
        if detected := self._detected.get(host):
            return send(parts._replace(scheme=detected).geturl())
        if self.default == _HTTP:
            return self._send_http_first(host, url, send)
        http_url = parts._replace(scheme=_HTTP).geturl()
        try:
            response = send(url)
        except (InsecureTransport, TransientError) as error:
            return self._fall_back(host, http_url, send, error)
        self._detected[host] = _HTTPS
        return response

    def _send_http_first(self, host: str, url: str, send: Callable[[str], OpenResponse]) -> OpenResponse:
        """Send over HTTPS if HTTP fails, or leads to it; the response or error is that of HTTP if HTTPS fails, too."""
        https_url = urlsplit(url)._replace(scheme=_HTTPS).geturl()
        try:
            response = send(url)
        except TransientError as http_error:
            try:
                secure = send(https_url)
            except (ImageToolsError, LimitExceeded, DiskError):
                raise http_error from None
        else:
            if not _requires_https(response, host):
                self._detected[host] = _HTTP
                return response
            try:
                secure = send(https_url)
            except (ImageToolsError, LimitExceeded, DiskError):
                return response
            response.close()
        self._detected[host] = _HTTPS
        return secure

    def _fall_back(
        self, host: str, http_url: str, send: Callable[[str], OpenResponse], https_error: ImageToolsError
    ) -> OpenResponse:
        """Send over HTTP; raise ``https_error`` if that fails, or the server reports that it expects HTTPS.

        If the server has answered without TLS, a failure that a retry may solve is that of HTTP.
        """
        try:
            response = send(http_url)
        except (ImageToolsError, LimitExceeded, DiskError) as error:
            if isinstance(error, TransientError) and isinstance(https_error, InsecureTransport):
                raise
            raise https_error from None
        if response.status == 400:
            response.close()
            raise https_error
        self._detected[host] = _HTTP
        return response


def _requires_https(response: OpenResponse, host: str) -> bool:
    """Return whether a server answers over HTTP that it expects HTTPS."""
    target = response.headers.get("Location", "") if response.status in _REDIRECTS else ""
    return response.status == 400 or _origin(target) == (_HTTPS, host)


_HINT = "check the URL, or download the file elsewhere and pass its path"
_CHUNK = 1 << 16
_STATUSES = range(200, 600)
_TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


def download(url: str, limit: int, options: RegistryOptions) -> bytes:
    """Return the file at an HTTP or HTTPS URL, whose host receives no credentials.

    Args:
        url: The URL.
        limit: Maximum size of the file in bytes.
        options: TLS settings, and the deadline.

    Raises:
        LimitExceeded: The file is larger.
        NotFound: The file does not exist.
        ImageToolsError: The URL is invalid, leads from HTTPS to HTTP, or the download failed.
    """
    url = without_logins(url)
    location = RepositoryLocation(urlsplit(http_url(url, "", url)).netloc, "")
    request = Request("GET", url, url, Access(location), ok=_STATUSES)
    retry = RetryPolicy()
    transport = RegistryTransport(options, retry, Keychain(helpers=tuple), RegistrySettings())
    deadline = transport.deadline()

    def attempt() -> bytes:
        with transport.open(request, deadline) as response:
            _check(response, url)
            content = bytearray()
            while data := transport.read_body(request, response, _CHUNK, deadline):
                content += data
                if len(content) > limit:
                    raise LimitExceeded(f"{url}: larger than {limit} bytes", hint=_HINT)
            return bytes(content)

    try:
        return retry.run(attempt, deadline)
    finally:
        transport.close()


def _check(response: OpenResponse, url: str) -> None:
    """Raise the error for a response without the file."""
    reason = f"{response.status} ({status_phrase(response.status)})"
    if response.status in (404, 410):
        raise NotFound(f"{url}: not found", hint=_HINT)
    if response.status in _TRANSIENT_STATUSES:
        raise TransientError(f"{url}: the server returned {reason}", hint="try again later")
    if response.status != 200:
        raise ImageToolsError(f"{url}: the server returned {reason}", hint=_HINT)
