"""Results of releases of Go opm on the samples in ``fixtures/recorded/releases``.

As a program, record them: ``python -m tests.kit.releases DIRECTORY``, with the programs ``DIRECTORY/opm-VERSION``.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from tests.kit.corpus import RegistryCorpus
from tests.kit.opm import FIXTURES, PROGRAM
from tests.kit.recorded import BUNDLES, RECORDED
from tests.kit.registry import Registry

RELEASES = RECORDED / "releases"
INVALID_CATALOGS = FIXTURES / "catalogs" / "invalid"
REEF = tuple(f"{{registry}}/reef:{version}" for version in ("1.0.0", "1.1.0", "1.1.1", "1.2.0", "2.0.0-rc.1"))
TIDE = tuple(f"{{registry}}/tide:{version}" for version in ("0.1.0", "0.2.0"))
KELP = tuple(f"{{registry}}/kelp:{version}" for version in ("1.0.0", "1.0.1_3"))
OUTPUT = "out"

Result: TypeAlias = dict[str, Any]
"""Whether a command succeeded, its standard output, and the files that it wrote."""
Runner: TypeAlias = Callable[[list[str], Path], subprocess.CompletedProcess[bytes]]
"""Runs a command line in a directory."""


@dataclass(frozen=True)
class ReleaseCase:
    """A command line, and the minor version of the first release that accepts it.

    ``{registry}`` is the prefix of images; the current directory has the samples and the database ``index.db``.
    """

    name: str
    argv: tuple[str, ...]
    since: int = 26
    until: int = 1000

    def applies(self, version: str) -> bool:
        return self.since <= minor(version) < self.until

    def __str__(self) -> str:
        return self.name


RENDER = ("render", "--use-http")
TEMPLATE = ("alpha", "render-template", "--use-http")
CASES = (
    ReleaseCase("render-bundles", (*RENDER, *REEF[:2], *TIDE[:1])),
    ReleaseCase("render-bundles-yaml", (*RENDER, *REEF[3:], "-o", "yaml")),
    ReleaseCase("render-release", (*RENDER, KELP[0])),
    ReleaseCase("render-release-yaml", (*RENDER, KELP[0], "-o", "yaml")),
    ReleaseCase("render-substitute", (*RENDER, KELP[1])),
    ReleaseCase("render-directory", ("render", "kelp", "--alpha-image-ref-template", "quay.io/me/k:{{.Version}}"), 37),
    ReleaseCase("render-directory-without-image", ("render", "kelp"), 37),
    ReleaseCase("render-database", ("render", "index.db")),
    ReleaseCase("render-database-migrated", ("render", "index.db", "--migrate", "-o", "yaml"), 30),
    ReleaseCase("render-catalog", ("render", "catalog")),
    ReleaseCase("render-catalog-yaml", ("render", "catalog", "-o", "yaml")),
    ReleaseCase("render-catalog-migrated", ("render", "catalog", "--migrate"), 30),
    ReleaseCase("render-level", ("render", "catalog", "--migrate-level", "bundle-object-to-csv-metadata"), 46),
    ReleaseCase("migrate-database", ("migrate", "index.db", OUTPUT)),
    ReleaseCase("migrate-catalog", ("migrate", "catalog", OUTPUT, "-o", "yaml"), 30),
    ReleaseCase("semver", (*TEMPLATE, "semver", "semver.yaml")),
    ReleaseCase("semver-major", (*TEMPLATE, "semver", "semver-default.yaml", "-o", "yaml")),
    ReleaseCase("semver-graph", (*TEMPLATE, "semver", "semver.yaml", "-o", "mermaid")),
    ReleaseCase("semver-level", (*TEMPLATE, "semver", "semver-default.yaml", "--migrate-level", "all"), 46),
    ReleaseCase("basic-level", (*TEMPLATE, "basic", "basic.yaml", "--migrate-level", "all"), 46),
    ReleaseCase("basic", (*TEMPLATE, "basic", "basic.yaml"), 44),
    ReleaseCase("basic-stream", (*TEMPLATE, "basic", "basic-stream.yaml", "-o", "yaml"), until=44),
    ReleaseCase("graph", ("alpha", "render-graph", "catalog")),
    ReleaseCase("graph-minimum", ("alpha", "render-graph", "catalog", "--minimum-edge", "fleet.v1.1.0")),
    ReleaseCase("graph-v0", ("alpha", "render-graph", "catalog", "--draw-v0-semantics"), 57),
    ReleaseCase("convert", ("alpha", "convert-template", "basic", "catalog/port.json", "-o", "yaml"), 44),
    ReleaseCase("list-packages", ("alpha", "list", "packages", "catalog")),
    ReleaseCase("list-channels", ("alpha", "list", "channels", "catalog")),
    ReleaseCase("list-bundles", ("alpha", "list", "bundles", "catalog")),
    ReleaseCase("dockerfile", ("generate", "dockerfile", "catalog", "-l", "vendor=me")),
    ReleaseCase("dockerfile-image", ("generate", "dockerfile", "catalog", "-i", "quay.io/me/opm:1")),
    ReleaseCase("dockerfile-binary", ("generate", "dockerfile", "catalog", "--binary-image", "quay.io/me/opm:1")),
    ReleaseCase("dockerfile-scratch", ("generate", "dockerfile", "catalog", "-i", "scratch"), 44),
    ReleaseCase("init", ("init", "fleet", "-c", "stable", "-d", "description.md", "-o", "yaml")),
    ReleaseCase("validate", ("validate", "catalog")),
    *(
        ReleaseCase(f"validate-{path.stem}", ("validate", f"invalid/{path.stem}"))
        for path in sorted(INVALID_CATALOGS.glob("*.yaml"))
    ),
)
RESULTS = RELEASES / "results.json"


def minor(version: str) -> int:
    """Return N of the version 1.N.P."""
    return int(version.split(".")[1])


@cache
def recorded_results() -> dict[str, list[dict[str, Any]]]:
    """Return the recorded results by case, see ``fixtures/recorded/README.md``."""
    results: dict[str, list[dict[str, Any]]] = json.loads(RESULTS.read_text())
    return results


class Samples:
    """The samples in a directory, and their bundles in a registry."""

    def __init__(self, directory: Path, host: str) -> None:
        self.directory = directory
        self._corpora = [RegistryCorpus(host, bundles) for bundles in (BUNDLES, RELEASES / "bundles")]
        for corpus in self._corpora:
            corpus.fill([*REEF, *TIDE, *KELP])
        self.prefix = self._corpora[0].prefix
        shutil.copytree(RELEASES / "catalog", directory / "catalog")
        shutil.copytree(RELEASES / "bundles" / "kelp" / "1.0.0", directory / "kelp")
        for template in (RELEASES / "templates").iterdir():
            (directory / template.name).write_text(template.read_text().replace("{registry}", self.prefix))
        for catalog in INVALID_CATALOGS.glob("*.yaml"):
            (directory / "invalid" / catalog.stem).mkdir(parents=True)
            shutil.copy(catalog, directory / "invalid" / catalog.stem)
        (directory / "description.md").write_text("A fleet.\n\nOf <ships> & boats.\n")
        add = ("registry", "add", "--use-http", "-d", "index.db", "-b", self.fill(",".join((*REEF[:2], *TIDE))))
        subprocess.run([PROGRAM, *add], cwd=directory, check=True, capture_output=True)

    def fill(self, text: str) -> str:
        return text.replace("{registry}", self.prefix)

    def run(self, case: ReleaseCase, runner: Runner) -> Result:
        """Run a case; the output of a validation, and of a command that fails, is not part of the result.

        Of a Dockerfile, only the instructions are.
        """
        output, dockerfile = self.directory / OUTPUT, self.directory / "catalog.Dockerfile"
        shutil.rmtree(output, ignore_errors=True)
        dockerfile.unlink(missing_ok=True)
        done = runner([self.fill(part) for part in case.argv], self.directory)
        if done.returncode != 0 or case.argv[0] == "validate":
            return {"passed": done.returncode == 0}
        if dockerfile.exists():
            lines = dockerfile.read_text().splitlines()
            return {"passed": True, "instructions": [line for line in lines if line and not line.startswith("#")]}
        result = {"passed": True, "stdout": self._readable(done.stdout)}
        files = {path.relative_to(output).as_posix(): path for path in sorted(output.rglob("*")) if path.is_file()}
        return result | ({"files": {name: self._readable(path.read_bytes()) for name, path in files.items()}})

    def _readable(self, output: bytes) -> list[str]:
        return output.decode().replace(self.prefix, "{registry}").splitlines(keepends=True)


def programs(directory: Path) -> Mapping[str, Path]:
    """Return the programs ``opm-VERSION`` in a directory by version, from the oldest to the newest."""
    found = {match[1]: path for path in directory.iterdir() if (match := re.fullmatch(r"opm-(1\.\d+\.\d+)", path.name))}
    return {version: found[version] for version in sorted(found, key=minor)}


def with_compat(runner: Runner, version: str) -> Runner:
    """Return a function that runs opmkit as a release of Go opm, in the commands in which releases differ."""

    def run(argv: list[str], directory: Path) -> subprocess.CompletedProcess[bytes]:
        same_in_all = argv[0] == "init" or "convert-template" in argv
        return runner(argv if same_in_all else [*argv, "--compat", version], directory)

    return run


def go_runner(program: Path) -> Runner:
    """Return a function that runs Go opm."""
    return lambda argv, directory: subprocess.run([program, *argv], cwd=directory, capture_output=True, check=False)


def record(directory: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each case with its distinct results, and the versions that have them."""
    with Registry() as registry, tempfile.TemporaryDirectory() as scratch:
        samples = Samples(Path(scratch), registry.host)
        for case in CASES:
            results: list[dict[str, Any]] = []
            for version, program in programs(directory).items():
                if not case.applies(version):
                    continue
                result = samples.run(case, go_runner(program))
                if results and {**results[-1], "releases": []} == {"releases": [], **result}:
                    results[-1]["releases"].append(version)
                else:
                    results.append({"releases": [version], **result})
            yield case.name, results


if __name__ == "__main__":
    RESULTS.write_text(json.dumps(dict(record(Path(sys.argv[1]))), indent=1, ensure_ascii=False) + "\n")
