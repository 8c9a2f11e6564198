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
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit

from msgspec import Struct

from opmkit._version import __version__
from opmkit.core import interrupts
from opmkit.core.files import read_limited
from opmkit.core.search_paths import find_program
from opmkit.http.errors import (
    CONNECTION_ERRORS,
    IncompleteBody,
    InvalidHeader,
    InvalidURL,
    ProxyError,
    Unreachable,
)
from opmkit.http.messages import Deadline, TimeLimits
from opmkit.http.proxies import Proxy, environment_proxy
from opmkit.http.sessions import HttpSession
from opmkit.http.tls import prepare_context
from opmkit.kube.connection import ClientCertificate, User
from opmkit.kube.errors import UNKNOWN_RESOURCE, ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opmkit.http.sessions import OpenResponse
    from opmkit.kube.connection import ClusterConnection, CredentialPlugin, Server

T = TypeVar("T")

CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 60.0
_WATCH_GRACE = 10.0
"""Seconds that a server may take longer to end a watch than it was asked to."""
_RESPONSE_DEADLINE = 300.0
"""Maximum seconds for a response other than a watch."""
_MAX_OBJECT, MAX_LIST, _MAX_ERROR = 16 << 20, 128 << 20, 1 << 20
"""Maximum bytes: of an object or event (etcd limits them to 1.5 MiB), of a list with all its pages, of an error."""
_MAX_ATTEMPTS = 4
BACKOFF = 0.2
"""Seconds; each retry waits up to twice as long as the one before."""
_MAX_DELAY = 10.0
_MAX_MESSAGE = 4096
_READ_SIZE = 1 << 16
_USER_AGENT = f"opm/{__version__}"
"""Recorded as the manager of the fields that are written."""
_INSTALL = "install it, or correct the user in the kubeconfig"
_TRANSIENT = frozenset({500, 502, 503, 504})

HINTS = {
    401: "log in to the cluster again, or use another kubeconfig",
    404: "check the name and the namespace",
    422: "correct the invalid values",
}


class _Request(Struct, frozen=True):
    """A request. The header of its response, and each next part of the body, may take ``timeout`` seconds."""

    method: str
    url: str
    timeout: float = READ_TIMEOUT
    body: bytes | None = None
    media_type: str = ""


class ClusterTransport:
    """Sends requests to one API server."""

    def __init__(self, connection: ClusterConnection) -> None:
        """Create a transport; nothing is sent."""
        self._server = connection.server
        is_encrypted = self._server.url.startswith("https:")
        self._credentials = ClusterCredentials(connection.user if is_encrypted else User())  # as kubectl does
        proxy = self._server.proxy
        self._proxy = Proxy(proxy, "proxy-url of the kubeconfig") if proxy else environment_proxy(self._server.url)
        self._certificate = self._credentials.certificate
        self._session: HttpSession | None = None

    def close(self) -> None:
        """Close all connections."""
        if self._session:
            self._session.close()
            self._session = None

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
        request = _Request(method, self._url(path, parameters), body=body, media_type=media_type)
        limit = MAX_LIST if "limit" in parameters else _MAX_OBJECT
        return self._respond(request, lambda response: self._body(response, limit, truncate=truncate))

    def watch(self, path: str, parameters: Mapping[str, str], seconds: int) -> Iterator[bytearray]:
        """Yield the lines of a watch that the server ends after ``seconds``, or earlier if the connection breaks.

        Raises:
            ClusterError: The server cannot be reached, rejects the request, or sends too long a line.
        """
        url, timeout = self._url(path, {**parameters, "timeoutSeconds": str(seconds)}), seconds + _WATCH_GRACE
        deadline = Deadline(time.monotonic() + timeout)
        pending = bytearray()
        with self._respond(_Request("GET", url, timeout), lambda response: response) as response:
            try:
                while part := response.read(_READ_SIZE, deadline):
                    pending += part
                    if b"\n" in part:
                        *lines, pending = pending.split(b"\n")
                        yield from lines
                    if len(pending) > _MAX_OBJECT:
                        self.reject(f"event larger than {_MAX_OBJECT} bytes")
            except CONNECTION_ERRORS:
                return

    def _url(self, path: str, parameters: Mapping[str, str]) -> str:
        query = urlencode(parameters, quote_via=quote)
        return f"{self._server.url.rstrip('/')}{path}{f'?{query}' if query else ''}"

    def _respond(self, request: _Request, receive: Callable[[OpenResponse], T]) -> T:
        """Return what ``receive`` makes of the response, at the first attempt that succeeds."""
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                response = self._send(request)
                if response.status < 300:
                    return receive(self._uncompressed(response))
                failure, wait = self._rejected(request, response)
            except CONNECTION_ERRORS as error:
                failure, wait = self._unreachable(error), _wait_after(request, error)
            if wait is None or attempt == _MAX_ATTEMPTS:
                raise failure
            delay = wait or BACKOFF * 2**attempt * random.uniform(0.5, 1)  # noqa: S311 - spreads load, no secret
            interrupts.sleep(min(delay, _MAX_DELAY))
        raise AssertionError("unreachable")

    def _send(self, request: _Request) -> OpenResponse:
        response = self._send_once(request)
        if response.status == 401 and self._credentials.renew():
            response.close()
            return self._send_once(request)
        return response

    def _send_once(self, request: _Request) -> OpenResponse:
        media_type = {"Content-Type": request.media_type} if request.media_type else {}
        credentials = self._credentials.headers()
        try:
            return self._current_session().send(
                request.method,
                request.url,
                headers={"User-Agent": _USER_AGENT, **media_type},
                body=(lambda: request.body or b"") if request.body is not None else None,
                limits=TimeLimits(CONNECT_TIMEOUT, request.timeout),
                proxy=self._proxy,
                repeatable_headers=credentials,
                is_repeatable=request.method == "GET",
            )
        except CONNECTION_ERRORS:  # among them an error of TLS that is a ValueError, too
            raise
        except InvalidURL as error:
            message = f"API server {self._server.url}: unsupported or invalid URL"
            raise ClusterError(message, hint="check the address in the kubeconfig") from error
        except ValueError:  # its message contains the header
            message = f"invalid credentials for the API server {self._server.url}: not a header of HTTP"
            raise ClusterError(message, hint=HINTS[401]) from None

    def _current_session(self) -> HttpSession:
        """Return the session with the current client certificate, which a credential plugin may replace."""
        if self._certificate != self._credentials.certificate:
            self.close()
            self._certificate = self._credentials.certificate
        if self._session is None:
            context = tls_context(self._server, self._certificate)
            self._session = HttpSession(lambda: context, self._server.tls_name)
        return self._session

    def _uncompressed(self, response: OpenResponse) -> OpenResponse:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            response.close()
            self.reject("unexpected content encoding")
        return response

    def _body(self, response: OpenResponse, limit: int, *, truncate: bool = False) -> bytes:
        deadline = Deadline(time.monotonic() + _RESPONSE_DEADLINE)
        parts, size = [], 0
        with response:
            while size <= limit and (part := self._read(response, deadline)):
                parts.append(part)
                size += len(part)
        if size > limit and not truncate:
            self.reject(f"larger than {limit} bytes")
        return b"".join(parts)[:limit]

    def _read(self, response: OpenResponse, deadline: Deadline) -> bytes:
        try:
            return response.read(_READ_SIZE, deadline)
        except TimeoutError:
            if not deadline.remaining():
                self.reject(f"incomplete after {_RESPONSE_DEADLINE:.0f} s")
            raise

    def reject(self, problem: str) -> NoReturn:
        """Raise ClusterError for an invalid response."""
        raise ClusterError(
            f"invalid response from the API server {self._server.url}: {problem}",
            hint="check the address in the kubeconfig",
        )

    def _rejected(self, request: _Request, response: OpenResponse) -> tuple[ClusterError, float | None]:
        """Return the error of a response, and the seconds to wait before a retry: 0 for the default, None for none."""
        status = response.status
        details = _status_object(self._body(response, _MAX_ERROR, truncate=True))
        message, reason = (str(details.get(key) or "") for key in ("message", "reason"))
        if status == 404 and not _names_object(details):
            path = unquote(urlsplit(request.url).path)
            message, reason = f"the API server does not have {path}", UNKNOWN_RESOURCE
        message = message or f"the API server responded {_described(status)}"
        error = ClusterError(message[:_MAX_MESSAGE], hint=HINTS.get(status, ""), status=status, reason=reason)
        if status == 429 or (status in _TRANSIENT and request.method == "GET"):
            return error, _retry_after(response)
        return error, None

    def _unreachable(self, error: Exception) -> ClusterError:
        cause = (error.error if isinstance(error, (Unreachable, ProxyError)) else None) or error
        problem = str(cause) or type(cause).__name__
        if isinstance(error, ProxyError):
            problem = f"the proxy returned {_described(error.status)}" if error.status else problem
            return ClusterError(
                f"cannot reach the API server {self._server.url} through the proxy {error.proxy}: {problem}",
                hint=f"check the {error.setting}: an HTTP or HTTPS proxy, with the password that it requires",
            )
        hint = "check the address in the kubeconfig, the network and the proxy"
        if isinstance(cause, ssl.SSLCertVerificationError):
            hint = "add the certificate authority of the cluster to the kubeconfig"
        return ClusterError(f"cannot reach the API server {self._server.url}: {problem}", hint=hint)


def _wait_after(request: _Request, error: Exception) -> float | None:
    """Return 0 if a request that failed in transit can be sent again, None if it cannot."""
    is_transient = isinstance(error, ConnectionError | IncompleteBody | InvalidHeader)
    return 0.0 if is_transient and request.method == "GET" else None


def _retry_after(response: OpenResponse) -> float:
    value = response.headers.get("Retry-After", "").strip()
    return float(value) if re.fullmatch(r"[0-9]{1,6}", value) else 0.0


def _described(status: int) -> str:
    """Return a status code with its reason phrase, such as ``502 Bad Gateway``."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


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
    return prepare_context(context)


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
    program = find_program(plugin.command)
    if program is None:
        raise ClusterError(
            f"credential plugin {plugin.command}: not found in PATH", hint=plugin.install_hint or _INSTALL
        )
    interactive = plugin.interactive and sys.stdin is not None and sys.stdin.isatty()
    spec = {"interactive": interactive, **({"cluster": plugin.cluster} if plugin.cluster else {})}
    info = json.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec})
    try:
        done = subprocess.run(
            [program, *plugin.arguments],
            env={**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": info},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
        )
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else "invalid command"
        raise ClusterError(
            f"credential plugin {plugin.command}: {cause}",
            hint=plugin.install_hint or _INSTALL,
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
