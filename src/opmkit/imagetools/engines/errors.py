"""From what an engine says went wrong to the error that tells a user what to do."""

from __future__ import annotations

from opmkit.imagetools.errors import (
    AuthenticationFailed,
    EngineError,
    ImageToolsError,
    InsecureTransport,
    NotFound,
    RegistryUnavailable,
)
from opmkit.imagetools.escape import escape_controls
from opmkit.imagetools.hints import Hint, Setting

CONTAINERS_INSECURE = Hint.any_of(
    Hint("use {} or {} for a registry without trusted TLS", Setting.PLAIN_HTTP, Setting.SKIP_TLS_VERIFY),
    "mark it as insecure in registries.conf",
    "add its certificate authority as /etc/containers/certs.d/HOST/ca.crt",
)
"""What podman and buildah can be told of registries that aren't trusted."""
_NO_ENGINE = Setting.CONTAINER_TOOL.with_value("none")
_TEXT_LENGTH = 500
_LOG_LINES = 20
_LOG_LENGTH = 4000

_INSECURE = (
    *("server gave http response to https client", "x509:", "certificate", "tls: ", "does not look like a tls"),
    "client sent an http request to an https server",
)
_DENIED = ("unauthorized", "authentication required", "denied", "no basic auth credentials", "incorrect username")
_MISSING = (
    *("manifest unknown", "name unknown", "not found", "no such image", "image not known", "does not exist"),
    "repository name not known",
)
_AWAY = (
    *("connection refused", "no such host", "i/o timeout", "dial tcp", "deadline exceeded", "connection reset"),
    *("bad gateway", "service unavailable", "internal server error", "gateway timeout", "too many requests", "eof"),
    "toomanyrequests",
)
_KINDS: tuple[tuple[tuple[str, ...], type[ImageToolsError], Hint | str], ...] = (
    (_INSECURE, InsecureTransport, ""),
    (
        _DENIED,
        AuthenticationFailed,
        Hint.any_of(
            "log in with `podman login` or `docker login`", Hint("pass a credentials file with {}", Setting.AUTHFILE)
        ),
    ),
    (_MISSING, NotFound, "check the name and the tag or digest"),
    (_AWAY, RegistryUnavailable, "check the registry's name, the network and the engine's proxy settings"),
)


def engine_failure(subject: str, engine: str, text: str, *, insecure_hint: Hint | str) -> ImageToolsError:
    """The error for what an engine said of a pull or push of ``subject``.

    Engines have no codes for what a registry answered: their words decide. ``insecure_hint`` is for registries
    without encryption or with a certificate that isn't trusted, which every engine is told of in its own way.
    """
    said = one_line(text)
    for signs, kind, hint in _KINDS:
        if any(sign in said.lower() for sign in signs):
            return kind(f"{subject}: {engine}: {said}", hint=hint or insecure_hint)
    return EngineError(f"{subject}: {engine}: {said}")


def build_failure(subject: str, engine: str, text: str, log: str) -> EngineError:
    """The error for a build that failed, with the end of its log."""
    tail = "\n".join(log.strip().splitlines()[-_LOG_LINES:])[-_LOG_LENGTH:]
    return EngineError(
        f"{subject}: {engine} failed to build it: {one_line(text)}",
        details=map(escape_controls, tail.splitlines()),
        hint=Hint.any_of("fix what the engine reports", Hint("use {} to build without an engine", _NO_ENGINE)),
    )


def one_line(text: str) -> str:
    """What an engine said, in one line of bounded length."""
    return escape_controls(" ".join(text.split()))[:_TEXT_LENGTH] or "it doesn't say why"


def root_cause(error: BaseException) -> str:
    """Why an engine could not be spoken to: what the operating system said, where it did."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return one_line(str(error))
