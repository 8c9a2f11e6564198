"""A site in which the examples of help texts run: a registry with the images, and the files that they name."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.cli.entrypoints import PROGRAMS
from tests.kit.bundles import bundle_image, push_image
from tests.kit.forkserver import Command
from tests.kit.operator_project import HARBOR
from tests.kit.opm import FIXTURES, LAGOON, PROGRAM
from tests.kit.screen import run_program_on_terminal
from tests.kit.typed_commands import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.kit.forkserver import ForkServer
    from tests.kit.registry import Registry

HOSTS = ("quay.io", "registry.example.com", "registry.corp", "mirror.example.com")
"""Registries of the examples, for which the local one stands."""
_NOTE = '{"schema": "example.com.note", "package": "lagoon-operator", "text": "Deep."}'
_STUBS = {
    "kubectl": 'test "$1 $2" = "apply -f" && cat "$3" | grep kind >/dev/null',
    "dot": "grep ^digraph >/dev/null",
    "oc": 'test -d "$3"',
    "kustomize": f'test -d "$2" && cat {HARBOR}/built.yaml',
}
"""Stands for programs next to ours in pipes: they check what they get, or print a result."""
_SHELL = re.compile(r"[*$`~]")
"""Characters that a shell expands, even in quotes."""
_OPERATORS = frozenset("();<>|&")
_FILES = FIXTURES / "example-site"


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
            "REGISTRY": f"{registry.host}/me",
            "PATH": f"{root / 'bin'}:{PROGRAM.parent}:{os.environ['PATH']}",
        }
        site = cls(root, registry, forkserver, env)
        site.directory.mkdir()
        _write_programs(root / "bin")
        _write_files(site.directory)
        site._localize()
        site._prepare()
        shutil.copytree(site.directory, root / "prepared-site", symlinks=True)
        shutil.copytree(registry.path / "data", root / "prepared-registry")
        return site

    def reset(self) -> None:
        """Restore the prepared files, and the images if the registry has received any."""
        writes = [request for request in self.registry.requests() if request.method not in ("GET", "HEAD")]
        (self.registry.path / "access.log").write_text("")
        if writes:
            self._restore(self.root / "prepared-registry", self.registry.path / "data")
        self._restore(self.root / "prepared-site", self.directory)

    @staticmethod
    def _restore(prepared: Path, used: Path) -> None:
        shutil.rmtree(used)
        shutil.copytree(prepared, used, symlinks=True)

    def run(self, line: str) -> tuple[int, str]:
        """Run a command line and return its exit status and output; only pipes and the like start a shell.

        All write to a terminal of 80 columns.
        """
        line = self.local(line)
        simple = _simple_command(line)
        if simple is None:
            return self._run_shell(line)
        (program, *words), target = simple
        env = {**self.env, "TERM": "xterm", "NO_COLOR": "1"}
        columns = 0 if target else COLUMNS
        (done,) = self.forkserver.run([Command(words, env, self.directory, program, columns=columns)])
        if target:
            mode, name = target
            with (self.directory / name).open("a" if mode == ">>" else "w") as file:
                file.write(done.stdout)
        return done.status, done.stderr if target else done.output

    def local(self, text: str) -> str:
        """Replace the registries, since settings redirect only reads."""
        return re.sub(rf"\b(?:{'|'.join(map(re.escape, HOSTS))})(?=[/ ]|$)", self.registry.host, text)

    def _run_shell(self, line: str) -> tuple[int, str]:
        screen = run_program_on_terminal(
            ["bash", "-o", "pipefail", "-c", line],
            columns=COLUMNS,
            directory=self.directory,
            env={**os.environ, **self.env, "TERM": "xterm", "NO_COLOR": "1"},
            timeout=120,
        )
        return screen.status, screen.text

    def _localize(self) -> None:
        """Replace the registries in templates, since arguments have the replaced names as well."""
        for path in _FILES.rglob("*.yaml"):
            file = self.directory / path.relative_to(_FILES)
            file.write_text(self.local(file.read_text()))

    def _prepare(self) -> None:
        for name in ("other", "old"):
            image = bundle_image(f"{name}-operator", "1.2.0", self.root)
            push_image(f"{self.registry.host}/me/{name}:1.2.0", image)
        for line in _preparation():
            status, output = self.run(line)
            if status:
                raise RuntimeError(f"{line}: {output}")


def _simple_command(line: str) -> tuple[list[str], tuple[str, str] | None] | None:
    """Return the words of a command of ours, and where its output goes; None if the line needs a shell."""
    lexer = shlex.shlex(re.sub(r"\s#\s.*", "", line), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words = list(lexer)
    operators = [word for word in words if _OPERATORS.issuperset(word)]
    if _SHELL.search(line) or words[0] not in ("opm", *PROGRAMS):
        return None
    if len(words) > 2 and operators == [words[-2]] and operators[0] in (">", ">>"):
        return words[:-2], (words[-2], words[-1])
    return None if operators else (words, None)


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
    shutil.copytree(_FILES, directory, dirs_exist_ok=True)
    (directory / "fixtures").symlink_to(FIXTURES)


def _preparation() -> Sequence[str]:
    """Return the commands that create the other files and the images."""
    package = "-p lagoon-operator -c alpha,stable -e stable"
    bundles = [
        f"opm bundle build -d lagoon/{version}/manifests {package} -t quay.io/me/lagoon:{version} --push"
        for version in ("0.1.0", "0.2.0", "0.3.0")
    ]
    copies = {
        "lagoon:0.1.0": ["lagoon:v1.0.0", "lagoon-bundle:0.1.0"],
        "lagoon:0.2.0": ["lagoon-bundle:0.2.0"],
        "lagoon:0.3.0": ["lagoon-bundle:0.3.0"],
        "catalog:1": ["test:1", "prod:1", "opmkit:1", "lagoon-catalog:latest"],
    }
    new = "opm index add -i scratch --push --to-fbc"
    return [
        *bundles,
        f"{new} -b quay.io/me/lagoon:0.1.0,quay.io/me/other:1.2.0,quay.io/me/old:1.2.0 -t quay.io/me/catalog:1",
        f"{new} -b quay.io/me/lagoon:0.2.0 -f quay.io/me/catalog:1 -t quay.io/me/catalog:2",
        *(f"opm image copy quay.io/me/{source} quay.io/me/{x}" for source, names in copies.items() for x in names),
        "opm image copy quay.io/me/catalog:1 quay.io/operator-framework/opm:v1.73.0",
        "opm image copy quay.io/me/lagoon:0.1.0 registry.example.com/water/lagoon-operator:0.1.0",
        "opm image copy quay.io/me/lagoon:0.1.0 registry.example.com/water/lagoon-operator:0.2.0",
        "opm migrate quay.io/me/catalog:2 catalog",
        f"echo '{_NOTE}' > catalog/notes.json",
        "opm registry add -d index.db -b quay.io/me/lagoon:0.1.0,quay.io/me/lagoon:0.2.0",
        "opm index build index.db -i scratch -t quay.io/me/database:1 --push",
        "cp index.db old.db && cp index.db new.db",
        "cp -r teams/reef team-a && cp -r teams/tide team-b",
        "cp -r lagoon/0.1.0 bundle && opm bundle generate -d bundle/manifests -p lagoon-operator -c alpha",
        "opm image generate-key-pair",
    ]
