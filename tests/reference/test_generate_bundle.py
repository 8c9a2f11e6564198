"""Generated bundles equal those of operator-sdk, byte for byte.

``OPMKIT_REFERENCE_OPERATOR_SDK`` is its path. ``OPMKIT_OPERATOR_PROJECTS`` are further operator projects, separated by
colons. Their manifests are built with ``kubectl kustomize``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kit.generated_bundles import HARBOR, read_files
from tests.kit.opm import PROGRAM
from tests.kit.requirements import require

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPERATOR_SDK", "")
PROJECTS = [HARBOR, *map(Path, filter(None, os.environ.get("OPMKIT_OPERATOR_PROJECTS", "").split(":")))]
FLAGS = ("generate", "bundle", "-q", "--overwrite", "--version", "9.8.7")


@pytest.mark.skipif(not REFERENCE, reason="set OPMKIT_REFERENCE_OPERATOR_SDK to the path of operator-sdk")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_bundles_equal_those_of_operator_sdk(project: Path, tmp_path: Path) -> None:
    kustomize = [require("kubectl"), "kustomize", "--load-restrictor", "LoadRestrictionsNone"]
    built = subprocess.run([*kustomize, project / "config/manifests"], capture_output=True, check=False)
    if built.returncode:
        pytest.skip(f"{project.name}: the manifests cannot be built: {built.stderr.decode()[-200:]}")
    results = []
    for program in (REFERENCE, PROGRAM):
        directory = tmp_path / Path(program).name
        shutil.copytree(project / "config/manifests", directory / "config/manifests", symlinks=True)
        shutil.copy(project / "PROJECT", directory)
        argv = [program, *FLAGS]
        done = subprocess.run(argv, input=built.stdout, cwd=directory, capture_output=True, check=False)
        shutil.rmtree(directory / "config")
        results.append((done.returncode, read_files(directory)))
    assert results[0] == results[1]
