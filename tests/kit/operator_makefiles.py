"""Bundles of public operators, built by their own Makefiles with a wrapper in the place of operator-sdk.

As a program, print a table of the results: ``python -m tests.kit.operator_makefiles CHECKOUTS``, where CHECKOUTS
contains a checkout of each operator, named like its repository. kustomize and yq 4 must be in PATH. Nothing is
downloaded, and nothing runs in the checkouts.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.kit.opm import PROGRAM
from tests.kit.requirements import require

_NO_DOWNLOADS = '#!/bin/sh\necho "$0 $*" >>"$DOWNLOADS"\necho "no downloads: $0 $*" >&2\nexit 6\n'
_NOTHING = "#!/bin/sh\n# What the program would do is done in the checkout, or not required.\n"
_SKIPPED = ("manifests", "generate", "controller-gen", "kustomize", "yq")
"""Targets that are not made: they install tools, or generate files that the checkouts contain."""
_DIGEST = f"sha256:{'0' * 64}"
_MAX_SECONDS = 600


@dataclass(frozen=True)
class BundleTarget:
    """The target of a Makefile that builds the bundle of an operator, and what it requires.

    Attributes:
        target: Target that builds the bundle.
        wrapper: Path at which the Makefile looks for operator-sdk.
        version: Version of operator-sdk that the Makefile requires, "" for any.
        variables: Variables of make, in which ``{tools}`` is the directory of the tools.
        skipped: Further targets that are not made.
        bundle: Directories of the bundles.
    """

    target: str = "bundle"
    wrapper: str = "bin/operator-sdk"
    version: str = ""
    variables: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    bundle: tuple[str, ...] = ("bundle",)


TARGETS = {
    "camel-k": BundleTarget(skipped=("operator-sdk",), variables=("OPERATOR_SDK=operator-sdk",)),
    "cloudnative-pg": BundleTarget(
        "olm-bundle", variables=(f"CONTROLLER_IMG=ghcr.io/cloudnative-pg/cloudnative-pg-testing@{_DIGEST}",)
    ),
    "cluster-nfd-operator": BundleTarget(variables=("VERSION=4.20.0",)),
    "grafana-operator": BundleTarget(wrapper="bin/operator-sdk-v1.32.0", variables=("CRANE={tools}/crane",)),
    "infinispan-operator": BundleTarget(variables=("VERSION=2.5.14",)),
    "limitador-operator": BundleTarget(skipped=("operator-sdk",)),
    "lvm-operator": BundleTarget(skipped=("build-prometheus-alert-rules",)),
    "node-healthcheck-operator": BundleTarget("bundle-base"),
    "oadp-operator": BundleTarget(version="v1.34.2"),
    "opentelemetry-operator": BundleTarget(
        "generate-bundle",
        version="v1.29.0",
        variables=("BUNDLE_VARIANT=community", "VERSION=0.158.0"),
        skipped=("set-image-controller", "api-docs"),
        bundle=("bundle/community",),
    ),
    "self-node-remediation": BundleTarget(
        wrapper="bin/operator-sdk/v1.42.2/operator-sdk", variables=("ENVSUBST=cat",), skipped=("envsubst",)
    ),
    "tempo-operator": BundleTarget(wrapper="bin/operator-sdk-1.36.0", bundle=("bundle/community", "bundle/openshift")),
}
"""Operators whose Makefiles differ from the one that operator-sdk scaffolds."""


@dataclass
class MakefileRun:
    """A copy of a checkout in which the Makefile runs."""

    checkout: Path
    directory: Path
    tools: Path
    seconds: float = 0
    output: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def settings(self) -> BundleTarget:
        return TARGETS.get(self.checkout.name, BundleTarget())

    @property
    def project(self) -> Path:
        return self.directory / "project"

    @classmethod
    def prepare(cls, checkout: Path, directory: Path) -> MakefileRun:
        """Copy the checkout, and write the tools and the wrapper."""
        run = cls(checkout, directory, directory / "tools")
        if (checkout / ".git").exists():
            subprocess.run(["git", "clone", "-q", "--shared", checkout, run.project], check=True)
        else:
            shutil.copytree(checkout, run.project, symlinks=True)
        run.tools.mkdir()
        shutil.copy(PROGRAM, run.tools / "opm")
        for name in ("curl", "wget", "docker", "controller-gen", "crane"):
            (run.tools / name).write_text(_NO_DOWNLOADS if name in ("curl", "wget") else _NOTHING)
            (run.tools / name).chmod(0o755)
        for name in ("kustomize", "yq"):
            (run.tools / name).symlink_to(require(name))
        flags = ("--reported-version", run.settings.version) if run.settings.version else ()
        wrapper = run.project / run.settings.wrapper
        subprocess.run(
            [run.tools / "opm", "generate", "wrapper", wrapper, *flags], check=True, stdout=subprocess.DEVNULL
        )
        return run

    def make(self) -> bool:
        """Build the bundle, and return whether make succeeds."""
        tools = {"KUSTOMIZE": "kustomize", "CONTROLLER_GEN": "controller-gen", "YQ": "yq"}
        variables = [f"{name}={self.tools / program}" for name, program in tools.items()]
        variables += [variable.format(tools=self.tools) for variable in self.settings.variables]
        names = (*_SKIPPED, *self.settings.skipped, str(self.project / "bin"))
        skipped = [word for name in names for word in ("-o", name)]
        started = time.monotonic()
        done = subprocess.run(
            [require("make"), self.settings.target, *variables, *skipped],
            cwd=self.project,
            env={
                **os.environ,
                "PATH": f"{self.tools}:{self.project / 'bin'}:{os.environ['PATH']}",
                "DOWNLOADS": str(self.directory / "downloads"),
                "SOURCE_DATE_EPOCH": "1700000000",  # otherwise a Makefile that removes the bundle changes its time
                "GOPROXY": "off",
                "GOFLAGS": "-mod=mod",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_MAX_SECONDS,
            check=False,
        )
        self.seconds += time.monotonic() - started
        self.output = done.stdout
        return done.returncode == 0

    def bundle_digest(self) -> str:
        """Return a digest of the files of the bundles."""
        files = [path for name in self.settings.bundle for path in (self.project / name).rglob("*") if path.is_file()]
        content = b"".join(os.fsencode(path) + path.read_bytes() for path in sorted(files))
        return hashlib.sha256(content).hexdigest() if files else ""

    def check(self) -> None:
        """Build the bundle twice, and record what is wrong."""
        wrapper = self.project / self.settings.wrapper
        before = wrapper.read_bytes()
        digests = []
        for _ in range(2):
            if not self.make():
                self.problems.append(f"make fails: {self.output[-2000:]}")
                break
            digests.append(self.bundle_digest())
        if "" in digests:
            self.problems.append("no bundle")
        if len(set(digests)) > 1:
            self.problems.append("the second run changes the bundle")
        if (self.directory / "downloads").exists():
            self.problems.append(f"downloads: {(self.directory / 'downloads').read_text()}")
        if (self.tools / "opm").read_bytes() != PROGRAM.read_bytes():
            self.problems.append("opm is overwritten")
        if wrapper.read_bytes() != before:
            self.problems.append("the wrapper is overwritten")

    @property
    def commit(self) -> str:
        """The abbreviated commit of the checkout, "" if it is not a clone."""
        done = subprocess.run(
            ["git", "-C", self.checkout, "log", "-1", "--format=%h %cs"], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()


def checkouts(root: Path) -> list[Path]:
    """Return the checkouts in a directory that have a Makefile."""
    return sorted(path.parent for path in root.glob("*/Makefile"))


def main(root: Path) -> None:
    """Print a table of the results."""
    print("| operator | commit | target | result | seconds |\n|---|---|---|---|---|")
    for checkout in checkouts(root):
        with tempfile.TemporaryDirectory() as directory:
            run = MakefileRun.prepare(checkout, Path(directory))
            run.check()
            result = "; ".join(run.problems).replace("\n", " ")[-300:] or "passed"
            row = (checkout.name, run.commit, run.settings.target, result, f"{run.seconds:.0f}")
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
