"""A site in which the examples of help texts run: a registry with the images, and the files that they name."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.kit.forkserver import Command
from tests.kit.operator_project import HARBOR
from tests.kit.opm import FIXTURES, LAGOON, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.kit.forkserver import ForkServer
    from tests.kit.registry import Registry

HOSTS = ("quay.io", "registry.example.com")
"""Registries of the examples, for which the local one stands."""
_STUBS = {
    "kubectl": 'test "$*" = "apply -f -" && grep kind >/dev/null',
    "dot": "grep ^digraph >/dev/null",
    "oc": 'test -d "$3"',
    "kustomize": f'test -d "$2" && cat {HARBOR}/built.yaml',
}
"""Stands for programs next to ours in pipes: they check what they get, or print a result."""
_SHELL = re.compile(r"[;<>|&*$(]")
_DOCKERFILE = """\
FROM scratch
LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
LABEL operators.operatorframework.io.bundle.package.v1=lagoon-operator
LABEL operators.operatorframework.io.bundle.channels.v1=alpha
COPY bundle/manifests /manifests/
COPY bundle/metadata /metadata/
"""


@dataclass(frozen=True)
class ExampleSite:
    """A working directory, image store and registry, which :meth:`reset` restores after the examples changed them."""

    root: Path
    registry: Registry
    forkserver: ForkServer
    env: dict[str, str] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        return self.root / "site"

    @classmethod
    def create(cls, root: Path, registry: Registry, forkserver: ForkServer) -> ExampleSite:
        """Prepare the images and files, and store them for :meth:`reset`."""
        settings = root / "registries.conf"
        settings.write_text(
            "".join(
                f'[[registry]]\nprefix = "{x}"\nlocation = "{registry.host}"\ninsecure = true\n'
                for x in (*HOSTS, registry.host)
            )
        )
        env = {
            "CONTAINERS_REGISTRIES_CONF": str(settings),
            "HOME": str(root),
            "XDG_RUNTIME_DIR": str(root),
            "COSIGN_PASSWORD": "secret",
            "OPM_STORE": str(root / "site" / ".store"),
            "PATH": f"{root / 'bin'}:{PROGRAM.parent}:{os.environ['PATH']}",
        }
        site = cls(root, registry, forkserver, env)
        site.directory.mkdir()
        _write_programs(root / "bin")
        _write_files(site.directory)
        site._prepare()
        shutil.copytree(site.directory, root / "prepared-site", symlinks=True)
        shutil.copytree(registry.path / "data", root / "prepared-registry")
        return site

    def reset(self) -> None:
        """Restore the prepared files and images."""
        for prepared, used in (
            (self.root / "prepared-site", self.directory),
            (self.root / "prepared-registry", self.registry.path / "data"),
        ):
            shutil.rmtree(used)
            shutil.copytree(prepared, used, symlinks=True)

    def run(self, line: str) -> tuple[int, str]:
        """Run a command line and return its exit status and output; only pipes and the like start a shell."""
        line = self._local(line)
        if _SHELL.search(line) or not line.startswith("opm "):
            return self._run_shell(line)
        program, *words = shlex.split(line, comments=True)
        (done,) = self.forkserver.run([Command(words, self.env, self.directory, program)])
        return done.status, done.output

    def _local(self, text: str) -> str:
        """Replace the registries, since settings redirect only reads."""
        return re.sub(rf"\b(?:{'|'.join(map(re.escape, HOSTS))})(?=/)", self.registry.host, text)

    def _run_shell(self, line: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self.directory,
            env={**os.environ, **self.env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout

    def _prepare(self) -> None:
        for line in _preparation():
            status, output = self.run(line)
            if status:
                raise RuntimeError(f"{line}: {output}")


def _write_programs(directory: Path) -> None:
    directory.mkdir()
    for name, script in _STUBS.items():
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)


def _write_files(directory: Path) -> None:
    """Write the files that examples read, without those that commands create."""
    for version in ("0.1.0", "0.2.0", "0.3.0"):
        for parent in ("deploy", "lagoon"):
            shutil.copytree(LAGOON / version / "manifests", directory / parent / version / "manifests")
    shutil.copytree(FIXTURES / "teams", directory / "teams")
    (directory / "teams" / "owners.yaml").rename(directory / "owners.yaml")
    (directory / "README.md").write_text("Lagoons for everyone.\n")
    (directory / "lagoon.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (directory / "policy.yaml").write_text("fail-on: error\n")
    (directory / "sbom.json").write_text('{"spdxVersion": "SPDX-2.3"}')
    (directory / "bundle.Dockerfile").write_text(_DOCKERFILE)


def _preparation() -> Sequence[str]:
    """Return the commands that create the other files and the images."""
    package = "-p lagoon-operator -c alpha,stable -e stable"
    lines = [
        f"opm bundle build -d lagoon/{version}/manifests {package} -t quay.io/me/{name}:{version} --push"
        for version in ("0.1.0", "0.2.0", "0.3.0")
        for name in ("lagoon", "lagoon-bundle")
    ]
    new = "opm index add -i scratch --push --to-fbc"
    return [
        *lines,
        f"{new} -b quay.io/me/lagoon:0.1.0 -t quay.io/me/catalog:1",
        f"{new} -b quay.io/me/lagoon:0.2.0 -f quay.io/me/catalog:1 -t quay.io/me/catalog:2",
        "opm image copy quay.io/me/catalog:1 quay.io/operator-framework/opm:v1.73.0",
        "opm image copy quay.io/me/catalog:1 quay.io/me/test:1",
        "opm image copy quay.io/me/catalog:1 quay.io/me/prod:1",
        "opm image copy quay.io/me/lagoon:0.1.0 registry.example.com/water/lagoon-operator:0.1.0",
        "opm image copy quay.io/me/lagoon:0.1.0 registry.example.com/water/lagoon-operator:0.2.0",
        "opm migrate quay.io/me/catalog:2 catalog",
        "opm registry add -d index.db -b quay.io/me/lagoon:0.1.0,quay.io/me/lagoon:0.2.0",
        "opm index build index.db -i scratch -t quay.io/me/database:1 --push",
        "cp index.db old.db && cp index.db new.db",
        "cp -r teams/reef team-a && cp -r teams/tide team-b",
        "cp -r lagoon/0.1.0 bundle && opm bundle generate -d bundle/manifests -p lagoon-operator -c alpha",
        "opm image generate-key-pair",
    ]
