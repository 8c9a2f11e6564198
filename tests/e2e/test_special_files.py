"""Pipes, sockets and devices in directories do not stop commands, and no more of a file is read than its limit."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from typing import TYPE_CHECKING

import pytest

from tests.kit.forkserver import Command
from tests.kit.opm import FIXTURES, LAGOON

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.forkserver import ForkServer
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

GIBIBYTE = 1 << 30


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(path.parent):  # an address is short
        server.bind(path.name)


def link_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


KINDS: dict[str, Callable[[Path], None]] = {"pipe": os.mkfifo, "socket": bind_socket, "device": link_device}
REJECTED = (
    "bundle generate -d bundle/manifests -p lagoon -c alpha -u out",
    "bundle build -d bundle/manifests -p lagoon-operator -c alpha -t x:1",
    "bundle unpack ./bundle -o out",
    "bundle validate bundle",
    "bundle generate -d bundle/manifests -p lagoon-operator -c alpha",
    "generate bundle --input-dir bundle --version 0.1.0 --package lagoon-operator",
    "render ./bundle",
    "registry add -d index.db -b ./bundle",
    "index add -b ./bundle -f ./catalog -t x:1 --dry-run",
)
IGNORED = (
    "validate catalog",
    "index build catalog -t x:1 --dry-run",
)


@pytest.fixture
def site(opm: Opm, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with a bundle and a catalog."""
    monkeypatch.chdir(opm.directory)
    shutil.copytree(LAGOON / "0.1.0", "bundle")
    shutil.copytree(FIXTURES / "catalogs/valid", "catalog")
    return opm.directory


def add_special_files(root: Path, kind: str) -> None:
    for directory, _, _ in list(os.walk(root)):
        KINDS[kind](root / directory / "pipe.yaml")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", REJECTED)
def test_special_files_cannot_be_part_of_a_bundle(opm: Opm, site: Path, command: str, kind: str) -> None:
    add_special_files(site, kind)
    done = opm.attempt(*command.split())
    assert done.returncode == 1
    problem = "refusing to follow a symbolic link" if kind == "device" else "not a regular file"
    assert f"pipe.yaml: {problem}" in done.stdout + done.stderr


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", IGNORED)
def test_special_files_are_ignored(opm: Opm, site: Path, command: str, kind: str) -> None:
    add_special_files(site, kind)
    opm(*command.split())


@pytest.mark.parametrize("kind", KINDS)
def test_special_files_in_a_go_project_are_ignored(opm: Opm, kind: str) -> None:
    project = opm.directory / "project"
    shutil.copytree(FIXTURES / "dock-operator", project)
    for directory, _, _ in list(os.walk(project)):
        KINDS[kind](project / directory / "pipe.go")
    done = opm.attempt("generate", "kustomize", "manifests", "--interactive=false")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("bundle validate bundle", ".opm-validate.yaml"),
        ("bundle validate bundle --config file", "file"),
        ("bundle validate bundle --baseline file", "file"),
        ("bundle validate @file", "file"),
        ("bundle pin bundle --replacements file", "file"),
        ("report merge file", "file"),
        ("render example.com/a:1 --executor processes:1 --executor-credentials file", "file"),
        ("index manifests example.com/catalog:1 --pod-config file", "file"),
        ("olm status --kubeconfig file", "file"),
        ("catalog list packages --address localhost:1 --ca-file file", "file"),
        ("serve catalog --tls-cert file --tls-key file", "file"),
    ],
)
def test_huge_files_are_rejected_without_reading_them(
    forkserver: ForkServer, site: Path, command: str, name: str
) -> None:
    with (site / name).open("wb") as file:
        file.truncate(3 * GIBIBYTE)
    (done,) = forkserver.run([Command(command.split(), {"CONTAINERS_REGISTRIES_CONF": "/dev/null"}, site)])
    assert done.status == 1
    assert f"{name}: larger than " in done.stderr
    assert done.memory < GIBIBYTE + GIBIBYTE // 2


def test_huge_credentials_file_is_rejected(opm_http: Opm, basic_registry: Registry) -> None:
    with (opm_http.directory / "auth.json").open("wb") as file:
        file.truncate(3 * GIBIBYTE)
    done = opm_http.attempt("bundle", "validate", f"{basic_registry.host}/a:1", "--authfile", "auth.json")
    assert (done.returncode, "auth.json: larger than " in done.stderr) == (1, True)


def test_settings_can_come_from_a_pipe(opm: Opm, site: Path) -> None:
    os.mkfifo(site / "policy")
    if not os.fork():
        (site / "policy").write_text("ignore: [{rule: ICON, reason: later}]\n")
        os._exit(0)
    done = opm.attempt("bundle", "validate", "bundle", "--config", "policy")
    assert "policy:1:" in done.stderr
