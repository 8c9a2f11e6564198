"""The docker engine, through its API."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import requests
from docker import APIClient
from docker.constants import MINIMUM_DOCKER_API_VERSION
from docker.context import ContextAPI
from docker.errors import APIError, DockerException, TLSParameterError
from docker.errors import NotFound as DockerNotFound
from docker.utils import kwargs_from_env
from docker.utils.config import find_config_file

from opmkit.core.hints import Hint
from opmkit.imagetools.engines.engine import (
    ArchiveOpener,
    EngineImage,
    auth_config,
    build_error,
    engine_error,
    root_cause,
    single_line,
    stream_chunks,
)
from opmkit.imagetools.errors import EngineError, EngineUnavailable
from opmkit.imagetools.hint_terms import ImageSetting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.credentials import Credentials
    from opmkit.imagetools.layer import Layer

_CONNECT_TIMEOUT = 10
_READ_TIMEOUT = 900
"""Seconds; the daemon sends nothing while it commits a large layer."""
INSECURE_HINT = (
    "configure the docker daemon: add the registry to insecure-registries in its daemon.json, "
    "or its certificate authority as /etc/docker/certs.d/HOST/ca.crt"
)
UNAVAILABLE_HINT = Hint.any_of(
    "start the daemon",
    "set DOCKER_HOST to its address or DOCKER_CONTEXT to its context",
    Hint("use {}", ImageSetting.CONTAINER_TOOL.with_value("none")),
)
_DAEMON_HINT = "check that the docker daemon is running"
_DEFAULT_CONTEXT = "default"


class DockerEngine:
    """The engine of a docker daemon."""

    name = "docker"
    injected_paths: tuple[str, ...] = (
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
        """Use the daemon that ``environ`` configures; the first call connects to it."""
        self._environ = environ

    @cached_property
    def _client(self) -> APIClient:
        return connect(self._environ)

    def pull(self, name: str, credentials: Credentials | None) -> None:
        """Pull an image, even if the name exists in the daemon's storage."""
        repository, identifier = _split_name(name)
        with _sdk_errors(name):
            auth = auth_config(credentials)
            _collect_results(
                name, self._client.pull(repository, tag=identifier, stream=True, decode=True, auth_config=auth)
            )

    def find(self, name: str) -> EngineImage | None:
        """Return an image in the daemon's storage, None if it does not exist."""
        with _sdk_errors(name):
            try:
                return EngineImage.from_inspect(self._client.inspect_image(name))
            except DockerNotFound:
                return None

    @contextmanager
    def open_container(self, image: EngineImage) -> Iterator[ArchiveOpener]:
        """Create a container of an image to read files from."""
        with _sdk_errors(image.digest):
            container = self._client.create_container(image.digest, command=["none"])["Id"]

        def open_archive(path: str) -> BinaryIO | None:
            with _sdk_errors(image.digest):
                try:
                    chunks, _ = self._client.get_archive(container, path)
                except DockerNotFound:
                    return None
            return stream_chunks(_convert_errors(image.digest, chunks))

        try:
            yield open_archive
        finally:
            with _sdk_errors(image.digest):
                self._client.remove_container(container, v=True, force=True)

    def build(self, context: Layer, spec: BuildSpec, names: Sequence[str]) -> None:
        """Build an image with the classic builder, which always uses docker's format."""
        log: list[str] = []
        with _sdk_errors(names[0]), context.path.open("rb") as archive:
            response = self._post_build(archive, spec, names[0])
            if not response.ok:
                raise build_error(names[0], self.name, _error_message(response), "")
            for line in filter(None, response.iter_lines()):
                step = json.loads(line)
                log.append(str(step.get("stream", "")))
                if "error" in step:
                    raise build_error(names[0], self.name, str(step["error"]), "".join(log))
            for name in names[1:]:
                self._client.tag(names[0], *_split_name(name))

    def _post_build(self, context: BinaryIO, spec: BuildSpec, name: str) -> requests.Response:
        """Start a build without the method of the SDK, which asks credential helpers for all registries.

        A build needs no credentials: its base image has been pulled already.
        """
        response: requests.Response = self._client.post(
            f"{self._client.base_url}/v{self._client.api_version}/build",
            params={"t": name, "labels": json.dumps(dict(spec.labels)), "rm": True, "forcerm": True},
            data=context,
            headers={"Content-Type": "application/x-tar"},
            stream=True,
        )
        return response

    def push(self, name: str, credentials: Credentials | None) -> str:
        """Push an image and return its digest in the registry."""
        repository, tag = _split_name(name)
        with _sdk_errors(name):
            auth = auth_config(credentials)
            results = _collect_results(
                name, self._client.push(repository, tag=tag, stream=True, decode=True, auth_config=auth)
            )
        digests = [result["Digest"] for result in results if "Digest" in result]
        if not digests:
            raise EngineError(f"{name}: docker did not report the digest of the pushed image", hint="push it again")
        return str(digests[-1])


def connect(environ: Mapping[str, str]) -> APIClient:
    """Connect to the daemon of DOCKER_HOST or the docker context, else to one at the usual sockets.

    Raises:
        EngineUnavailable: The user's docker configuration is invalid, or no daemon answers; then the message lists the
            addresses tried.
    """
    _check_config()
    failures = []
    for address in _addresses(environ):
        try:
            probe = APIClient(**address, timeout=_CONNECT_TIMEOUT, use_ssh_client=True)
            return APIClient(
                **address, timeout=_READ_TIMEOUT, version=probe.api_version, use_ssh_client=True, max_pool_size=16
            )
        except (DockerException, requests.RequestException, OSError, ValueError) as error:
            failures.append(f"{address['base_url']} ({root_cause(error)})")
    raise EngineUnavailable(f"cannot connect to docker: tried {', '.join(failures)}", hint=UNAVAILABLE_HINT)


def _check_config() -> None:
    """Raise EngineUnavailable for a docker configuration that the SDK cannot use; it does not validate types."""
    try:
        APIClient(version=MINIMUM_DOCKER_API_VERSION).close()  # with a version, the client does not connect
    except Exception as error:
        is_explained = isinstance(error, DockerException | ValueError)
        raise EngineUnavailable(
            f"docker configuration {find_config_file()}: {single_line(str(error)) if is_explained else 'wrong types'}",
            hint="correct the file, or set DOCKER_CONFIG to another directory",
        ) from error


def has_address(environ: Mapping[str, str]) -> bool:
    """Return whether the address of a daemon is configured, or one of the usual sockets exists."""
    if environ.get("DOCKER_HOST") or environ.get("DOCKER_CONTEXT"):
        return True
    _check_config()
    return _current_context() != _DEFAULT_CONTEXT or any(socket.exists() for socket in _usual_sockets(environ))


def _addresses(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return arguments of APIClient for the configured address, or for all default addresses."""
    if host := environ.get("DOCKER_HOST"):
        try:
            return [kwargs_from_env(environment=environ)]
        except TLSParameterError as error:
            raise EngineUnavailable(
                f"cannot connect to docker at {host}: {single_line(str(error))}",
                hint="put ca.pem, cert.pem and key.pem in DOCKER_CERT_PATH, or unset DOCKER_TLS_VERIFY",
            ) from error
    context = environ.get("DOCKER_CONTEXT") or _current_context()
    if context != _DEFAULT_CONTEXT:
        return [_context_address(context)]
    return [{"base_url": f"unix://{socket}"} for socket in _usual_sockets(environ)]


def _usual_sockets(environ: Mapping[str, str]) -> list[Path]:
    home = Path(environ.get("HOME") or Path.home())
    return [
        Path("/var/run/docker.sock"),
        Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}", "docker.sock"),
        home / ".docker/run/docker.sock",  # Docker Desktop
        home / ".docker/desktop/docker.sock",
    ]


def _current_context() -> str:
    from docker.context.config import get_current_context_name

    return str(get_current_context_name() or _DEFAULT_CONTEXT)


def _context_address(name: str) -> dict[str, Any]:
    try:
        arguments: dict[str, Any] = ContextAPI.kwargs_from_context(name)
    except (LookupError, TypeError, AttributeError) as error:
        raise _invalid_context(name, "missing or invalid fields") from error
    except Exception as error:  # the SDK raises plain Exceptions
        raise _invalid_context(name, single_line(str(error.__cause__ or error))) from error
    if not arguments:
        raise EngineUnavailable(
            f"docker context {name!r} not found",
            hint="list the contexts with `docker context ls`, or set DOCKER_HOST to the address of the daemon",
        )
    if not isinstance(arguments["base_url"], str):
        raise _invalid_context(name, "Host is not a string")
    return arguments


def _invalid_context(name: str, problem: str) -> EngineUnavailable:
    from docker.context.config import get_meta_file

    file = get_meta_file(name.encode(errors="replace").decode())
    return EngineUnavailable(
        f"docker context {name!r}: cannot be read: {file}: {problem}",
        hint="check `docker context inspect`, or set DOCKER_HOST to the address of the daemon",
    )


def _split_name(name: str) -> tuple[str, str]:
    """Return the repository, and the tag or digest."""
    repository, at, digest = name.partition("@")
    if at:
        return repository, digest
    repository, _, tag = name.rpartition(":")
    return repository, tag


def _collect_results(name: str, messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Read the messages of a pull or push to the end, and return the results among them; raise reported errors."""
    results = []
    for message in messages:
        if "error" in message:
            raise engine_error(name, "docker", str(message["error"]), insecure_hint=INSECURE_HINT)
        if result := message.get("aux"):
            results.append(result)
    return results


def _error_message(response: requests.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return response.text


def _convert_errors(name: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    with _sdk_errors(name):
        yield from chunks


@contextmanager
def _sdk_errors(name: str) -> Iterator[None]:
    """Convert errors of the SDK to ImageToolsErrors that name the image."""
    try:
        yield
    except APIError as error:
        raise engine_error(name, "docker", str(error.explanation or error), insecure_hint=INSECURE_HINT) from error
    except (DockerException, requests.RequestException) as error:
        raise EngineError(f"{name}: docker: {root_cause(error)}", hint=_DAEMON_HINT) from error
