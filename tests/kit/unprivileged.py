"""Run ``opm`` as a user id without an account and with write access to a temporary directory only."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Self

import pytest

from tests.kit.opm import PROGRAM
from tests.kit.requirements import require

UID = 12345
_UNPRIVILEGED = ("--reuid", str(UID), "--regid", "0", "--clear-groups")
_READ_ALL = tuple(f"--{which}=-all,+dac_read_search" for which in ("inh-caps", "ambient-caps", "bounding-set"))


@dataclass
class UnprivilegedUser:
    """A user with an arbitrary user id and the root group, as in pods on OpenShift, in a read-only directory.

    ``home`` is the value of HOME; None unsets it. ``env`` has further variables.
    """

    home: str | None = None
    env: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        if os.getuid():
            pytest.skip("only root can start processes of other users")
        require("setpriv")
        self._directory = tempfile.TemporaryDirectory(prefix="opmkit-unprivileged-")
        self.path = Path(self._directory.name)
        self.path.chmod(0o755)
        self.temporary.mkdir()
        self.temporary.chmod(stat.S_ISVTX | 0o777)
        self.working.mkdir(mode=0o555)
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.cleanup()

    @property
    def temporary(self) -> Path:
        """The only writable directory."""
        return self.path / "tmp"

    @property
    def working(self) -> Path:
        """The working directory of the commands."""
        return self.path / "work"

    def attempt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``opm`` and return its result, whether it succeeds or fails."""
        return self._run([*_switch_user(), str(PROGRAM), *arguments])

    def __call__(self, *arguments: str) -> str:
        """Run ``opm``, which must succeed, and return its stdout."""
        done = self.attempt(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _run(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.defpath, "TMPDIR": str(self.temporary), **self.env}
        if self.home is not None:
            env["HOME"] = self.home
        return subprocess.run(argv, cwd=self.working, env=env, capture_output=True, text=True, timeout=120, check=False)


@cache
def _switch_user() -> tuple[str, ...]:
    """Return the start of command lines, with read access to all files if the user could not run the program."""
    switch = (require("setpriv"), *_UNPRIVILEGED)
    argv = [*switch, str(PROGRAM), "--version"]
    denied = subprocess.run(argv, cwd="/", env={"PATH": os.defpath}, capture_output=True, check=False).returncode
    return (*switch, *_READ_ALL) if denied else switch
