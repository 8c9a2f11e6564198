"""Translation of HTTP failures into errors with hints.

Messages never quote the query of a URL or a header, since these may contain secrets.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import time
from typing import TYPE_CHECKING

from opmkit.core.escape import escape_controls
from opmkit.core.hints import Hint
from opmkit.http.errors import (
    HeaderLimitExceeded,
    IncompleteBody,
    InvalidBody,
    InvalidHeader,
    InvalidURL,
    ProxyError,
    Unreachable,
)
from opmkit.imagetools.errors import (
    AuthenticationFailed,
    DigestMismatch,
    ImageToolsError,
    InsecureTransport,
    NotFound,
    RegistryUnavailable,
)
from opmkit.imagetools.hint_terms import ImageSetting
from opmkit.imagetools.registry.messages import url_host
from opmkit.imagetools.registry.retry import TransientError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.imagetools.registry.messages import Request, Response

_PLAIN_HTTP_REASONS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"})
"""OpenSSL's reasons if the server does not use TLS."""
_TLS_CLOSED = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""Errors if the server closes the connection, by the version of OpenSSL."""
_CLIENT_CERTIFICATE_REASON = re.compile(r"ALERT_(?:.*CERTIFICATE.*|UNKNOWN_CA)$")
"""OpenSSL's reasons if the server rejects the client's certificate, or requires one."""
_HTTPS_REQUIRED = b"HTTP request to an HTTPS server"
_TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 507, 509})
_CONTENT_ERRORS = frozenset({"DIGEST_INVALID", "SIZE_INVALID"})
_ALERT = re.compile(r"ALERT_(\w+)$|(UNRECOGNIZED_NAME)$")
"""OpenSSL's reasons if the server ends the handshake; after its prefix, the alert of RFC 8446, section 6."""
_NO_COMMON_TLS = frozenset(
    {"UNSUPPORTED_PROTOCOL", "WRONG_SSL_VERSION", "NO_CIPHERS_AVAILABLE", "NO_PROTOCOLS_AVAILABLE"}
)
"""OpenSSL's reasons if it does not support what the server selects."""
_MAX_DETAIL_LENGTH = 300
_PROXY_AUTHENTICATION_REQUIRED, _SERVER_ERROR = 407, 500


class MalformedResponse(RegistryUnavailable):
    """A response whose header is too large or violates HTTP, for which a retry does not help."""


def error_from_response(request: Request, response: Response) -> ImageToolsError:
    """Return the error for an unexpected status code. For 401 and 403 the caller adds the hint."""
    code, detail = _registry_error(response)
    message = f"{request.subject}: the registry returned {response.status} ({detail})"
    if response.status in (401, 403):
        return AuthenticationFailed(f"{request.subject}: access denied ({detail})")
    if response.status == 404:
        return NotFound(
            f"{request.subject}: not found in the registry ({detail})", hint="check the name and the tag or digest"
        )
    if response.status in _TRANSIENT_STATUSES:
        rate_limited = response.status == 429
        return TransientError(
            message,
            hint="wait, or log in for a higher rate limit" if rate_limited else "try again later",
            retry_after=_retry_after(response.headers),
        )
    if response.status == 400 and _HTTPS_REQUIRED in response.body:
        return InsecureTransport(
            f"{request.subject}: {url_host(request.url)} requires HTTPS",
            hint=Hint("omit {}", ImageSetting.PLAIN_HTTP),
        )
    if code in _CONTENT_ERRORS and "/manifests/" in request.url:
        # The digest is computed from the manifest: docker-registry returns this while another client writes a blob.
        return TransientError(message, hint="try again later")
    if code in _CONTENT_ERRORS:
        return DigestMismatch(message, hint="the content changed during the upload; try again")
    hint = (
        Hint("omit {} if the registry supports HTTPS", ImageSetting.PLAIN_HTTP)
        if request.url.startswith("http:")
        else ""
    )
    return ImageToolsError(message, hint=hint)


def error_from_exception(request: Request, error: Exception) -> ImageToolsError:
    """Return the error for a request without a response, or with an incomplete one."""
    host = url_host(request.url)
    if isinstance(error, InvalidURL):
        return RegistryUnavailable(f"{request.subject}: {host} sent an invalid URL")
    if isinstance(error, (HeaderLimitExceeded, InvalidHeader, InvalidBody)):
        return MalformedResponse(
            f"{request.subject}: invalid response from {host}: {error}",
            hint="check the registry's name and the proxy settings",
        )
    if isinstance(error, ProxyError):
        return _proxy_error(request, error)
    cause = error.error if isinstance(error, Unreachable) else error
    if isinstance(cause, ssl.SSLError) and (tls_error := _tls_error(request, host, cause)):
        return tls_error
    return TransientError(
        f"{request.subject}: connection to {host} failed: {_reason(cause)}",
        hint="check the registry's name, the network and the proxy settings",
        unreachable=isinstance(error, Unreachable) or isinstance(cause, socket.gaierror),
    )


def _tls_error(request: Request, host: str, error: ssl.SSLError) -> ImageToolsError | None:
    """Return the error for a TLS handshake that would fail again, None for a broken connection."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return InsecureTransport(
            f"{request.subject}: the certificate of {host} is not trusted: {error.verify_message}",
            hint=Hint.any_of(
                Hint("trust its certificate authority with {}", ImageSetting.CA_FILE),
                f"add the certificate authority to certs.d/{host} as *.crt",
                Hint("skip verification with {}", ImageSetting.SKIP_TLS_VERIFY),
            ),
        )
    if reason in _PLAIN_HTTP_REASONS:
        return InsecureTransport(
            f"{request.subject}: {host} does not support HTTPS",
            hint=Hint.any_of(
                Hint("use {} for a registry without TLS", ImageSetting.PLAIN_HTTP),
                "mark it as insecure in registries.conf",
            ),
        )
    if _CLIENT_CERTIFICATE_REASON.search(reason):
        return AuthenticationFailed(
            f"{request.subject}: {host} requires a client certificate that it trusts",
            hint=Hint.any_of(
                f"put *.cert and *.key into certs.d/{host}",
                Hint("pass their directory with {}", ImageSetting.CERT_DIR),
            ),
        )
    if alert := _ALERT.search(reason):
        name = (alert[1] or alert[2]).replace("_", " ").lower()
        return InsecureTransport(
            f"{request.subject}: {host} refused the TLS connection: {name}",
            hint="check the registry's name, and its TLS configuration",
        )
    if reason in _NO_COMMON_TLS:
        return InsecureTransport(
            f"{request.subject}: {host} supports no version of TLS or cipher that is secure",
            hint="update the TLS configuration of the registry",
        )
    return None


def _proxy_error(request: Request, error: ProxyError) -> ImageToolsError:
    subject = f"{request.subject}: proxy {error.proxy}"
    if error.status == _PROXY_AUTHENTICATION_REQUIRED:
        return RegistryUnavailable(
            f"{subject}: proxy authentication required",
            hint=f"set user name and password in {error.setting}: NAME:PASSWORD@ before the host",
        )
    hint = f"check {error.setting}, or except the host with NO_PROXY"
    if error.status:
        message = f"{subject}: the proxy returned {error.status} ({status_phrase(error.status)})"
        return (TransientError if error.status >= _SERVER_ERROR else RegistryUnavailable)(message, hint=hint)
    cause = error.error
    if cause is None:
        return RegistryUnavailable(f"{subject}: {error}", hint=f"set {error.setting} to http://HOST:PORT")
    if isinstance(cause, ssl.SSLCertVerificationError):
        message = f"{subject}: the certificate of the proxy is not trusted: {cause.verify_message}"
        return InsecureTransport(message, hint="add its certificate authority to those of the system")
    return TransientError(f"{subject}: {_reason(cause)}", hint=hint, unreachable=True)


def _reason(cause: Exception) -> str:
    """Return why a connection failed."""
    if isinstance(cause, socket.gaierror):
        return "unknown host"
    if isinstance(cause, ssl.SSLError):
        is_closed = isinstance(cause, _TLS_CLOSED) or "EOF" in (cause.reason or "")
        return "connection lost" if is_closed else "invalid TLS data"
    if isinstance(cause, TimeoutError):
        return (cause.strerror or "timed out").lower()
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower()
    return "the response ended early" if isinstance(cause, IncompleteBody) else "connection lost"


def status_phrase(status: int) -> str:
    """Return the reason phrase of a status code."""
    from http import HTTPStatus  # slow to import

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no details"


def _registry_error(response: Response) -> tuple[str, str]:
    """Return the code of the first error in the body, and its code and message as one text."""
    try:
        error = json.loads(response.body)["errors"][0]
        code, message = str(error["code"]), str(error.get("message") or "")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "", status_phrase(response.status)
    text = f"{code}: {message}" if message else code
    return code, escape_controls(text[:_MAX_DETAIL_LENGTH])


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return Retry-After (RFC 9110, section 10.2.3), a number of seconds or a date, as seconds from now."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    from email.utils import parsedate_to_datetime  # slow to import

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
