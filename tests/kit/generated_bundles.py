"""Bundles that ``operator-sdk generate bundle`` generates from the project in fixtures/harbor-operator.

As a program, record them: ``python -m tests.kit.generated_bundles OPERATOR_SDK``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

HARBOR = FIXTURES / "harbor-operator"
RECORDED = FIXTURES / "recorded" / "operator-sdk-generate"
_DOCUMENT = re.compile(r"^---\n", re.MULTILINE)
_CONVERSION = re.compile(r"^  conversion:\n(?:    .*\n)+", re.MULTILINE)
_VOLATILE = re.compile(r"(createdAt|builder)([:=]).*")


@dataclass(frozen=True)
class GeneratedBundle:
    """A command line, without the program, and whether the project and its base are part of the input."""

    name: str
    flags: tuple[str, ...] = ()
    has_base: bool = True

    @property
    def argv(self) -> tuple[str, ...]:
        return ("generate", "bundle", "--quiet", *self.flags)

    @property
    def manifests(self) -> bytes:
        """The manifests to pass to the command."""
        documents = _DOCUMENT.split((HARBOR / "built.yaml").read_text())
        omitted = () if self.has_base else ("kind: ClusterServiceVersion\n", "kind: Configuration\n")
        return "---\n".join(text for text in documents if not any(kind in text for kind in omitted)).encode()

    @property
    def recorded(self) -> dict[str, str]:
        """The recorded files, see `read_files`.

        They are without ``spec.conversion`` of CRDs, which opmkit leaves to OLM: docs/operator-sdk.md.
        """
        return {path: _CONVERSION.sub("", text) for path, text in read_files(RECORDED / self.name).items()}

    def prepare(self, directory: Path) -> None:
        """Write the files that the command reads."""
        if self.has_base:
            shutil.copy(HARBOR / "PROJECT", directory)

    def __str__(self) -> str:
        return self.name


CASES = (
    GeneratedBundle("project", ("--version", "0.1.0")),
    GeneratedBundle(
        "flags",
        (
            *("--version=0.2.0-rc.1", "--channels", "candidate,stable", "--default-channel", "stable", "--overwrite"),
            *("--extra-service-accounts", "harbor-operator-pilot", "--output-dir", "deploy/bundle"),
        ),
    ),
    GeneratedBundle("placeholders", ("--package", "harbor-operator"), has_base=False),
)


def read_files(directory: Path) -> dict[str, str]:
    """Return all files below a directory, without the times and programs that created them."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != "PROJECT")
    return {str(path.relative_to(directory)): _VOLATILE.sub(r"\1\2", path.read_text()) for path in files}


def _record(program: str) -> None:
    shutil.rmtree(RECORDED, ignore_errors=True)
    for case in CASES:
        directory = RECORDED / case.name
        directory.mkdir(parents=True)
        case.prepare(directory)
        subprocess.run([program, *case.argv], input=case.manifests, cwd=directory, capture_output=True, check=True)
        (directory / "PROJECT").unlink(missing_ok=True)


if __name__ == "__main__":
    _record(sys.argv[1])
