"""Convert error messages of engines to ImageToolsErrors with hints."""

from __future__ import annotations

from opmkit.core.escape import escape_controls
from opmkit.core.hints import Hint
from opmkit.imagetools.errors import (
    AuthenticationFailed,
    EngineError,
    ImageToolsError,
    InsecureTransport,
    NotFound,
    RegistryUnavailable,
)
from opmkit.imagetools.hint_terms import ImageSetting

CONTAINERS_INSECURE_HINT = Hint.any_of(
    Hint("use {} or {} for a registry without trusted TLS", ImageSetting.PLAIN_HTTP, ImageSetting.SKIP_TLS_VERIFY),
    "mark it as insecure in registries.conf",
    "add its certificate authority as /etc/containers/certs.d/HOST/ca.crt",
)
"""Hint for insecure registries with podman and buildah."""
_NO_ENGINE = ImageSetting.CONTAINER_TOOL.with_value("none")
_MAX_MESSAGE_LENGTH = 500
_MAX_LOG_LINES = 20
_MAX_LOG_LENGTH = 4000

_INSECURE = (
    *("server gave http response to https client", "x509:", "certificate", "tls: ", "does not look like a tls"),
    "client sent an http request to an https server",
)
_DENIED = ("unauthorized", "authentication required", "denied", "no basic auth credentials", "incorrect username")
_NOT_FOUND = (
    *("manifest unknown", "name unknown", "not found", "no such image", "image not known", "does not exist"),
    "repository name not known",
)
_UNAVAILABLE = (
    *("connection refused", "no such host", "i/o timeout", "dial tcp", "deadline exceeded", "connection reset"),
    *("bad gateway", "service unavailable", "internal server error", "gateway timeout", "too many requests", "eof"),
    "toomanyrequests",
)
_PATTERNS: tuple[tuple[tuple[str, ...], type[ImageToolsError], Hint | str], ...] = (
    (_INSECURE, InsecureTransport, ""),
    (
        _DENIED,
        AuthenticationFailed,
        Hint.any_of(
            "log in with `podman login` or `docker login`",
            Hint("pass a credentials file with {}", ImageSetting.AUTHFILE),
        ),
    ),
    (_NOT_FOUND, NotFound, "check the name and the tag or digest"),
    (_UNAVAILABLE, RegistryUnavailable, "check the registry's name, the network and the engine's proxy settings"),
)


def engine_error(subject: str, engine: str, text: str, *, insecure_hint: Hint | str) -> ImageToolsError:
    """Return the error for a message that an engine printed when it pulled or pushed ``subject``.

    Engines do not report status codes of registries, so the type of the error depends on words in the message.
    ``insecure_hint`` is for registries without TLS or with an untrusted certificate; each engine is configured in its
    own way.
    """
    message = single_line(text)
    for words, error_type, hint in _PATTERNS:
        if any(word in message.lower() for word in words):
            return error_type(f"{subject}: {engine}: {message}", hint=hint or insecure_hint)
    return EngineError(f"{subject}: {engine}: {message}")


def build_error(subject: str, engine: str, text: str, log: str) -> EngineError:
    """Return the error for a build that failed, with the end of its log."""
    tail = "\n".join(log.strip().splitlines()[-_MAX_LOG_LINES:])[-_MAX_LOG_LENGTH:]
    return EngineError(
        f"{subject}: {engine} build failed: {single_line(text)}",
        details=map(escape_controls, tail.splitlines()),
        hint=Hint.any_of("fix what the engine reports", Hint("use {} to build without an engine", _NO_ENGINE)),
    )


def single_line(text: str) -> str:
    """Return the message of an engine on one line of limited length."""
    return escape_controls(" ".join(text.split()))[:_MAX_MESSAGE_LENGTH] or "no error message"


def root_cause(error: BaseException) -> str:
    """Return why connecting to an engine failed: the error of the operating system, if there was one."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return single_line(str(error))
