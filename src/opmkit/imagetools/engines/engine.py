"""The interface of container engines, and the conversion of their errors to ImageToolsErrors."""

from __future__ import annotations

import io
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, BinaryIO, Protocol

from msgspec import Struct

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
from opmkit.imagetools.spec import ImageConfig
from opmkit.imagetools.spec.fields import dump_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from _typeshed import WriteableBuffer

    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.credentials import Credentials
    from opmkit.imagetools.layer import Layer


class EngineImage(Struct, frozen=True):
    """An image in the storage of an engine; ``digest`` is that of its configuration, the image ID of engines."""

    digest: str
    config: ImageConfig
    annotations: Mapping[str, str] = {}

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the configuration."""
        return self.config.labels

    @classmethod
    def from_inspect(cls, inspected: Mapping[str, object]) -> EngineImage:
        """Convert the image object of docker's and podman's API."""
        config: dict[str, object] = {
            "os": inspected.get("Os"),
            "architecture": inspected.get("Architecture"),
            "created": inspected.get("Created"),
            "config": inspected.get("Config"),
        }
        digest = f"sha256:{str(inspected['Id']).removeprefix('sha256:')}"
        annotations = inspected.get("Annotations")
        return cls(digest, ImageConfig.parse(dump_json(config)), annotations if isinstance(annotations, dict) else {})


ArchiveOpener = Callable[[str], BinaryIO | None]
"""Opens a tar archive of a path in a container, with entries named from the last component of the path.

It returns None if the path does not exist.
"""


class Engine(Protocol):
    """A container engine. Names are references with a tag or a digest.

    All methods are thread-safe and raise ImageToolsErrors.
    """

    name: str
    injected_paths: tuple[str, ...]
    """Files and directories that the engine adds to every container."""

    def pull(self, name: str, credentials: Credentials | None) -> None:
        """Pull an image for the platform of this host, even if the name exists in the engine's storage."""
        ...

    def find(self, name: str) -> EngineImage | None:
        """Return an image in the engine's storage, None if it does not exist."""
        ...

    def open_container(self, image: EngineImage) -> AbstractContextManager[ArchiveOpener]:
        """Create a container of an image to read files from; it is not started, and removed at the end."""
        ...

    def build(self, context: Layer, spec: BuildSpec, names: Sequence[str]) -> None:
        """Build an image from a context archive, on a base in the engine's storage, and tag it with all names."""
        ...

    def push(self, name: str, credentials: Credentials | None) -> str:
        """Push an image and return its digest in the registry, or "" if the engine does not report it."""
        ...


def auth_config(credentials: Credentials | None) -> dict[str, str]:
    """Return credentials as the AuthConfig object of docker's and podman's API, empty for None."""
    if credentials is None:
        return {}
    if credentials.identity_token:
        return {"identitytoken": credentials.identity_token}
    return {"username": credentials.username, "password": credentials.password}


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


def last_line(stderr: str) -> str:
    """Return the error message of a program, which it prints after steps and warnings."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    return lines[-1].removeprefix("Error: ") if lines else ""


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


def stream_chunks(chunks: Iterator[bytes]) -> BinaryIO:
    """Return a stream that reads from an iterator; closing it closes a generator."""
    return io.BufferedReader(_ChunkReader(chunks))


class _ChunkReader(io.RawIOBase):
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        count = min(len(view), len(self._rest))
        view[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def close(self) -> None:
        if isinstance(self._chunks, Generator):
            self._chunks.close()
        super().close()
