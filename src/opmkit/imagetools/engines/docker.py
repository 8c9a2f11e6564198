"""The docker engine, by its API."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import docker
import requests
from docker.context import ContextAPI
from docker.errors import APIError, DockerException, TLSParameterError
from docker.errors import NotFound as NotThere
from docker.utils import kwargs_from_env

from opmkit.imagetools.engines.engine import EngineImage, OpenArchive, auth_config
from opmkit.imagetools.engines.errors import build_failure, engine_failure, one_line, root_cause
from opmkit.imagetools.engines.streams import stream_of
from opmkit.imagetools.errors import EngineError, EngineUnavailable
from opmkit.imagetools.hints import Hint, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.imagetools.auth import Credentials
    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.layer import Layer

_CONNECT_SECONDS = 10
_SILENCE_SECONDS = 900
"""How long the daemon may say nothing: it commits a large layer without a word."""
_INSECURE_HINT = (
    "docker decides by itself how registries are spoken to: name this one in insecure-registries of its daemon.json, "
    "or put its certificate authority in /etc/docker/certs.d/HOST/ca.crt"
)
_DEFAULT_CONTEXT = "default"


class DockerEngine:
    """Engine over the docker SDK."""

    name = "docker"
    injected: tuple[str, ...] = (
        "dev",
        "proc",
        "sys",
        "etc/hostname",
        "etc/hosts",
        "etc/mtab",
        "etc/resolv.conf",
        ".dockerenv",
    )

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        """Fix where the daemon is looked for; it is connected to when it is first needed."""
        self._environ = environ

    @cached_property
    def _api(self) -> _Client:
        return connect(self._environ)

    def pull(self, name: str, credentials: Credentials | None) -> None:
        """Get what the registry has under that name now."""
        repository, identifier = _parts(name)
        with _reported(name):
            auth = auth_config(credentials)
            _drain(name, self._api.pull(repository, tag=identifier, stream=True, decode=True, auth_config=auth))

    def find(self, name: str) -> EngineImage | None:
        """The image of that name in the daemon's storage."""
        with _reported(name):
            try:
                return EngineImage.from_inspect(self._api.inspect_image(name))
            except NotThere:
                return None

    @contextmanager
    def opened(self, image: EngineImage) -> Iterator[OpenArchive]:
        """A container of the image, to read files from."""
        with _reported(image.digest):
            container = self._api.create_container(image.digest, command=["none"])["Id"]

        def archive(path: str) -> BinaryIO | None:
            with _reported(image.digest):
                try:
                    chunks, _ = self._api.get_archive(container, path)
                except NotThere:
                    return None
            return stream_of(_relayed(image.digest, chunks))

        try:
            yield archive
        finally:
            with _reported(image.digest):
                self._api.remove_container(container, v=True, force=True)

    def build(self, context: Layer, spec: BuildSpec, names: Sequence[str]) -> None:
        """Build the context with the classic builder, whose images are in docker's format always."""
        log: list[str] = []
        with _reported(names[0]), context.path.open("rb") as archive:
            steps = self._api.build(
                fileobj=archive,
                custom_context=True,
                tag=names[0],
                labels=dict(spec.labels),
                rm=True,
                forcerm=True,
                use_config_proxy=False,
                decode=True,
            )
            try:
                for step in steps:
                    log.append(str(step.get("stream", "")))
                    if "error" in step:
                        raise build_failure(names[0], self.name, str(step["error"]), "".join(log))
            except APIError as error:
                raise build_failure(names[0], self.name, str(error.explanation or error), "") from error
            for name in names[1:]:
                self._api.tag(names[0], *_parts(name))

    def push(self, name: str, credentials: Credentials | None) -> str:
        """Send an image to the registry of its name; the digest that it has there."""
        repository, tag = _parts(name)
        with _reported(name):
            auth = auth_config(credentials)
            answers = _drain(name, self._api.push(repository, tag=tag, stream=True, decode=True, auth_config=auth))
        digests = [answer["aux"]["Digest"] for answer in answers if "Digest" in (answer.get("aux") or {})]
        if not digests:
            raise EngineError(f"{name}: docker pushed it, but doesn't tell its digest", hint="push it again")
        return str(digests[-1])


class _Client(docker.APIClient):  # type: ignore[misc]
    """The SDK's client, that is told which credentials to use: it would ask every helper for all of its own."""

    def _set_auth_headers(self, headers: dict[str, str]) -> None:
        """Send none with a build: what it is based on has been pulled already."""


def connect(environ: Mapping[str, str]) -> _Client:
    """A client of the daemon that DOCKER_HOST or the docker context names, else of one at the usual sockets.

    Raises EngineUnavailable, which names what was tried.
    """
    failures = []
    for address in _addresses(environ):
        try:
            probe = _Client(**address, timeout=_CONNECT_SECONDS, use_ssh_client=True)
            return _Client(
                **address, timeout=_SILENCE_SECONDS, version=probe.api_version, use_ssh_client=True, max_pool_size=16
            )
        except (DockerException, requests.RequestException, OSError, ValueError) as error:
            failures.append(f"{address['base_url']} ({root_cause(error)})")
    raise EngineUnavailable(
        f"docker can't be reached: tried {', '.join(failures)}",
        hint=Hint.any_of(
            "start it",
            "set DOCKER_HOST to its address or DOCKER_CONTEXT to its context",
            Hint("use {}", Setting.CONTAINER_TOOL.with_value("none")),
        ),
    )


def _addresses(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Where the daemon may be, as arguments of the client: the only place named, or all that are usual."""
    if host := environ.get("DOCKER_HOST"):
        try:
            return [kwargs_from_env(environment=environ)]
        except TLSParameterError as error:
            raise EngineUnavailable(
                f"docker can't be reached at {host}: {one_line(str(error))}",
                hint="put ca.pem, cert.pem and key.pem in DOCKER_CERT_PATH, or unset DOCKER_TLS_VERIFY",
            ) from error
    context = environ.get("DOCKER_CONTEXT") or _current_context()
    if context != _DEFAULT_CONTEXT:
        return [_of_context(context)]
    home = Path(environ.get("HOME") or Path.home())
    sockets = [
        Path("/var/run/docker.sock"),
        Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}", "docker.sock"),
        home / ".docker/run/docker.sock",  # Docker Desktop
        home / ".docker/desktop/docker.sock",
    ]
    return [{"base_url": f"unix://{socket}"} for socket in sockets]


def _current_context() -> str:
    from docker.context.config import get_current_context_name

    return str(get_current_context_name() or _DEFAULT_CONTEXT)


def _of_context(name: str) -> dict[str, Any]:
    try:
        arguments: dict[str, Any] = ContextAPI.kwargs_from_context(name)
    except Exception as error:  # the SDK raises bare Exceptions
        raise EngineUnavailable(
            f"the docker context {name!r} can't be read: {one_line(str(error))}",
            hint="see `docker context inspect`, or name the daemon's address in DOCKER_HOST",
        ) from error
    if not arguments:
        raise EngineUnavailable(
            f"there is no docker context {name!r}",
            hint="`docker context ls` lists them; or name the daemon's address in DOCKER_HOST",
        )
    return arguments


def _parts(name: str) -> tuple[str, str]:
    """Repository, and tag or digest."""
    repository, at, digest = name.partition("@")
    if at:
        return repository, digest
    repository, _, tag = name.rpartition(":")
    return repository, tag


def _drain(name: str, answers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """All that the daemon says of a pull or push; errors come among it."""
    kept = []
    for answer in answers:
        if "error" in answer:
            raise engine_failure(name, "docker", str(answer["error"]), insecure_hint=_INSECURE_HINT)
        if "aux" in answer:
            kept.append(answer)
    return kept


def _relayed(name: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    with _reported(name):
        yield from chunks


@contextmanager
def _reported(name: str) -> Iterator[None]:
    """Turn what the SDK raises into errors that name the image."""
    try:
        yield
    except APIError as error:
        raise engine_failure(name, "docker", str(error.explanation or error), insecure_hint=_INSECURE_HINT) from error
    except (DockerException, requests.RequestException) as error:
        raise EngineError(f"{name}: docker: {root_cause(error)}", hint="see whether the daemon is up") from error
