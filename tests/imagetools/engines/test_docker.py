"""Connections to docker daemons."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.credentials import Credentials
from opmkit.imagetools.engines.docker import connect
from opmkit.imagetools.engines.docker_program import DockerProgram
from opmkit.imagetools.errors import EngineUnavailable, NotFound, RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryOptions
from tests.imagetools.engines.helpers import BUILD_SPEC, open_engine
from tests.kit.bundles import push_image
from tests.kit.images import small_image

if TYPE_CHECKING:
    from tests.kit.engines import Engine
    from tests.kit.registry import Registry


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
    monkeypatch.setenv("PATH", str(tmp_path))  # without the program docker
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


@pytest.fixture
def podman_as_docker(
    container_storage: Engine, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Put podman in PATH as the program docker, as podman-docker does, and return its log of command lines."""
    log = tmp_path / "log"
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/docker"
    program.write_text(f'#!/bin/sh\necho "$@" >>{log}\nexec {container_storage.program} "$@"\n')
    program.chmod(0o755)
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    settings = tmp_path / "registries.conf"
    settings.write_text(f'[[registry]]\nlocation = "{registry.host}"\ninsecure = true\n')
    for name, value in {**container_storage.settings, "CONTAINERS_REGISTRIES_CONF": str(settings)}.items():
        monkeypatch.setenv(name, value)
    return log


def test_a_program_without_a_daemon(podman_as_docker: Path, registry: Registry, tmp_path: Path) -> None:
    if Path("/var/run/docker.sock").exists():
        pytest.skip("a docker daemon is running")
    image = small_image(tmp_path, {"database/index.db": b"content", "other": b""}, labels={"a": "b"})
    name = f"{registry.host}/program/base:1"
    push_image(name, image)
    tool = open_engine("docker", RegistryOptions())
    base = Reference.parse(name)
    assert tool.inspect(base).labels == {"a": "b"}
    assert tool.read_tree(base, ["database", "absent"]) == {"database/index.db": b"content"}
    built = Reference.parse(f"{registry.host}/program/built:1")
    digest = tool.build(BUILD_SPEC, base, [built], push=True)
    assert digest.startswith("sha256:")
    assert tool.registry_digest(built) == digest
    with pytest.raises(NotFound, match=r"program/absent:1: .*docker: .*"):
        tool.inspect(Reference.parse(f"{registry.host}/program/absent:1"))
    commands = {line.partition(" ")[0] for line in podman_as_docker.read_text().splitlines()}
    assert commands >= {"pull", "image", "create", "cp", "rm", "build", "push"}


def test_credentials_are_passed_to_a_program_in_a_file(tmp_path: Path) -> None:
    program = tmp_path / "docker"
    program.write_text('#!/bin/sh\n[ "$1" = pull ] && cat "$DOCKER_CONFIG/config.json" "$REGISTRY_AUTH_FILE" >"$LOG"\n')
    program.chmod(0o755)
    engine = DockerProgram(str(program), {**os.environ, "LOG": str(tmp_path / "log")})
    engine.pull("quay.io/me/x:1", Credentials("me", "secret"))
    entry = '{"auths": {"quay.io": {"auth": "bWU6c2VjcmV0"}}}'
    assert (tmp_path / "log").read_text() == entry * 2


def test_a_program_whose_daemon_does_not_run(tmp_path: Path) -> None:
    program = tmp_path / "docker"
    program.write_text(
        "#!/bin/sh\necho 'Cannot connect to the Docker daemon at unix:///x. Is it running?' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    with pytest.raises(EngineUnavailable, match=r"^docker: Cannot connect to the Docker daemon at unix:///x") as raised:
        DockerProgram(str(program)).find("x:1")
    assert "start the daemon" in str(raised.value.hint)
