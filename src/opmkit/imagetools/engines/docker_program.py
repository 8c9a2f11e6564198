"""The docker engine through the program ``docker``: podman-docker and wrapper scripts have no daemon to connect to."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from opmkit.core.scratch import ScratchDirectory
from opmkit.imagetools.engines.docker import INSECURE_HINT, UNAVAILABLE_HINT, DockerEngine
from opmkit.imagetools.engines.engine import (
    ArchiveOpener,
    EngineImage,
    build_error,
    engine_error,
    last_line,
    single_line,
    stream_chunks,
)
from opmkit.imagetools.errors import EngineUnavailable, NotFound
from opmkit.imagetools.layer import extract_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.credentials import Credentials
    from opmkit.imagetools.errors import ImageToolsError
    from opmkit.imagetools.layer import Layer

_CHUNK = 1 << 18
_MISSING_PATH = ("could not find the file", "could not be found", "no such file or directory")
"""What docker and podman print if a container does not have a path."""
_NO_DAEMON = "Cannot connect to the Docker daemon"
_DIGEST = re.compile(r"digest: (sha256:[0-9a-f]{64})")


class DockerProgram:
    """The engine of a program that accepts docker's command line."""

    name = "docker"
    injected_paths = DockerEngine.injected_paths

    def __init__(self, program: str, environ: Mapping[str, str] = os.environ) -> None:
        """Use the program at a path, with the variables of ``environ``."""
        self._program = program
        self._environ = dict(environ)

    def pull(self, name: str, credentials: Credentials | None) -> None:
        """Pull an image, even if the name exists in the storage of the program."""
        with self._login(name, credentials) as environ:
            self._run(name, "pull", name, environ=environ)

    def find(self, name: str) -> EngineImage | None:
        """Return an image in the storage of the program, None if it does not exist."""
        try:
            inspected = json.loads(self._run(name, "image", "inspect", name))
        except NotFound:
            return None
        return EngineImage.from_inspect(inspected[0])

    @contextmanager
    def open_container(self, image: EngineImage) -> Iterator[ArchiveOpener]:
        """Create a container of an image to read files from."""
        container = self._run(image.digest, "create", image.digest, "none").split()[-1]

        def open_archive(path: str) -> BinaryIO | None:
            chunks = self._archive(image.digest, f"{container}:{path}")
            first = next(chunks, None)  # runs the program until it writes something
            return None if first is None else stream_chunks(chain([first], chunks))

        try:
            yield open_archive
        finally:
            self._run(image.digest, "rm", "--force", "--volumes", container)

    def build(self, context: Layer, spec: BuildSpec, names: Sequence[str]) -> None:
        """Build an image from a context archive."""
        labels = [f"--label={key}={value}" for key, value in sorted(spec.labels.items())]
        with ScratchDirectory("opm-context-") as directory:
            extract_tree([(context.descriptor, lambda: context.path.open("rb"))], Path(directory))
            done = self._start(["build", *labels, *(f"--tag={name}" for name in names), directory], self._environ)
        if done.returncode:
            raise build_error(names[0], self.name, last_line(done.stderr), done.stdout + done.stderr)

    def push(self, name: str, credentials: Credentials | None) -> str:
        """Push an image and return its digest in the registry, "" if the program does not print it."""
        with self._login(name, credentials) as environ:
            found = _DIGEST.findall(self._run(name, "push", name, environ=environ))
        return found[-1] if found else ""

    @contextmanager
    def _login(self, name: str, credentials: Credentials | None) -> Iterator[dict[str, str]]:
        """Yield variables with the credentials for a name in a file that only the user can read."""
        if credentials is None:
            yield self._environ
            return
        entry = {"auth": credentials.basic().removeprefix("Basic ")}
        entry |= {"identitytoken": credentials.identity_token} if credentials.identity_token else {}
        with ScratchDirectory("opm-docker-") as directory:  # mode 0700
            config = Path(directory, "config.json")
            config.write_text(json.dumps({"auths": {name.partition("/")[0]: entry}}))
            yield {**self._environ, "DOCKER_CONFIG": directory, "REGISTRY_AUTH_FILE": str(config)}

    def _archive(self, subject: str, source: str) -> Iterator[bytes]:
        """Yield a tar archive of a path in a container, nothing if the path does not exist."""
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(
                [self._program, "cp", source, "-"], stdout=subprocess.PIPE, stderr=errors, env=self._environ
            ) as process,
        ):
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            try:
                while data := process.stdout.read(_CHUNK):
                    yield data
                if process.wait():
                    errors.seek(0)
                    message = errors.read().decode(errors="replace")
                    if not any(words in message.lower() for words in _MISSING_PATH):
                        raise self._error(subject, message)
            finally:
                process.kill()

    def _run(self, subject: str, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
        """Run the program and return its standard output; raise an error that names ``subject`` if it fails."""
        done = self._start(arguments, self._environ if environ is None else environ)
        if done.returncode:
            raise self._error(subject, done.stderr)
        return done.stdout

    def _start(self, arguments: Sequence[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=environ,
            check=False,
        )

    def _error(self, subject: str, stderr: str) -> ImageToolsError:
        if _NO_DAEMON in stderr:
            return EngineUnavailable(f"docker: {single_line(last_line(stderr))}", hint=UNAVAILABLE_HINT)
        return engine_error(subject, self.name, last_line(stderr), insecure_hint=INSECURE_HINT)
