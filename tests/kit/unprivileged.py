"""A user whom this machine does not know, who may write nothing but a directory for temporary files."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

import pytest

from tests.kit.opm import PROGRAM
from tests.kit.requirements import require

UID = 12345
_UNPRIVILEGED = ("--reuid", str(UID), "--regid", "0", "--clear-groups")
_READING_ALL = tuple(f"--{which}=-all,+dac_read_search" for which in ("inh-caps", "ambient-caps", "bounding-set"))


@dataclass
class UnprivilegedUser:
    """Runs ``opm`` as a pod does whose user id was picked by chance, in a directory that can't be written.

    The group is root's, as OpenShift has it. ``home`` is the variable HOME, None to have none.
    """

    home: str | None = None

    def __enter__(self) -> Self:
        if os.getuid():
            pytest.skip("only root may start processes of other users")
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
        """The one directory that may be written."""
        return self.path / "tmp"

    @property
    def working(self) -> Path:
        """The directory where commands run."""
        return self.path / "work"

    def attempt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``opm`` to the end, whatever it is."""
        return self._run([*_becoming(), str(PROGRAM), *arguments])

    def __call__(self, *arguments: str) -> str:
        """Run ``opm``, and give what came on stdout; anything but success fails the test."""
        done = self.attempt(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _run(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.defpath, "TMPDIR": str(self.temporary), **({} if self.home is None else {"HOME": self.home})}
        return subprocess.run(argv, cwd=self.working, env=env, capture_output=True, text=True, timeout=120, check=False)


@cache
def _becoming() -> tuple[str, ...]:
    """The start of command lines; where the program lies in a place that is closed to others, it opens that."""
    become = (require("setpriv"), *_UNPRIVILEGED)
    argv = [*become, str(PROGRAM), "--version"]
    closed = subprocess.run(argv, cwd="/", env={"PATH": os.defpath}, capture_output=True, check=False).returncode
    return (*become, *_READING_ALL) if closed else become
