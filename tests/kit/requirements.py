"""Programs that some tests need: a test without them is skipped with the reason, or fails where they must be there."""

from __future__ import annotations

import os
import shutil

import pytest

# What a name in OPMKIT_REQUIRE stands for, where it isn't the name of the program itself.
_PROGRAMS = {"registry": ("docker-registry",), "docker": ("docker", "dockerd")}


def require(name: str) -> str:
    """The path of the executable ``name``.

    Where it is not installed the test is skipped, or fails if the comma-separated ``OPMKIT_REQUIRE`` names it
    (``registry`` stands for docker-registry, ``docker`` for the client and the daemon).
    """
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is not None:
        return path
    if name in _required():
        pytest.fail(f"{name} is not installed, and OPMKIT_REQUIRE demands it")
    pytest.skip(f"{name} is not installed")


def _required() -> set[str]:
    names = os.environ.get("OPMKIT_REQUIRE", "").split(",")
    return {program for name in names for program in _PROGRAMS.get(name.strip(), (name.strip(),))}
