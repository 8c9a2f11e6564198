"""The installed wheel in a new virtual environment, run with an empty HOME and a minimal environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def build_wheel(directory: Path) -> Path:
    """Build the project's wheel into ``directory`` and return its path."""
    _pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory), str(ROOT))
    (wheel,) = directory.glob("opmkit-*.whl")
    return wheel


def create_environment(directory: Path) -> Path:
    """Create a virtual environment with the wheel and the locked dependencies, and return its ``bin`` directory.

    If the environment has these dependencies already, only the wheel is installed.
    """
    lock, stamp = ROOT / "requirements.lock", directory / "requirements.lock"
    python = str(directory / "bin" / "python")
    if not stamp.exists() or stamp.read_bytes() != lock.read_bytes():
        venv.create(directory, with_pip=True, symlinks=True, clear=True)
        _install_locked(python, lock)
        shutil.copy(lock, stamp)
    with tempfile.TemporaryDirectory() as wheels:
        _pip(python, "install", "--no-deps", "--force-reinstall", str(build_wheel(Path(wheels))))
    return directory / "bin"


def _install_locked(python: str, lock: Path) -> None:
    """Install the locked dependencies with uv, which is quicker than pip, where it is installed and succeeds."""
    uv = Path(sys.executable).with_name("uv")
    options = ("--quiet", "--system-certs", "--python", python, "--require-hashes", "-r", str(lock))
    if not uv.exists() or subprocess.run([uv, "pip", "install", *options], check=False).returncode:
        _pip(python, "install", "--no-compile", "--require-hashes", "-r", str(lock))


def _pip(python: str, *arguments: str) -> None:
    argv = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=280)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr}")


@dataclass(frozen=True)
class InstalledOpm:
    """The installed commands of a user who works in ``directory`` and has an empty ``home``."""

    bin: Path
    home: Path
    directory: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def site_packages(self) -> Path:
        """The directory of the installed packages."""
        (directory,) = self.bin.parent.glob("lib/python*/site-packages")
        return directory

    @property
    def environment(self) -> dict[str, str]:
        """The complete environment of a command, without variables of the test run."""
        plain = {"PATH": f"{self.bin}:{SYSTEM_PATH}", "HOME": str(self.home), "LANG": "C.UTF-8", "TERM": "dumb"}
        return {**plain, **self.env}

    def with_env(self, **variables: str) -> InstalledOpm:
        """Return the same user with further environment variables."""
        return replace(self, env={**self.env, **variables})

    def start(self, *arguments: str, program: str = "opm", **settings: object) -> subprocess.Popen[str]:
        """Start a command; ``settings`` go to Popen."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        options = {"cwd": self.directory, "env": self.environment, "text": True, **streams, **settings}
        return subprocess.Popen([str(self.bin / program), *arguments], **options)  # type: ignore[call-overload,no-any-return]

    def attempt(
        self, *arguments: str, program: str = "opm", stdin: str = "", timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a command and return its result, whether it succeeds or fails."""
        return self.shell_out([str(self.bin / program), *arguments], stdin=stdin, timeout=timeout)

    def shell_out(
        self, argv: Sequence[str], *, stdin: str = "", timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run another program (a shell, podman) as this user."""
        return subprocess.run(
            argv,
            cwd=self.directory,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def __call__(self, *arguments: str, program: str = "opm") -> str:
        """Run a command that must succeed and return its stdout."""
        done = self.attempt(*arguments, program=program)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout
