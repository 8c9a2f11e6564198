"""Connections to podman services."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.engines.podman import PodmanService
from opmkit.imagetools.errors import EngineError, EngineUnavailable, RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryOptions
from tests.imagetools.engines.helpers import open_engine
from tests.kit.requirements import require

if TYPE_CHECKING:
    from tests.kit.engines import Engine


def assert_connects(container_storage: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a pull fails in the engine, not when connecting to it."""
    for key, value in container_storage.settings.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(RegistryUnavailable):
        open_engine("podman", RegistryOptions()).inspect(Reference("127.0.0.1:1", "nothing", "1"))


@pytest.fixture
def service(container_storage: Engine) -> PodmanService:
    return PodmanService(require("podman"), container_storage.environment)


def test_container_host(service: PodmanService, container_storage: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTAINER_HOST", service.url)
    monkeypatch.setenv("PATH", "/nowhere")  # no service can be started
    assert_connects(container_storage, monkeypatch)


def test_socket_of_a_user(
    service: PodmanService, container_storage: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "podman").mkdir()
    (tmp_path / "podman" / "podman.sock").symlink_to(service.url.removeprefix("unix://"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    assert_connects(container_storage, monkeypatch)


def test_started_service_ends_with_its_process(container_storage: Engine) -> None:
    script = (
        "import os\n"
        "from opmkit.imagetools.engines.podman import connect\n"
        "client = connect(os.environ)\n"
        "assert client.ping()\n"
        "print(client._service._process.pid)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=container_storage.environment,
        check=True,
    )
    assert not Path("/proc", done.stdout.strip()).exists()
    assert not list(container_storage.path.glob("opm-podman-*"))


def test_no_service_is_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineUnavailable, match="podman not found in PATH") as caught:
        open_engine("podman", RegistryOptions()).inspect(Reference.parse("x"))
    assert "CONTAINER_HOST" in str(caught.value.hint)
    monkeypatch.setenv("CONTAINER_HOST", "unix:///nowhere/podman.sock")
    with pytest.raises(EngineUnavailable, match=r"tried unix:///nowhere/podman\.sock"):
        open_engine("podman", RegistryOptions()).inspect(Reference.parse("x"))


def test_stopped_service(service: PodmanService, container_storage: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTAINER_HOST", service.url)
    assert_connects(container_storage, monkeypatch)
    tool = open_engine("podman", RegistryOptions())
    with pytest.raises(RegistryUnavailable):
        tool.inspect(Reference("127.0.0.1:1", "nothing", "1"))
    service.stop()
    with pytest.raises(EngineError, match="no response from the service: no such file or directory"):
        tool.inspect(Reference("127.0.0.1:1", "nothing", "1"))


def test_service_that_does_not_start(tmp_path: Path) -> None:
    broken = tmp_path / "podman"
    broken.write_text("#!/bin/sh\necho 'no space for podman' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(EngineUnavailable, match="did not start: no space for podman"):
        PodmanService(str(broken), os.environ)
