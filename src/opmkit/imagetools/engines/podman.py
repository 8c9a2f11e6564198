"""The podman engine, by its API; its service is started where none is at hand."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

import requests
from podman import PodmanClient
from podman.api import encode_auth_header
from podman.domain.config import PodmanConfig
from podman.errors import APIError, PodmanError

from opmkit.imagetools.engines.engine import EngineImage, OpenArchive, auth_config
from opmkit.imagetools.engines.errors import CONTAINERS_INSECURE, build_failure, engine_failure, root_cause
from opmkit.imagetools.engines.podman_service import PodmanService
from opmkit.imagetools.engines.streams import stream_of
from opmkit.imagetools.errors import EngineError, EngineUnavailable
from opmkit.imagetools.hints import Hint, Setting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from podman.api.client import APIResponse

    from opmkit.imagetools.auth import Credentials
    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.image_format import ImageFormat
    from opmkit.imagetools.layer import Layer

_CHUNK = 1 << 18


class PodmanEngine:
    """Engine over podman's SDK.

    The SDK's connections are used, and its calls only where they keep what podman says: the others lose errors,
    digests, annotations and times.
    """

    name = "podman"
    injected: tuple[str, ...] = ()

    def __init__(self, image_format: ImageFormat, *, verify_tls: bool, environ: Mapping[str, str] = os.environ) -> None:
        """Fix the format of what is built, and where the service is looked for when it is first needed.

        With ``verify_tls`` registries.conf decides which registries are insecure; without it, all are.
        """
        self._image_format = image_format
        self._access = {} if verify_tls else {"tlsVerify": False}
        self._environ = environ

    @cached_property
    def _client(self) -> PodmanClient:
        return connect(self._environ)

    def pull(self, name: str, credentials: Credentials | None) -> None:
        """Get what the registry has under that name now."""
        with self._reported(name):
            answer = self._client.api.post(
                "/images/pull",
                params={"reference": name, "policy": "always", **self._access},
                headers=_auth_header(credentials),
                stream=True,
            )
            answer.raise_for_status()
            for item in _items(answer):
                if item.get("error"):
                    raise engine_failure(name, self.name, str(item["error"]), insecure_hint=CONTAINERS_INSECURE)

    def find(self, name: str) -> EngineImage | None:
        """The image of that name in podman's storage."""
        with self._reported(name):
            answer = self._client.api.get(f"/images/{quote(name, safe='')}/json")
            if answer.status_code == requests.codes.not_found:
                return None
            answer.raise_for_status()
            return EngineImage.from_inspect(answer.json())

    @contextmanager
    def opened(self, image: EngineImage) -> Iterator[OpenArchive]:
        """A container of the image, to read files from."""
        with self._reported(image.digest):
            container = self._client.containers.create(image.digest.partition(":")[2], command=["none"])

        def archive(path: str) -> BinaryIO | None:
            with self._reported(image.digest):
                answer = self._client.api.get(f"/containers/{container.id}/archive", params={"path": path}, stream=True)
                if answer.status_code == requests.codes.not_found:
                    return None
                answer.raise_for_status()
            return stream_of(self._relayed(image.digest, answer))

        try:
            yield archive
        finally:
            with self._reported(image.digest):
                container.remove(force=True, v=True)

    def build(self, context: Layer, spec: BuildSpec, names: Sequence[str]) -> None:
        """Build the context; times and labels are the spec's alone, so that the same files give the same image."""
        parameters = {
            "dockerfile": "Dockerfile",
            "t": list(names),
            "outputformat": self._image_format.manifest_type,
            "labels": _pairs(spec.labels),  # it takes an object, too, but then their steps come in any order
            "annotations": _pairs(spec.annotations),
            "timestamp": spec.created,
            "identitylabel": False,
            "pullpolicy": "never",
            "layers": False,
            "forcerm": True,
        }
        log: list[str] = []
        with self._reported(names[0]), context.path.open("rb") as archive:
            answer = self._client.api.post(
                "/build", params=parameters, data=archive, headers={"Content-Type": "application/x-tar"}, stream=True
            )
            if answer.status_code != requests.codes.ok:
                raise build_failure(names[0], self.name, answer.text, "")
            for item in _items(answer):
                log.append(str(item.get("stream", "")))
                if item.get("error"):
                    raise build_failure(names[0], self.name, str(item["error"]), "".join(log))

    def push(self, name: str, credentials: Credentials | None) -> str:
        """Send an image to the registry of its name; the digest that it has there."""
        with self._reported(name):
            answer = self._client.api.post(
                f"/images/{quote(name, safe='')}/push",
                params={"destination": name, "quiet": False, **self._access},
                headers=_auth_header(credentials),
                stream=True,
            )
            answer.raise_for_status()
            digest = ""
            for item in _items(answer):
                if item.get("error"):
                    raise engine_failure(name, self.name, str(item["error"]), insecure_hint=CONTAINERS_INSECURE)
                digest = str(item.get("manifestdigest") or digest)
        return digest

    def _relayed(self, name: str, answer: APIResponse) -> Iterator[bytes]:
        with self._reported(name):
            try:
                yield from answer.iter_content(_CHUNK)
            finally:
                answer.close()

    @contextmanager
    def _reported(self, name: str) -> Iterator[None]:
        """Turn what the SDK raises into errors that name the image."""
        try:
            yield
        except (PodmanError, requests.RequestException) as error:
            if isinstance(error, APIError) and error.response is not None:
                said = str(error.explanation or error)
                raise engine_failure(name, self.name, said, insecure_hint=CONTAINERS_INSECURE) from error
            reason = f"{name}: {self.name}: its service doesn't answer ({root_cause(error)})"
            raise EngineError(reason, hint="see whether it is up") from error


def connect(environ: Mapping[str, str]) -> PodmanClient:
    """A client of the service that CONTAINER_HOST names, else of podman's machine, of a usual socket, or of our own.

    Raises EngineUnavailable, which names what was tried.
    """
    failures = []
    for address in _addresses(environ):
        client = PodmanClient(**address, max_pool_size=16)
        try:
            if client.ping():
                return client
            failures.append(f"{address['base_url']} (it doesn't answer as podman)")
        except (PodmanError, requests.RequestException, OSError, ValueError) as error:
            failures.append(f"{address['base_url']} ({root_cause(error)})")
    program = None if environ.get("CONTAINER_HOST") else shutil.which("podman", path=environ.get("PATH"))
    if program is not None:
        return _ServedClient(PodmanService(program, environ))
    missing = [] if environ.get("CONTAINER_HOST") else ["a service of its own (no program 'podman' in PATH)"]
    raise EngineUnavailable(
        f"podman can't be reached: tried {', '.join([*failures, *missing])}",
        hint=Hint.any_of(
            "install podman",
            "set CONTAINER_HOST to the address of its service",
            Hint("use {}", Setting.CONTAINER_TOOL.with_value("none")),
        ),
    )


class _ServedClient(PodmanClient):
    """A client of a service of our own, which lives as long as it."""

    def __init__(self, service: PodmanService) -> None:
        super().__init__(base_url=service.url, max_pool_size=16)
        self._service = service


def _addresses(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Where the service may be, as arguments of the client: the only place named, or all that are there."""
    if environ.get("CONTAINER_HOST"):
        key = {"identity": environ["CONTAINER_SSHKEY"]} if environ.get("CONTAINER_SSHKEY") else {}
        return [{"base_url": environ["CONTAINER_HOST"], **key}]
    active = PodmanConfig().active_service
    if active and active.is_machine:  # podman runs in a virtual machine
        return [{"base_url": active.url.geturl(), "identity": str(active.identity)}]
    user = os.getuid()
    runtime = Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{user}")
    sockets = [runtime / "podman/podman.sock", *([Path("/run/podman/podman.sock")] if user == 0 else [])]
    return [{"base_url": f"unix://{socket}"} for socket in sockets if socket.exists()]


def _auth_header(credentials: Credentials | None) -> dict[str, str]:
    """Without credentials podman looks for its own."""
    if credentials is None:
        return {}
    return {"X-Registry-Auth": encode_auth_header(auth_config(credentials)).decode()}


def _pairs(values: Mapping[str, str]) -> str:
    return json.dumps([f"{key}={value}" for key, value in sorted(values.items())])


def _items(answer: APIResponse) -> Iterator[dict[str, Any]]:
    """What podman says, line by line."""
    for line in answer.iter_lines():
        if line.strip():
            yield json.loads(line)
