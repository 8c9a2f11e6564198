"""Files of a malicious checkout: modules and programs that leave a mark when they are imported or run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAMS = (
    *("git", "helm", "kubectl", "docker", "podman", "buildah", "skopeo", "ssh", "sh", "env", "opm", "tar"),
    *("python", "python3", "pip", "docker-credential-trap", "kube-trap", "ext-trap"),
)
RULES = "opmkit.rules"
"""Group of the entry points of modules with rules."""


@dataclass(frozen=True)
class Traps:
    """The names of the modules and programs in ``directory`` that were run are in the file ``log``."""

    directory: Path
    log: Path

    @classmethod
    def add(cls, directory: Path, packages: Path, log: Path) -> Traps:
        """Add a module for each of the standard library and of ``packages``, and a program for each in `PROGRAMS`."""
        log.touch()
        for name in _modules(packages):
            code = f"open({str(log)!r}, 'a').write({name!r} + chr(10))\n"
            (directory / f"{name}.py").write_text(code)
        for name in PROGRAMS:
            path = directory / name
            path.write_text(f"#!/bin/sh\necho {name} >> {log}\nexit 1\n")
            path.chmod(0o755)
        distribution = directory / "trap-1.0.dist-info"
        distribution.mkdir()
        (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: trap\nVersion: 1.0\n")
        (distribution / "entry_points.txt").write_text(f"[{RULES}]\ntrap = trap_rules\n")
        return cls(directory, log)

    def add_requirement(self, requirement: str) -> None:
        """Add a package to the path that a requirement has if it is read as one."""
        package = self.directory / requirement
        package.mkdir(parents=True)
        code = f"open({str(self.log)!r}, 'a').write('setup' + chr(10))\nraise SystemExit(1)\n"
        (package / "setup.py").write_text(code)

    def sprung(self) -> set[str]:
        """Return the names of the modules and programs that were run since the last call."""
        names = set(self.log.read_text().split())
        self.log.write_text("")
        return names


def _modules(packages: Path) -> Iterator[str]:
    installed = {path.name.partition(".")[0] for path in packages.iterdir() if not path.name.endswith("-info")}
    names = {*sys.stdlib_module_names, *installed, "opmkit", "trap_rules", "sitecustomize", "usercustomize"}
    return iter(sorted(name for name in names if name.isidentifier() and name != "__pycache__"))
