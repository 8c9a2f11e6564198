"""HTTP requests to an API server: TLS, credentials, retries, limits, and errors as ClusterError."""

from __future__ import annotations

import base64
import json
import os
import random
import re
import ssl
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import httpx2
from requests.utils import get_environ_proxies, select_proxy

from opmkit._version import __version__
from opmkit.core import interrupts
from opmkit.core.files import read_limited
from opmkit.kube.connection import ClientCertificate, User
from opmkit.kube.errors import UNKNOWN_RESOURCE, ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opmkit.kube.connection import ClusterConnection, CredentialPlugin, Server

T = TypeVar("T")

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
_HEADERS = {
    "User-Agent": f"opm/{__version__}",  # recorded as the manager of the fields that are written
    "Accept": "*/*",
    "Accept-Encoding": "identity",
}
_TRANSIENT = frozenset({500, 502, 503, 504})

HINTS = {
    401: "log in to the cluster again, or use another kubeconfig",
    404: "check the name and the namespace",
    422: "correct the invalid values",
}


class ClusterTransport:
    """Sends requests to one API server."""

    def __init__(self, connection: ClusterConnection) -> None:
        """Create a transport; nothing is sent."""
        self._server = connection.server
        is_encrypted = self._server.url.startswith("https:")
        self._credentials = ClusterCredentials(connection.user if is_encrypted else User())  # as kubectl does
        self._proxy = self._server.proxy or select_proxy(self._server.url, get_environ_proxies(self._server.url))
        self._certificate = self._credentials.certificate
        self._inner: httpx2.BaseTransport | None = None

    def close(self) -> None:
        """Close all connections."""
        if self._inner:
            self._inner.close()
            self._inner = None

    def send(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str],
        body: bytes | None = None,
        media_type: str = "",
        *,
        truncate: bool = False,
    ) -> bytes:
        """Send a request, again if it fails for a moment, and return the body of the response.

        Args:
            method: The HTTP method.
            path: The path below the URL of the server.
            parameters: The query; with ``limit``, the response is a list and may be larger.
            body: The content to send.
            media_type: The media type of ``body``.
            truncate: Return the beginning of a response that is too large.

        Raises:
            ClusterError: The server cannot be reached, rejects the request, or sends too much.
        """
        request = self._request(method, path, parameters, READ_TIMEOUT, body)
        if body is not None:
            request.headers["Content-Type"] = media_type
        limit = _MAX_LIST if "limit" in parameters else _MAX_OBJECT
        return self._respond(request, lambda response: self._body(response, limit, truncate=truncate))

    def watch(self, path: str, parameters: Mapping[str, str], seconds: int) -> Iterator[bytearray]:
        """Yield the lines of a watch that the server ends after ``seconds``, or earlier if the connection breaks.

        Raises:
            ClusterError: The server cannot be reached, rejects the request, or sends too long a line.
        """
        parameters = {**parameters, "timeoutSeconds": str(seconds)}
        request = self._request("GET", path, parameters, seconds + _WATCH_GRACE)
        response = self._respond(request, lambda response: response)
        pending = bytearray()
        try:
            for part in response.iter_raw():
                pending += part
                if b"\n" in part:
                    *lines, pending = pending.split(b"\n")
                    yield from lines
                if len(pending) > _MAX_OBJECT:
                    self.reject(f"event larger than {_MAX_OBJECT} bytes")
        except httpx2.TransportError:
            return
        finally:
            response.close()

    def _request(
        self, method: str, path: str, parameters: Mapping[str, str], read_timeout: float, body: bytes | None = None
    ) -> httpx2.Request:
        timeout = {"connect": CONNECT_TIMEOUT, "read": read_timeout, "write": READ_TIMEOUT, "pool": CONNECT_TIMEOUT}
        server_name = {"sni_hostname": self._server.tls_name} if self._server.tls_name else {}
        url = httpx2.URL(self._server.url.rstrip("/") + path, params=dict(parameters))
        return httpx2.Request(method, url, content=body, extensions={"timeout": timeout, **server_name})

    def _respond(self, request: httpx2.Request, receive: Callable[[httpx2.Response], T]) -> T:
        """Return what ``receive`` makes of the response, at the first attempt that succeeds."""
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                response = self._send(request)
                if response.status_code < 300:
                    return receive(self._uncompressed(response))
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
        headers = [*request.headers.multi_items(), *_HEADERS.items(), *self._credentials.headers()]
        sent = httpx2.Request(
            request.method, request.url, headers=headers, content=request.content, extensions=request.extensions
        )
        return self._transport().handle_request(sent)

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

    def _uncompressed(self, response: httpx2.Response) -> httpx2.Response:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            response.close()
            self.reject("unexpected content encoding")
        return response

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


def tls_context(server: Server, certificate: ClientCertificate | None) -> ssl.SSLContext:
    """Return the context for connections to a server.

    Raises:
        ClusterError: The authorities or the client certificate are invalid.
    """
    try:
        context = ssl.create_default_context(cadata=server.authorities or None)
    except (ssl.SSLError, ValueError) as error:
        raise _invalid("certificate authorities", error) from error
    # Python 3.13 requires extensions that the authorities of many clusters lack; Go does not
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not server.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        _load(context, certificate)
    return context


def _load(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """Load a client certificate, which the ssl module can only read from files."""
    with tempfile.TemporaryDirectory(prefix="opmkit-") as directory:
        paths = Path(directory, "certificate"), Path(directory, "key")
        for path, content in zip(paths, (certificate.certificate, certificate.key), strict=True):
            path.write_text(content, "ascii")
        try:
            context.load_cert_chain(*paths, password=_refuse_password)
        except (ssl.SSLError, ValueError) as error:
            raise _invalid("client certificate", error) from error


def _refuse_password() -> str:
    """Fail for an encrypted key; by default the ssl module asks on the terminal."""
    raise ValueError("the key is encrypted")


def _invalid(subject: str, error: Exception) -> ClusterError:
    cause = error.reason if isinstance(error, ssl.SSLError) and error.reason else str(error)
    return ClusterError(f"invalid {subject} in the kubeconfig: {cause}", hint="use the PEM format")


_API_GROUP = "client.authentication.k8s.io/"
_TOKEN_FILE_LIFETIME = 60.0
"""Seconds after which a token file is read again; the kubelet replaces tokens well before they expire."""
_EXPIRY_MARGIN = 10.0
"""Seconds before the expiry of a token from which on it is not used."""


class ClusterCredentials:
    """The credentials of a user, renewed when necessary."""

    def __init__(self, user: User) -> None:
        """Create credentials; files are read and programs are run on first use."""
        self._user = user
        self._token = user.token
        self._certificate = user.certificate
        self._expires = 0.0 if user.token_file or user.plugin else float("inf")

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers of a request.

        Raises:
            ClusterError: A token file cannot be read, or the credential plugin fails.
        """
        if time.time() >= self._expires:
            self.renew()
        headers = list(self._user.impersonation)
        if self._token:
            headers.append(("Authorization", f"Bearer {self._token}"))
        elif self._user.name:
            login = base64.b64encode(f"{self._user.name}:{self._user.password}".encode()).decode()
            headers.append(("Authorization", f"Basic {login}"))
        return headers

    @property
    def certificate(self) -> ClientCertificate | None:
        """The client certificate; of a credential plugin, the one that it returned last."""
        return self._certificate

    def renew(self) -> bool:
        """Renew the credentials, and return whether they may have changed; raises ClusterError."""
        if self._user.token_file:
            try:
                self._token = read_limited(self._user.token_file).decode("ascii").strip()
            except (OSError, ValueError) as error:
                cause = error.strerror if isinstance(error, OSError) else "not a token"
                raise ClusterError(f"token file {self._user.token_file}: {cause}") from error
            self._expires = time.time() + _TOKEN_FILE_LIFETIME
            return True
        if self._user.plugin:
            self._take(_run(self._user.plugin), self._user.plugin)
            return True
        return False

    def _take(self, status: dict[str, Any], plugin: CredentialPlugin) -> None:
        """Use the credentials that a plugin returned."""
        names = ("token", "clientCertificateData", "clientKeyData", "expirationTimestamp")
        token, certificate, key, expiry = (status.get(name) or "" for name in names)
        if not all(isinstance(value, str) for value in (token, certificate, key, expiry)):
            raise _invalid_output(plugin)
        if not token and not (certificate and key):
            raise ClusterError(f"credential plugin {plugin.command}: returned no credentials")
        self._token = token
        self._certificate = ClientCertificate(certificate, key) if certificate and key else self._user.certificate
        self._expires = _timestamp(expiry) - _EXPIRY_MARGIN if expiry else float("inf")


def _run(plugin: CredentialPlugin) -> dict[str, Any]:
    """Run a credential plugin and return the ``status`` of its output. It may ask for a login on stderr."""
    if not plugin.api_version.startswith(_API_GROUP):
        raise ClusterError(
            f"credential plugin {plugin.command}: unsupported apiVersion {plugin.api_version!r}",
            hint=f"use {_API_GROUP}v1 in the kubeconfig",
        )
    interactive = plugin.interactive and sys.stdin is not None and sys.stdin.isatty()
    spec = {"interactive": interactive, **({"cluster": plugin.cluster} if plugin.cluster else {})}
    info = json.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec})
    try:
        done = subprocess.run(
            [plugin.command, *plugin.arguments],
            env={**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": info},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
        )
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else "invalid command"
        raise ClusterError(
            f"credential plugin {plugin.command}: {cause}",
            hint=plugin.install_hint or "install it, or correct the user in the kubeconfig",
        ) from error
    if done.returncode:
        raise ClusterError(
            f"credential plugin {plugin.command}: exit status {done.returncode}",
            hint="run it to see what is wrong, or log in to the cluster again",
        )
    try:
        status = json.loads(done.stdout)["status"]
        if not isinstance(status, dict):
            raise TypeError
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise _invalid_output(plugin) from error
    return status


def _invalid_output(plugin: CredentialPlugin) -> ClusterError:
    return ClusterError(f"credential plugin {plugin.command}: output is not an ExecCredential")


def _timestamp(text: str) -> float:
    """Return the seconds of an RFC 3339 time, 0 if it is invalid, so that the credentials are used once."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
