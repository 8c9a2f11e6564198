"""HTTP requests to an API server: credentials, retries, limits, and errors as ClusterError."""

from __future__ import annotations

import json
import random
import re
import time
from typing import TYPE_CHECKING, Any, NoReturn

import httpx2
from requests.utils import get_environ_proxies, select_proxy

from opmkit._version import __version__
from opmkit.core import interrupts
from opmkit.kube.connection import User
from opmkit.kube.credentials import Credentials
from opmkit.kube.errors import UNKNOWN_RESOURCE, ClusterError
from opmkit.kube.tls import tls_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.kube.connection import Connection

CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 60.0
_WATCH_GRACE = 10.0
"""Seconds that a server may take longer to end a watch than it was asked to."""
_RESPONSE_DEADLINE = 300.0
"""Maximum seconds for a response other than a watch."""
_MAX_OBJECT, _MAX_LIST, _MAX_ERROR = 16 << 20, 256 << 20, 1 << 20
"""Maximum bytes of a response: of one object or event (etcd limits them to 1.5 MiB), of a list, and of an error."""
_MAX_ATTEMPTS = 4
BACKOFF = 0.2
"""Seconds; each retry waits up to twice as long as the one before."""
_MAX_DELAY = 10.0
_MAX_MESSAGE = 4096
_TRANSIENT = frozenset({500, 502, 503, 504})

HINTS = {
    401: "log in to the cluster again, or use another kubeconfig",
    404: "check the name and the namespace",
    422: "correct the invalid values",
}


class Transport(httpx2.BaseTransport):
    """Transport of requests to one API server; responses are complete, and those of watches are streams."""

    def __init__(self, connection: Connection) -> None:
        """Create a transport; nothing is sent."""
        self._server = connection.server
        is_encrypted = self._server.url.startswith("https:")
        self._credentials = Credentials(connection.user if is_encrypted else User())  # as kubectl does
        self._proxy = self._server.proxy or select_proxy(self._server.url, get_environ_proxies(self._server.url))
        self._certificate = self._credentials.certificate
        self._inner: httpx2.BaseTransport | None = None

    def close(self) -> None:
        """Close all connections."""
        if self._inner:
            self._inner.close()
            self._inner = None

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, again if it fails for a moment, and return the response of a successful one.

        Raises:
            ClusterError: if the server cannot be reached, rejects the request, or sends too much.
        """
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                response = self._send(request)
                if response.status_code < 300:
                    return self._received(request, response)
                failure, wait = self._rejected(request, response)
            except httpx2.TransportError as error:
                failure, wait = self._unreachable(error), _wait_after(request, error)
            if wait is None or attempt == _MAX_ATTEMPTS:
                raise failure
            delay = wait or BACKOFF * 2**attempt * random.uniform(0.5, 1)  # noqa: S311 - spreads load, no secret
            interrupts.sleep(min(delay, _MAX_DELAY))
        raise AssertionError("unreachable")

    def _send(self, request: httpx2.Request) -> httpx2.Response:
        response = self._send_once(request)
        if response.status_code == 401 and self._credentials.renew():
            response.close()
            return self._send_once(request)
        return response

    def _send_once(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["User-Agent"] = f"opm/{__version__}"  # recorded as the manager of the fields that are written
        request.headers["Accept-Encoding"] = "identity"
        for name in ("Authorization", "Impersonate-User", "Impersonate-Group", "Impersonate-Uid"):
            request.headers.pop(name, None)
        request.headers = httpx2.Headers([*request.headers.multi_items(), *self._credentials.headers()])
        request.extensions = {**request.extensions, "timeout": _timeout(request)}
        if self._server.tls_name:
            request.extensions["sni_hostname"] = self._server.tls_name
        return self._transport().handle_request(request)

    def _transport(self) -> httpx2.BaseTransport:
        """Return the transport with the current client certificate, which a credential plugin may replace."""
        if self._certificate != self._credentials.certificate:
            self.close()
            self._certificate = self._credentials.certificate
        if self._inner is None:
            context = tls_context(self._server, self._certificate)
            try:
                self._inner = httpx2.HTTPTransport(verify=context, proxy=self._proxy or None)
            except (ImportError, ValueError, httpx2.InvalidURL) as error:
                raise ClusterError(
                    f"proxy {self._proxy}: unsupported or invalid URL", hint="use an HTTP or HTTPS proxy"
                ) from error
        return self._inner

    def _received(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            response.close()
            self.reject("unexpected content encoding")
        if _watch_seconds(request) is not None:
            stream = _WatchStream(response, self)
            return httpx2.Response(response.status_code, headers=response.headers, stream=stream)
        limit = _MAX_LIST if "limit" in request.url.params else _MAX_OBJECT
        body = self._body(response, limit, truncate="tailLines" in request.url.params)
        return httpx2.Response(response.status_code, headers=response.headers, content=body)

    def _body(self, response: httpx2.Response, limit: int, *, truncate: bool = False) -> bytes:
        deadline = time.monotonic() + _RESPONSE_DEADLINE
        parts, size = [], 0
        try:
            for part in response.iter_raw():
                parts.append(part)
                size += len(part)
                if size > limit:
                    if not truncate:
                        self.reject(f"larger than {limit} bytes")
                    break
                if time.monotonic() > deadline:
                    self.reject(f"incomplete after {_RESPONSE_DEADLINE:.0f} s")
        finally:
            response.close()
        return b"".join(parts)[:limit]

    def reject(self, problem: str) -> NoReturn:
        """Raise ClusterError for an invalid response."""
        raise ClusterError(
            f"invalid response from the API server {self._server.url}: {problem}",
            hint="check the address in the kubeconfig",
        )

    def _rejected(self, request: httpx2.Request, response: httpx2.Response) -> tuple[ClusterError, float | None]:
        """Return the error of a response, and the seconds to wait before a retry: 0 for the default, None for none."""
        status = response.status_code
        details = _status_object(self._body(response, _MAX_ERROR, truncate=True))
        message, reason = (str(details.get(key) or "") for key in ("message", "reason"))
        if status == 404 and not _names_object(details):
            message, reason = f"the API server does not have {request.url.path}", UNKNOWN_RESOURCE
        message = message or f"the API server responded {status} {response.reason_phrase}".rstrip()
        error = ClusterError(message[:_MAX_MESSAGE], hint=HINTS.get(status, ""), status=status, reason=reason)
        if status == 429 or (status in _TRANSIENT and request.method == "GET"):
            return error, _retry_after(response)
        return error, None

    def _unreachable(self, error: httpx2.TransportError) -> ClusterError:
        through = f" through the proxy {_without_password(self._proxy)}" if self._proxy else ""
        hint = "check the address in the kubeconfig, the network and the proxy"
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            hint = "add the certificate authority of the cluster to the kubeconfig"
        cause = str(error) or type(error).__name__
        return ClusterError(f"cannot reach the API server {self._server.url}{through}: {cause}", hint=hint)


class _WatchStream(httpx2.SyncByteStream):
    """The events of a watch. Its end is an error, so that the client library does not start the watch again."""

    def __init__(self, response: httpx2.Response, transport: Transport) -> None:
        self._response = response
        self._transport = transport

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        try:
            for part in self._response.iter_raw():
                size = len(part) - part.rfind(b"\n") - 1 if b"\n" in part else size + len(part)
                if size > _MAX_OBJECT:
                    self._transport.reject(f"event larger than {_MAX_OBJECT} bytes")
                yield part
        finally:
            self._response.close()
        raise httpx2.ReadError("the watch ended")

    def close(self) -> None:
        self._response.close()


def _timeout(request: httpx2.Request) -> dict[str, float]:
    seconds = _watch_seconds(request)
    read = READ_TIMEOUT if seconds is None else seconds + _WATCH_GRACE
    return {"connect": CONNECT_TIMEOUT, "read": read, "write": READ_TIMEOUT, "pool": CONNECT_TIMEOUT}


def _watch_seconds(request: httpx2.Request) -> float | None:
    """Return for how many seconds a request watches, None if it does not."""
    parameters = request.url.params
    return float(parameters.get("timeoutSeconds", READ_TIMEOUT)) if parameters.get("watch") == "true" else None


def _wait_after(request: httpx2.Request, error: httpx2.TransportError) -> float | None:
    """Return 0 if a request that failed in transit can be sent again, None if it cannot."""
    is_transient = isinstance(error, httpx2.ReadError | httpx2.WriteError | httpx2.RemoteProtocolError)
    return 0.0 if is_transient and request.method == "GET" else None


def _retry_after(response: httpx2.Response) -> float:
    value = response.headers.get("Retry-After", "").strip()
    return float(value) if re.fullmatch(r"[0-9]{1,6}", value) else 0.0


def _status_object(body: bytes) -> dict[str, Any]:
    """Return the ``Status`` object of a response, {} if it is something else."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _names_object(status: dict[str, Any]) -> bool:
    """Return whether a 404 is about an object; otherwise the server does not have the resource."""
    details = status.get("details")
    return isinstance(details, dict) and bool(details.get("name"))


def _without_password(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)
