"""Skip or fail tests whose programs are not installed."""

from __future__ import annotations

import os
import shutil

import pytest

# Names in OPMKIT_REQUIRE that differ from those of their programs.
_PROGRAMS = {"registry": ("docker-registry",), "docker": ("docker", "dockerd")}


def require(name: str) -> str:
    """Return the path of an executable.

    If it is not installed, skip the test, or fail it if the comma-separated ``OPMKIT_REQUIRE`` contains its name
    (``registry`` for docker-registry, ``docker`` for the client and the daemon).
    """
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is not None:
        return path
    if name in _required():
        pytest.fail(f"{name} is not installed, but OPMKIT_REQUIRE contains it")
    pytest.skip(f"{name} is not installed")


def _required() -> set[str]:
    names = os.environ.get("OPMKIT_REQUIRE", "").split(",")
    return {program for name in names for program in _PROGRAMS.get(name.strip(), (name.strip(),))}
