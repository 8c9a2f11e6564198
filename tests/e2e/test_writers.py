"""Commands that write several files: all of them, or none if one cannot be written, and the message names that one."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import FIXTURES, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.kit.opm import Opm

MANIFESTS = str(FIXTURES / "lagoon-operator" / "0.1.0" / "manifests")
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: reef, namespace: reef}
spec:
  selector: {matchLabels: {app: reef}}
  template:
    metadata: {labels: {app: reef}}
    spec: {containers: [{name: manager, image: "quay.io/me/reef:1"}]}
"""
PACKAGE = ["--package", "reef", "--channels", "stable"]
GENERATE = ["bundle", "generate", "--directory", MANIFESTS, *PACKAGE, "--output-dir", "bundle"]
FROM_INPUT = ["generate", "bundle", "--input-dir", "deploy", "--version", "1.0.0", *PACKAGE]


def tree(directory: Path) -> dict[str, bytes]:
    """Return the files and directories below a directory, with the content of the files."""
    return {
        str(each.relative_to(directory)): each.read_bytes() if each.is_file() else b"" for each in directory.rglob("*")
    }


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (GENERATE, "bundle.Dockerfile"),
        (GENERATE, "bundle/manifests/lagoon-viewer.clusterrole.yaml"),
        (FROM_INPUT, "bundle.Dockerfile"),
        (FROM_INPUT, "bundle/manifests/reef.clusterserviceversion.yaml"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_nothing_is_written_if_a_file_cannot_be(opm: Opm, arguments: Sequence[str], output: str) -> None:
    directory = opm.directory
    (directory / "deploy").mkdir()
    (directory / "deploy" / "all.yaml").write_text(DEPLOYMENT)
    (directory / output / "in-the-way").mkdir(parents=True)
    before = tree(directory)
    failed = opm.attempt(*arguments)
    assert (failed.returncode, tree(directory)) == (1, before)
    assert f"{output}: Is a directory" in failed.stderr
    (directory / output / "in-the-way").rmdir()
    (directory / output).rmdir()
    opm(*arguments)
    assert (directory / output).is_file()


@pytest.mark.parametrize("arguments", [GENERATE, FROM_INPUT, ["generate", "dockerfile", "deploy"]], ids=" ".join)
def test_nothing_remains_if_nothing_can_be_written(tmp_path: Path, arguments: Sequence[str]) -> None:
    """A limit on the size of files has the effect of a full disk."""
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "all.yaml").write_text(DEPLOYMENT)
    before = tree(tmp_path)
    command = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", str(PROGRAM), *arguments]
    failed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert (failed.returncode, tree(tmp_path)) == (1, before)
    assert "File too large" in failed.stderr


def test_file_in_the_place_of_a_directory(opm: Opm) -> None:
    (opm.directory / "bundle").mkdir()
    (opm.directory / "bundle" / "metadata").write_text("in the way")
    before = tree(opm.directory)
    failed = opm.attempt(*GENERATE)
    assert (failed.returncode, tree(opm.directory)) == (1, before)
    assert "bundle/metadata" in failed.stderr
