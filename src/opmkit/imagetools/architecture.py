"""CPU architecture of this machine with Go's name, in a separate module because ``opm version`` imports little else."""

from __future__ import annotations

import os

_GOARCH = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv6l": "arm",
    "armv7l": "arm",
    "i386": "386",
    "i686": "386",
    "loongarch64": "loong64",
}


def host_architecture() -> str:
    """Return the architecture, such as ``amd64``."""
    machine = os.uname().machine.lower()
    return _GOARCH.get(machine, machine)
