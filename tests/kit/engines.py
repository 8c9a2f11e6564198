"""Podman, buildah and docker, each with temporary storage."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from tests.kit.requirements import require


class Engine:
    """The command line of ``podman`` or ``buildah`` with the vfs driver and temporary storage; a context manager.

    ``insecure`` are registries (host:port) to access with plain HTTP.
    """

    def __init__(self, name: str, *insecure: str) -> None:
        self.program = require(name)
        self._insecure = insecure

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="opmkit-engine-", ignore_cleanup_errors=True)
        root = self.path
        entries = "".join(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n' for host in self._insecure)
        (root / "registries.conf").write_text(entries)
        (root / "storage.conf").write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{root}/storage"\nrunroot = "{root}/run"\n'
        )
        self.settings = {
            "CONTAINERS_REGISTRIES_CONF": str(root / "registries.conf"),
            "CONTAINERS_STORAGE_CONF": str(root / "storage.conf"),
            "STORAGE_DRIVER": "vfs",
        }
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.cleanup()

    @property
    def path(self) -> Path:
        return Path(self._directory.name)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the test with those of the engine."""
        return {**os.environ, **self.settings, "TMPDIR": str(self.path)}

    def run(self, *arguments: str) -> str:
        """Run the tool and return its standard output; raise RuntimeError with its error text on failure."""
        return _run([self.program, *arguments], self.environment)


class DockerDaemon(Engine):
    """A temporary dockerd; :meth:`run` runs the docker client."""

    def __init__(self) -> None:
        super().__init__("docker")
        self._daemon = require("dockerd")

    def __enter__(self) -> Self:
        super().__enter__()
        root = self.path
        self.url = f"unix://{root}/docker.sock"
        self.settings |= {"DOCKER_HOST": self.url, "DOCKER_BUILDKIT": "0"}
        options = ["--storage-driver=vfs", "--iptables=false", "--bridge=none", f"--pidfile={root}/pid"]
        with (root / "dockerd.log").open("wb") as log:
            self._process = subprocess.Popen(
                [self._daemon, *options, f"--data-root={root}/data", f"--exec-root={root}/exec", "-H", self.url],
                stdout=log,
                stderr=log,
            )
        self._await()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)
        super().__exit__()

    def _await(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                self.run("version")
            except RuntimeError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = (self.path / "dockerd.log").read_text()
                    self.__exit__()
                    raise RuntimeError(f"dockerd did not start: {log}") from error
                time.sleep(0.1)
            else:
                return


def _run(command: list[str], environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


def skopeo(*arguments: str) -> str:
    """Run skopeo, as an independent check of images that opmkit wrote."""
    return _run([require("skopeo"), *arguments])
