"""From a failed request to the error that tells a user what happened and what to do. No error quotes a URL's query
or a header, since these may carry secrets.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import time
from email.utils import parsedate_to_datetime
from http.client import responses
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests
import urllib3.exceptions

from opmkit.imagetools.errors import (
    AuthenticationFailed,
    DigestMismatch,
    ImageToolsError,
    InsecureTransport,
    NotFound,
    RegistryUnavailable,
)
from opmkit.imagetools.escape import escape_controls
from opmkit.imagetools.hints import Hint, Setting
from opmkit.imagetools.registry.connections import HeaderLimitExceeded
from opmkit.imagetools.registry.retry import TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.imagetools.registry.messages import Request, Response

_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"})
_CLIENT_CERTIFICATE = re.compile(r"ALERT_(?:.*CERTIFICATE.*|UNKNOWN_CA)$")
"""What OpenSSL calls a server's alert about the certificate of the client, be it missing or not good enough."""
_TLS_EXPECTED = b"HTTP request to an HTTPS server"
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504, 507, 509})
_WRONG_CONTENT = frozenset({"DIGEST_INVALID", "SIZE_INVALID"})
_TUNNEL_REFUSED = re.compile(r"Tunnel connection failed: (\d{3})")
"""What http.client says when a proxy makes no connection to a host."""
_UNREACHED = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
_DETAIL_LENGTH = 300


def refusal(request: Request, answer: Response) -> ImageToolsError:
    """The error for a status that the request has no use for; callers add the hints for 401 and 403."""
    code, detail = _registry_error(answer)
    message = f"{request.subject}: the registry answered {answer.status} ({detail})"
    if answer.status in (401, 403):
        return AuthenticationFailed(f"{request.subject}: access denied ({detail})")
    if answer.status == 404:
        return NotFound(
            f"{request.subject}: not found in the registry ({detail})", hint="check the name and the tag or digest"
        )
    if answer.status == 407:
        return _proxy_login(request)
    if answer.status in _PASSING:
        limited = "the registry limits how much it is asked: wait, or log in for a higher limit"
        return TransientError(
            message,
            hint=limited if answer.status == 429 else "try again later",
            retry_after=_retry_after(answer.headers),
        )
    if answer.status == 400 and _TLS_EXPECTED in answer.body:
        return InsecureTransport(
            f"{request.subject}: {urlsplit(request.url).netloc} speaks HTTPS", hint=Hint("omit {}", Setting.PLAIN_HTTP)
        )
    if code in _WRONG_CONTENT and "/manifests/" in request.url:
        # Not of the manifest, whose digest is made of it: docker-registry says so while another client writes a part.
        return TransientError(message, hint="try again later")
    if code in _WRONG_CONTENT:
        return DigestMismatch(message, hint="the content changed while it was sent; try again")
    hint = Hint("omit {} if the registry speaks HTTPS", Setting.PLAIN_HTTP) if request.url.startswith("http:") else ""
    return ImageToolsError(message, hint=hint)


def no_answer(request: Request, error: Exception) -> ImageToolsError:
    """The error for a request that got no answer, or half of one."""
    host = urlsplit(request.url).netloc
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return InsecureTransport(
                f"{request.subject}: the certificate of {host} is not trusted ({cause.verify_message})",
                hint=Hint.any_of(
                    Hint("trust its certificate authority with {}", Setting.CA_FILE),
                    f"add the certificate authority to certs.d/{host} as *.crt",
                    Hint("skip verification with {}", Setting.SKIP_TLS_VERIFY),
                ),
            )
        if isinstance(cause, ssl.SSLError) and cause.reason in _NOT_TLS:
            return InsecureTransport(
                f"{request.subject}: {host} doesn't speak HTTPS",
                hint=Hint("use {} for a registry without TLS", Setting.PLAIN_HTTP),
            )
        if isinstance(cause, ssl.SSLError) and _CLIENT_CERTIFICATE.search(cause.reason or ""):
            return AuthenticationFailed(
                f"{request.subject}: {host} asks for a client certificate that it knows",
                hint=Hint.any_of(
                    f"put *.cert and *.key into certs.d/{host}", Hint("pass their directory with {}", Setting.CERT_DIR)
                ),
            )
        if (refused := _TUNNEL_REFUSED.match(str(cause))) and refused[1] == "407":
            return _proxy_login(request)
        if isinstance(cause, requests.exceptions.InvalidURL):
            return RegistryUnavailable(f"{request.subject}: {host} refers to an address that can't be used")
        if isinstance(cause, HeaderLimitExceeded):
            return RegistryUnavailable(
                f"{request.subject}: invalid response from {host}: {cause}",
                hint="check the registry's name and the proxy settings",
            )
    reason, unreachable = _reason(causes)
    return TransientError(
        f"{request.subject}: the connection to {host} failed ({reason})",
        hint="check the registry's name, the network and the proxy settings",
        unreachable=unreachable,
    )


def _proxy_login(request: Request) -> ImageToolsError:
    return RegistryUnavailable(
        f"{request.subject}: the proxy on the way asks for a login, and takes none that it was given",
        hint="write it into the proxy's address in the environment: http://NAME:PASSWORD@HOST:PORT",
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what led to it, down to what the operating system said; what was handled before isn't of it.

    urllib3 has some errors only as an argument of its own.
    """
    while error is not None:
        yield error
        if isinstance(error, OSError) and not isinstance(error, requests.RequestException):
            return
        wrapped = next((argument for argument in error.args if isinstance(argument, Exception)), None)
        error = error.__cause__ or error.__context__ or wrapped


def _reason(causes: list[BaseException]) -> tuple[str, bool]:
    """Why nothing came, in a few words, and whether the host was not reached at all."""
    unreached = any(isinstance(each, _UNREACHED) for each in causes)
    for cause in reversed(causes):
        if isinstance(cause, socket.gaierror):
            return "the host is not known", True
        if refused := _TUNNEL_REFUSED.match(str(cause)):
            return f"the proxy answered {refused[1]}", False
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower(), unreached
        if isinstance(cause, (urllib3.exceptions.TimeoutError, TimeoutError)):
            return "no answer in time", unreached
        if isinstance(cause, urllib3.exceptions.IncompleteRead):
            return "it ended early", False
    return "it broke", False


def _registry_error(answer: Response) -> tuple[str, str]:
    """The code of the first error in the body, and code and message together as the registry has them."""
    try:
        first = json.loads(answer.body)["errors"][0]
        code, message = str(first["code"]), str(first.get("message") or "")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "", responses.get(answer.status, "no more is said")
    text = f"{code}: {message}" if message else code
    return code, escape_controls(text[:_DETAIL_LENGTH])


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Retry-After (RFC 9110, section 10.2.3), seconds or a date, as seconds from now."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
