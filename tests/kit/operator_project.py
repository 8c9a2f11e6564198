"""A copy of the sample operator project, with the tools that its Makefile would download."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.kit.opm import FIXTURES, PROGRAM
from tests.kit.requirements import require

if TYPE_CHECKING:
    from pathlib import Path

HARBOR = FIXTURES / "harbor-operator"
_CONTROLLER_GEN = "#!/bin/sh\n# The generated manifests are in the fixture.\n"
_KUSTOMIZE = r"""#!/bin/sh
# Stands for kustomize where it is not installed. It builds with kubectl, or prints the stored result for
# config/manifests.
set -eu
project=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
case "$1" in
edit) echo "${4#controller=}" >"$project/bin/image" ;;
build)
  image=$(cat "$project/bin/image")
  { kubectl kustomize "$2" 2>/dev/null || cat "$project/built.yaml"; } |
    sed "s|image: quay.example.com/ships/harbor-operator:.*|image: $image|"
  ;;
esac
"""


@dataclass(frozen=True)
class OperatorProject:
    """An operator project in ``directory``; its Makefile runs with ``env``, which contains the path of ``opm``."""

    directory: Path
    env: dict[str, str] = field(default_factory=dict)

    @classmethod
    def create(cls, directory: Path) -> OperatorProject:
        """Copy the sample project. It gets the installed kustomize, or a script with its results, and a wrapper."""
        shutil.copytree(HARBOR, directory)
        tools = directory / "bin"
        tools.mkdir()
        kustomize = tools / "kustomize-v5.6.0"
        if installed := shutil.which("kustomize"):
            kustomize.symlink_to(installed)
        else:
            kustomize.write_text(_KUSTOMIZE)
            kustomize.chmod(0o755)
        controller_gen = tools / "controller-gen-v0.18.0"
        controller_gen.write_text(_CONTROLLER_GEN)
        controller_gen.chmod(0o755)
        subprocess.run([PROGRAM, "generate", "wrapper", tools / "operator-sdk"], check=True, stdout=subprocess.DEVNULL)
        return cls(directory, {"PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"})

    def make(self, *arguments: str) -> str:
        """Run make, which must succeed, and return its output."""
        done = subprocess.run(
            [require("make"), "--no-print-directory", *arguments],
            cwd=self.directory,
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout
