"""Connections to docker daemons."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.engines.docker import connect
from opmkit.imagetools.errors import EngineUnavailable, RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryOptions
from tests.imagetools.engines.helpers import BUILD_SPEC, open_engine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.engines import Engine


@pytest.fixture(autouse=True)
def _own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
        (tmp_path / name.lower()).mkdir()


def assert_connects() -> None:
    """Check that a pull fails in the engine, not when connecting to it."""
    missing = Reference("127.0.0.1:1", "nothing", "1")
    with pytest.raises(RegistryUnavailable):
        open_engine("docker", RegistryOptions()).inspect(missing)


@pytest.mark.parametrize("socket", ["home/.docker/run/docker.sock", "xdg_runtime_dir/docker.sock"])
def test_sockets_of_a_user(socket: str, docker_daemon: Engine, tmp_path: Path) -> None:
    (tmp_path / socket).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / socket).symlink_to(docker_daemon.settings["DOCKER_HOST"].removeprefix("unix://"))
    assert_connects()


@pytest.mark.parametrize("source", ["config.json", "DOCKER_CONTEXT"])
def test_contexts(source: str, docker_daemon: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "home" / ".docker"
    meta = config / "contexts" / "meta" / hashlib.sha256(b"mine").hexdigest() / "meta.json"
    meta.parent.mkdir(parents=True)
    endpoint = {"Host": docker_daemon.settings["DOCKER_HOST"], "SkipTLSVerify": False}
    meta.write_text(json.dumps({"Name": "mine", "Metadata": {}, "Endpoints": {"docker": endpoint}}))
    (config / "config.json").write_text(
        json.dumps({"currentContext": "mine"} if source == "config.json" else {"auths": {}})
    )
    if source == "DOCKER_CONTEXT":
        monkeypatch.setenv("DOCKER_CONTEXT", "mine")
    assert_connects()


def test_missing_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", "gone")
    with pytest.raises(EngineUnavailable, match="docker context 'gone' not found"):
        open_engine("docker", RegistryOptions()).inspect(Reference.parse("x"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('"text"', "wrong types"),
        ('{"proxies": 1}', "wrong types"),
        ('{"auths": [1]}', "wrong types"),
        ('{"auths": {"quay.io": 1}}', "Invalid configuration for registry quay.io"),
        ('{"auths": {"quay.io": {"auth": "x"}}}', ".*base64"),
    ],
)
def test_invalid_configuration(
    content: str, problem: str, docker_daemon: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker_daemon.settings["DOCKER_HOST"])
    config = tmp_path / "home" / ".docker" / "config.json"
    config.parent.mkdir()
    config.write_text(content)
    with pytest.raises(EngineUnavailable, match=f"^docker configuration {config}: {problem}"):
        connect(os.environ)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"Name": "mine", "Metadata": {}, "Endpoints": {"docker": {"Host": [1]}}}', "Host is not a string"),
        ('{"Metadata": {}, "Endpoints": {"docker": {"Host": "tcp://x:1"}}}', "missing or invalid fields"),
        ('{"Name": "mine", "Metadata": {}, "Endpoints": "docker"}', "missing or invalid fields"),
        ("[]", "missing or invalid fields"),
        ('{"Name": 1,', "Expecting property name enclosed in double quotes: line 1 column 12"),
    ],
)
def test_invalid_context(content: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meta = tmp_path / "home" / ".docker" / "contexts" / "meta" / hashlib.sha256(b"mine").hexdigest() / "meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(content)
    (tmp_path / "home" / ".docker" / "config.json").write_text("{}")
    monkeypatch.setenv("DOCKER_CONTEXT", "mine")
    with pytest.raises(EngineUnavailable, match=f"^docker context 'mine': cannot be read: {meta}: {problem}"):
        connect(os.environ)


def test_no_daemon_is_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineUnavailable) as caught:
        open_engine("docker", RegistryOptions()).inspect(Reference.parse("x"))
    for socket in ("/var/run/docker.sock", f"{tmp_path}/home/.docker/run/docker.sock"):
        assert f"unix://{socket} (no such file or directory)" in caught.value.message
    assert "DOCKER_HOST" in str(caught.value.hint)
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(EngineUnavailable, match=r"tried tcp://127\.0\.0\.1:1 \(connection refused\)"):
        open_engine("docker", RegistryOptions()).inspect(Reference.parse("x"))


def test_tls_without_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path / "no-certificates"))
    with pytest.raises(EngineUnavailable, match=r"at tcp://127\.0\.0\.1:1: .*certificate"):
        open_engine("docker", RegistryOptions()).inspect(Reference.parse("x"))


def test_build_does_not_call_credential_helpers(
    docker_daemon: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker_daemon.settings["DOCKER_HOST"])
    (tmp_path / "home/.docker").mkdir()
    (tmp_path / "home/.docker/config.json").write_text(json.dumps({"credsStore": "spy"}))
    helper = tmp_path / "bin/docker-credential-spy"
    helper.parent.mkdir()
    helper.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\nexit 1\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:{os.environ['PATH']}")
    open_engine("docker", RegistryOptions()).build(BUILD_SPEC, None, [Reference("127.0.0.1:1", "helpers", "1")])
    assert not (tmp_path / "called").exists()
