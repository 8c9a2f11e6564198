"""The installed ``opm`` command as users run it."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from opmkit.cli.main import run

PROGRAM = Path(sys.executable).with_name("opm")
FIXTURES = Path(__file__).parents[2] / "fixtures"
LAGOON = FIXTURES / "lagoon-operator"


@dataclass(frozen=True)
class Opm:
    """The command, run in ``directory``; ``flags`` go on every command line."""

    directory: Path
    flags: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)

    def argv(self, *arguments: str) -> list[str]:
        return [str(PROGRAM), *arguments, *self.flags]

    def attempt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run to the end, whatever it is."""
        return subprocess.run(
            self.argv(*arguments),
            cwd=self.directory,
            capture_output=True,
            text=True,
            env={**os.environ, **self.env},
            timeout=120,
            check=False,
        )

    def __call__(self, *arguments: str) -> str:
        """Run, and give what came on stdout; anything but success fails the test."""
        done = self.attempt(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def here(self, *arguments: str) -> str:
        """Run in this process, which is quicker, and give what came on stdout; anything but success fails the test."""
        with io.TextIOWrapper(io.BytesIO(), write_through=True) as output, contextlib.redirect_stdout(output):
            assert run([*arguments, *self.flags]) == 0
            return cast("io.BytesIO", output.buffer).getvalue().decode()

    def build_bundle(self, version: str, tag: str, *more: str) -> str:
        """Build the sample operator's bundle of a version."""
        return self(
            *("bundle", "build", "--directory", str(LAGOON / version / "manifests"), "--package", "lagoon-operator"),
            *("--channels", "alpha,stable", "--default", "stable", "--output-dir", f"bundle-{version}"),
            *("--tag", tag, *more),
        )
