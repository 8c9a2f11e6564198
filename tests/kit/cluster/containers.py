"""Containers of simulated pods: processes of this machine with the volumes of their pod."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import opmkit
from tests.kit.opm import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.kit.cluster.client import Object

GRPC_PORT = 50051
_PROGRAMS = ("opm", "initializer", "registry-server", "configmap-server")
_OPM_COMMANDS = ("serve", "registry", "alpha")
_SHELLS = ("sh", "bash")
_PROGRAM_PATH = re.compile(rf"(?<![\w./-])/(?:usr/)?bin/({'|'.join(_PROGRAMS)})\b")
_HOST_DIRECTORIES = [f"/{path.name}" for path in Path("/").iterdir() if path.is_dir()]
_PRIVATE = ("/dev", "/root", "/run", "/tmp")
_DEVICES = ("null", "zero", "full", "random", "urandom")
TERMINATION_LOG = "/dev/termination-log"


@dataclass(frozen=True)
class Mount:
    """A file or directory and its path in the container."""

    source: Path
    target: str


def local_command(container: Object, port: int) -> list[str]:
    """Return the command line of a container that runs opmkit, [] for other programs.

    Args:
        container: The container in the pod.
        port: Port to use instead of the gRPC port.
    """
    command = list(map(str, [*container.get("command", []), *container.get("args", [])]))
    if not container.get("command") and command and command[0] in _OPM_COMMANDS:
        command = ["opm", *command]  # the entry point of the image
    if not command:
        return []
    name = PurePosixPath(command[0]).name
    if name in _SHELLS:
        script = _PROGRAM_PATH.sub(lambda match: match[1], command[-1])
        if not re.search(rf"\b({'|'.join(_PROGRAMS)}|gzip|cp)\b", script):
            return []
        return ["bash", *command[1:-1], _with_port(script, port)]
    if name not in _PROGRAMS:
        return []
    arguments = [_with_port(each, port) for each in command[1:]]
    if arguments == command[1:] and "serve" in arguments:
        arguments += ["--port", str(port)]
    return [name, *arguments]


def environment(container: Object, more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a container; only literal values are set."""
    declared = {each["name"]: str(each.get("value", "")) for each in container.get("env", [])}
    path = f"{PROGRAM.parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    return {"PATH": path, "HOME": "/root", "LANG": "C.UTF-8", "TMPDIR": "/tmp", **more, **declared}


def start(
    argv: Sequence[str],
    mounts: Sequence[Mount],
    *,
    root: Path,
    log: Path,
    env: Mapping[str, str],
    directory: str = "/",
) -> subprocess.Popen[bytes]:
    """Start a process with an empty ``/tmp``, ``/run`` and ``/root``, and the volumes of a container.

    Other directories and the network are those of this machine.
    """
    root.mkdir(exist_ok=True)
    script = _script(argv, mounts, root, directory or "/")
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    with log.open("ab") as output:
        return subprocess.Popen(
            [*_bound_to_parent(), "unshare", *user, "--mount", "--propagation", "private", "sh", "-euc", script],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(env),
            start_new_session=True,
        )


def _script(argv: Sequence[str], mounts: Sequence[Mount], root: Path, directory: str) -> str:
    lines = [f"mount -t tmpfs tmpfs {_quote(root)}"]
    for host in sorted({*_HOST_DIRECTORIES} - {*_PRIVATE}):
        if Path(host).is_symlink():
            lines.append(f"ln -s {_quote(Path(host).readlink())} {_quote(f'{root}{host}')}")
        else:
            lines += [f"mkdir {_quote(f'{root}{host}')}", f"mount --rbind {_quote(host)} {_quote(f'{root}{host}')}"]
    lines += [f"mkdir {_quote(f'{root}{private}')}" for private in _PRIVATE]
    lines.append(f"ln -s /proc/self/fd {_quote(f'{root}/dev/fd')}; mkdir {_quote(f'{root}/dev/shm')}")
    devices = [Mount(Path("/dev", name), f"/dev/{name}") for name in _DEVICES]
    for each in [*devices, *_installation(), *mounts]:
        target = f"{root}{each.target.replace('/var/run/', '/run/', 1)}"
        parent = Path(target) if each.source.is_dir() else Path(target).parent
        lines.append(f"mkdir -p {_quote(parent)}")
        if not each.source.is_dir():
            lines.append(f"touch {_quote(target)}")
        lines.append(f"mount --bind {_quote(each.source)} {_quote(target)}")
    inside = f"mkdir -p {_quote(directory)}; cd {_quote(directory)}; exec {shlex.join(argv)}"
    lines.append(f"exec chroot {_quote(root)} sh -euc {_quote(inside)}")
    return "\n".join(lines)


def _installation() -> list[Mount]:
    """Return the directories of the project and of Python that are not visible in a container."""
    needed = {Path(opmkit.__file__).parents[1], Path(sys.prefix), Path(sys.base_prefix)}
    hidden = [path for path in needed if str(path).startswith(tuple(f"{each}/" for each in _PRIVATE))]
    return [Mount(path, str(path)) for path in sorted(hidden)]


def _bound_to_parent() -> list[str]:
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


def _with_port(text: str, port: int) -> str:
    return re.sub(rf"\b{GRPC_PORT}\b", str(port), text)


def _quote(text: Any) -> str:
    return shlex.quote(str(text))
