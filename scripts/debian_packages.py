"""Download and unpack Python for another platform from the Debian mirrors of this machine, and wheels for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from image_sources import HOME, UnpackedSource

from opmkit.core.errors import OpmkitError

if TYPE_CHECKING:
    from opmkit.imagetools.spec import Platform

PACKAGES = ("python3-minimal", "libpython3-stdlib", "libstdc++6")
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
WHEELS = "manylinux_2_34"
"""The platform tag of the wheels, for the C library of Debian 12 and Ubuntu 22.04 or newer."""
LOCK = Path(__file__).parents[1] / "requirements.lock"


def download(platform: Platform, scratch: Path) -> UnpackedSource:
    """Return Python and the locked packages for a platform, in ``scratch``; raises OpmkitError."""
    machine = MACHINES.get(platform.architecture)
    if machine is None or platform.os != "linux":
        raise OpmkitError(f"{platform}: unsupported platform", hint="use linux/amd64 or linux/arm64")
    root, packages = scratch / "debian" / "root", scratch / "debian" / "packages"
    version = unpack_debian(platform.architecture, root.parent, root)
    minor = ".".join(version.split(".")[:2])
    running = "{}.{}".format(*sys.version_info)
    if minor != running:
        raise OpmkitError(
            f"{platform}: the Python of the distribution is {minor}, but this is {running}",
            hint=f"create the environment with Python {minor}",
        )
    install_wheels(machine, minor, packages)
    library = root / "usr" / "lib" / f"python{minor}"
    modules = HOME / "lib" / library.name / "dist-packages"
    interpreter = root / "usr" / "bin" / library.name
    return UnpackedSource(platform, interpreter, library, modules, version, root, packages, machine)


def unpack_debian(architecture: str, scratch: Path, root: Path) -> str:
    """Unpack Python for an architecture with its shared libraries, and return its version."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (scratch / "apt" / name).mkdir(parents=True)
    options = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "",
        "Dir::State": scratch / "apt" / "state",
        "Dir::State::status": os.devnull,
        "Dir::Cache": scratch / "apt" / "cache",
    }
    apt = ["apt-get", "-qq", *(part for name, value in options.items() for part in ("-o", f"{name}={value}"))]
    _run([*apt, "update"])
    _run([*apt, "install", "--yes", "--no-install-recommends", "--download-only", *PACKAGES])
    archives = sorted((scratch / "apt" / "cache" / "archives").glob("*.deb"))
    for archive in archives:
        _run(["dpkg-deb", "--extract", str(archive), str(root)])
    [version] = [each.name.split("_")[1] for each in archives if each.name.startswith("libpython3-stdlib_")]
    return version.partition("-")[0]


def install_wheels(machine: str, version: str, packages: Path) -> None:
    """Install the locked packages for a machine, from wheels only."""
    uv = str(Path(sys.executable).with_name("uv"))
    target = ["--python-platform", f"{machine}-{WHEELS}", "--python-version", version, "--target", str(packages)]
    checks = ["--only-binary", ":all:", "--require-hashes", "--requirements", str(LOCK)]
    _run([uv, "pip", "install", "--quiet", "--system-certs", *target, *checks])


def _run(arguments: list[str]) -> None:
    try:
        done = subprocess.run(arguments, stdout=sys.stderr, check=False)
    except FileNotFoundError:
        raise OpmkitError(
            f"{arguments[0]}: not found", hint="images of other platforms require Debian or Ubuntu"
        ) from None
    if done.returncode:
        raise OpmkitError(f"{arguments[0]}: exited with {done.returncode}")
