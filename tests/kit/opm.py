"""Run the installed ``opm`` command."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opmkit.cli.main import build_app, run_app
from tests.kit.forkserver import Command

if TYPE_CHECKING:
    from tests.kit.forkserver import ForkServer

PROGRAM = Path(sys.executable).with_name("opm")
FIXTURES = Path(__file__).parents[2] / "fixtures"
LAGOON = FIXTURES / "lagoon-operator"


def run(arguments: list[str]) -> int:
    """Run a command line in this process and return its exit status."""
    return run_app(all_commands(), "opm", arguments)


@cache
def all_commands() -> Any:
    """Return the root command with all commands imported, built once per test run because that takes long."""
    return build_app()


@dataclass(frozen=True)
class Opm:
    """The command, run in ``directory`` with ``flags`` appended to every command line.

    Forking from a ``forkserver`` is quicker than starting Python and loading the program.
    """

    directory: Path
    flags: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    forkserver: ForkServer | None = None

    def argv(self, *arguments: str) -> list[str]:
        return [str(PROGRAM), *arguments, *self.flags]

    def attempt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command and return its result, whether it succeeds or fails."""
        argv = self.argv(*arguments)
        if self.forkserver is not None:
            (done,) = self.forkserver.run([Command(argv[1:], self.env, self.directory)])
            return subprocess.CompletedProcess(argv, done.status, done.stdout, done.stderr)
        return subprocess.run(
            argv,
            cwd=self.directory,
            capture_output=True,
            text=True,
            env={**os.environ, **self.env},
            timeout=120,
            check=False,
        )

    def __call__(self, *arguments: str) -> str:
        """Run a command that must succeed and return its stdout."""
        done = self.attempt(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def here(self, *arguments: str) -> str:
        """Run a command that must succeed in this process, which is quicker, and return its stdout."""
        with io.TextIOWrapper(io.BytesIO(), write_through=True) as output, contextlib.redirect_stdout(output):
            assert run([*arguments, *self.flags]) == 0
            return output.buffer.getvalue().decode()

    def build_bundle(self, version: str, tag: str, *more: str) -> str:
        """Build a version of the sample operator's bundle."""
        return self(
            *("bundle", "build", "--directory", str(LAGOON / version / "manifests"), "--package", "lagoon-operator"),
            *("--channels", "alpha,stable", "--default", "stable", "--output-dir", f"bundle-{version}"),
            *("--tag", tag, *more),
        )
