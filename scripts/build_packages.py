"""Build the source distribution and, from it, the wheel, with manual pages, and check both.

Equal source trees result in equal packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from man_pages import contents

from opmkit.cli.main import run_app
from opmkit.cli.output.console import print_line
from opmkit.cli.parser.registration import add_command
from opmkit.core.errors import OpmkitError

ROOT = Path(__file__).parents[1]
MANUAL = "OPMKIT_MANUAL"
"""Variable with the directory of the manual pages, which the build hook reads."""


def build(
    directory: Annotated[Path, typer.Argument(metavar="[DIR]", help="Directory to write the packages to")] = Path(
        "dist"
    ),
) -> None:
    """Build the wheel and the source distribution, and check them

    [bold]Example:[/] scripts/build-packages dist
    """
    if list(directory.glob("opmkit-*")):
        raise OpmkitError(f"{directory}: already contains packages", hint="remove them")
    with tempfile.TemporaryDirectory(prefix="opmkit-packages-") as scratch:
        packages = build_packages(Path(scratch))
        check(packages)
        directory.mkdir(parents=True, exist_ok=True)
        for package in packages:
            print_line(str(shutil.move(package, directory)))


def build_packages(scratch: Path) -> list[Path]:
    """Return the packages: the source distribution, and the wheel that packagers would build from it."""
    manual, results = scratch / "man", scratch / "packages"
    version = run(["-m", "hatchling", "version"], ROOT, stdout=subprocess.PIPE).strip()
    manual.mkdir()
    for name, text in contents(version).items():
        (manual / name).write_text(text, encoding="utf-8")
    run(["-m", "hatchling", "build", "--target", "sdist", "--directory", str(results)], ROOT, manual)
    [source] = results.iterdir()
    with tarfile.open(source) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian 12's Python has none
        archive.extractall(scratch / "source")  # noqa: S202 - written by this script
    [tree] = (scratch / "source").iterdir()
    run(["-m", "hatchling", "build", "--target", "wheel", "--directory", str(results)], tree)
    return sorted(results.iterdir())


def check(packages: list[Path]) -> None:
    """Raise OpmkitError if a package index would reject a package, or if it contains misplaced files."""
    wheels = [str(each) for each in packages if each.suffix == ".whl"]
    run(["-m", "twine", "check", "--strict", *map(str, packages)], ROOT)
    run(["-m", "check_wheel_contents", *wheels], ROOT)


def run(arguments: list[str], directory: Path, manual: Path | None = None, stdout: int | None = None) -> str:
    """Run a module with this interpreter and return its stdout if it is a pipe; raises OpmkitError."""
    environment = {**os.environ, **({MANUAL: str(manual)} if manual else {})}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env=environment,
        stdout=stdout or sys.stderr.fileno(),
        text=True,
        check=False,
    )
    if done.returncode:
        raise OpmkitError(f"{arguments[1]}: exited with {done.returncode}")
    return done.stdout or ""


if __name__ == "__main__":
    app = typer.Typer(add_completion=False)
    add_command(app, "build-packages", build)
    sys.exit(run_app(app, "scripts/build-packages", sys.argv[1:]))
