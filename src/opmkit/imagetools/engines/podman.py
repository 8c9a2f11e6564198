"""The podman engine, through its API; its service is started if none is running."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

import requests
from podman import PodmanClient
from podman.api import encode_auth_header
from podman.domain.config import PodmanConfig
from podman.errors import APIError, PodmanError

from opmkit.core.hints import Hint
from opmkit.core.scratch import ScratchDirectory, finalize
from opmkit.core.search_paths import find_program
from opmkit.imagetools.engines.engine import (
    CONTAINERS_INSECURE_HINT,
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
    from collections.abc import Iterator, Mapping, Sequence

    from podman.api.client import APIResponse

    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.credentials import Credentials
    from opmkit.imagetools.image_format import ImageFormat
    from opmkit.imagetools.layer import Layer


_CHUNK = 1 << 18


class PodmanEngine:
    """The engine of a podman service.

    Most requests are sent directly: the SDK's methods drop errors, digests, annotations and times.
    """

    name = "podman"
    injected_paths: tuple[str, ...] = ()

    def __init__(self, image_format: ImageFormat, *, verify_tls: bool, environ: Mapping[str, str] = os.environ) -> None:
        """Use the service that ``environ`` configures; the first call connects to it.

        With ``verify_tls`` registries.conf decides which registries are insecure; without it, all are.
        """
        self._image_format = image_format
        self._tls_params = {} if verify_tls else {"tlsVerify": False}
        self._environ = environ

    @cached_property
    def _client(self) -> PodmanClient:
        return connect(self._environ)

    def pull(self, name: str, credentials: Credentials | None) -> None:
        """Pull an image, even if the name exists in podman's storage."""
        with self._sdk_errors(name):
            response = self._client.api.post(
                "/images/pull",
                params={"reference": name, "policy": "always", **self._tls_params},
                headers=_auth_header(credentials),
                stream=True,
            )
            response.raise_for_status()
            for message in _messages(response):
                if message.get("error"):
                    raise engine_error(name, self.name, str(message["error"]), insecure_hint=CONTAINERS_INSECURE_HINT)

    def find(self, name: str) -> EngineImage | None:
        """Return an image in podman's storage, None if it does not exist."""
        with self._sdk_errors(name):
            response = self._client.api.get(f"/images/{quote(name, safe='')}/json")
            if response.status_code == requests.codes.not_found:
                return None
            response.raise_for_status()
            return EngineImage.from_inspect(response.json())

    @contextmanager
    def open_container(self, image: EngineImage) -> Iterator[ArchiveOpener]:
        """Create a container of an image to read files from."""
        with self._sdk_errors(image.digest):
            container = self._client.containers.create(image.digest.partition(":")[2], command=["none"])

        def open_archive(path: str) -> BinaryIO | None:
            with self._sdk_errors(image.digest):
                url = f"/containers/{container.id}/archive"
                response = self._client.api.get(url, params={"path": path}, stream=True)
                if response.status_code == requests.codes.not_found:
                    return None
                response.raise_for_status()
            return stream_chunks(self._read_chunks(image.digest, response))

        try:
            yield open_archive
        finally:
            with self._sdk_errors(image.digest):
                container.remove(force=True, v=True)

    def build(self, context: Layer, spec: BuildSpec, names: Sequence[str]) -> None:
        """Build an image with only the times and labels of the spec, so that the same files give the same digest."""
        parameters = {
            "dockerfile": "Dockerfile",
            "t": list(names),
            "outputformat": self._image_format.manifest_type,
            "labels": _pairs(spec.labels),  # podman accepts an object as well, but applies that in random order
            "annotations": _pairs(spec.annotations),
            "timestamp": spec.created,
            "identitylabel": False,
            "pullpolicy": "never",
            "layers": False,
            "forcerm": True,
        }
        log: list[str] = []
        with self._sdk_errors(names[0]), context.path.open("rb") as archive:
            response = self._client.api.post(
                "/build", params=parameters, data=archive, headers={"Content-Type": "application/x-tar"}, stream=True
            )
            if response.status_code != requests.codes.ok:
                raise build_error(names[0], self.name, response.text, "")
            for message in _messages(response):
                log.append(str(message.get("stream", "")))
                if message.get("error"):
                    raise build_error(names[0], self.name, str(message["error"]), "".join(log))

    def push(self, name: str, credentials: Credentials | None) -> str:
        """Push an image and return its digest in the registry."""
        with self._sdk_errors(name):
            response = self._client.api.post(
                f"/images/{quote(name, safe='')}/push",
                params={"destination": name, "quiet": False, **self._tls_params},
                headers=_auth_header(credentials),
                stream=True,
            )
            response.raise_for_status()
            digest = ""
            for message in _messages(response):
                if message.get("error"):
                    raise engine_error(name, self.name, str(message["error"]), insecure_hint=CONTAINERS_INSECURE_HINT)
                digest = str(message.get("manifestdigest") or digest)
        return digest

    def _read_chunks(self, name: str, response: APIResponse) -> Iterator[bytes]:
        with self._sdk_errors(name):
            try:
                yield from response.iter_content(_CHUNK)
            finally:
                response.close()

    @contextmanager
    def _sdk_errors(self, name: str) -> Iterator[None]:
        """Convert errors of the SDK to ImageToolsErrors that name the image."""
        try:
            yield
        except (PodmanError, requests.RequestException) as error:
            if isinstance(error, APIError) and error.response is not None:
                message = str(error.explanation or error)
                raise engine_error(name, self.name, message, insecure_hint=CONTAINERS_INSECURE_HINT) from error
            raise EngineError(
                f"{name}: {self.name}: no response from the service: {root_cause(error)}",
                hint="check that the podman service is running",
            ) from error


def connect(environ: Mapping[str, str]) -> PodmanClient:
    """Connect to the service of CONTAINER_HOST, a podman machine or the usual sockets, else to a new service.

    Raises:
        EngineUnavailable: No service answers or can be started; the message lists what was tried.
    """
    failures = []
    for address in _addresses(environ):
        client = PodmanClient(**address, max_pool_size=16)
        try:
            if client.ping():
                return client
            failures.append(f"{address['base_url']} (not a podman service)")
        except (PodmanError, requests.RequestException, OSError, ValueError) as error:
            failures.append(f"{address['base_url']} ({root_cause(error)})")
    if not environ.get("CONTAINER_HOST"):
        program = find_program("podman", environ)
        if program is not None:
            return _ServiceClient(PodmanService(program, environ))
        failures.append("starting a service (podman not found in PATH)")
    raise EngineUnavailable(
        f"cannot connect to podman: tried {', '.join(failures)}",
        hint=Hint.any_of(
            "install podman",
            "set CONTAINER_HOST to the address of its service",
            Hint("use {}", ImageSetting.CONTAINER_TOOL.with_value("none")),
        ),
    )


class _ServiceClient(PodmanClient):
    """A client that keeps its own service running as long as it exists."""

    def __init__(self, service: PodmanService) -> None:
        super().__init__(base_url=service.url, max_pool_size=16)
        self._service = service


def _addresses(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return arguments of PodmanClient for the configured address, or for all existing default sockets."""
    if environ.get("CONTAINER_HOST"):
        key = {"identity": environ["CONTAINER_SSHKEY"]} if environ.get("CONTAINER_SSHKEY") else {}
        return [{"base_url": environ["CONTAINER_HOST"], **key}]
    active = PodmanConfig().active_service
    if active and active.is_machine:
        return [{"base_url": active.url.geturl(), "identity": str(active.identity)}]
    user = os.getuid()
    runtime = Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{user}")
    sockets = [runtime / "podman/podman.sock", *([Path("/run/podman/podman.sock")] if user == 0 else [])]
    return [{"base_url": f"unix://{socket}"} for socket in sockets if socket.exists()]


def _auth_header(credentials: Credentials | None) -> dict[str, str]:
    """Return the header with credentials; without it podman uses its own."""
    if credentials is None:
        return {}
    return {"X-Registry-Auth": encode_auth_header(auth_config(credentials)).decode()}


def _pairs(values: Mapping[str, str]) -> str:
    return json.dumps([f"{key}={value}" for key, value in sorted(values.items())])


def _messages(response: APIResponse) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        if line.strip():
            yield json.loads(line)


_START_TIMEOUT = 30
_IDLE_TIMEOUT = 1800
_STOP_TIMEOUT = 10
_MAX_SOCKET_PATH = 107
"""Maximum bytes of a socket's path, see unix(7)."""


class PodmanService:
    """A ``podman system service`` at a socket that only its user can open.

    It is stopped together with this object or at exit of the process. If the process is killed, the service exits
    after a period without requests.
    """

    def __init__(self, program: str, environ: Mapping[str, str]) -> None:
        """Start the service and wait until it listens; raise EngineUnavailable with its output on failure."""
        scratch, path = _create_socket_directory()
        self.url = f"unix://{path}"
        log = Path(scratch.name, "log")
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [program, "system", "service", f"--time={_IDLE_TIMEOUT}", self.url],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(environ),
                start_new_session=True,  # not interrupted by Ctrl-C, since containers must be removed before it stops
            )
        self.stop = finalize(self, _stop, self._process, scratch)
        deadline = time.monotonic() + _START_TIMEOUT
        while not _is_listening(path):
            if self._process.poll() is not None or time.monotonic() > deadline:
                message = single_line(log.read_text(errors="replace"))
                self.stop()
                raise EngineUnavailable(
                    f"podman: the service did not start: {message}",
                    hint=Hint.any_of(
                        "check `podman info`", Hint("use {}", ImageSetting.CONTAINER_TOOL.with_value("none"))
                    ),
                )
            time.sleep(0.02)


def _create_socket_directory() -> tuple[ScratchDirectory, Path]:
    """Return a directory for a socket with the socket's path, in /tmp if TMPDIR is too long."""
    scratch = ScratchDirectory("opm-podman-")
    path = Path(scratch.name, "podman.sock")
    if len(os.fsencode(path)) > _MAX_SOCKET_PATH:
        scratch.cleanup()
        scratch = ScratchDirectory("opm-podman-", Path("/tmp"))  # noqa: S108 - ScratchDirectory chooses the name
        path = Path(scratch.name, "podman.sock")
    return scratch, path


def _is_listening(path: Path) -> bool:
    """Return whether a process listens at a socket, which exists some time before that."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _stop(process: subprocess.Popen[bytes], scratch: ScratchDirectory) -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(OSError):
        scratch.cleanup()
