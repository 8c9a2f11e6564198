"""Bundles generated from manifests equal those recorded of operator-sdk, byte for byte."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.kit.generated_bundles import CASES, GeneratedBundle, read_files
from tests.kit.opm import PROGRAM

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("case", CASES, ids=str)
def test_files_equal_those_of_operator_sdk(case: GeneratedBundle, tmp_path: Path) -> None:
    case.prepare(tmp_path)
    done = subprocess.run([PROGRAM, *case.argv], input=case.manifests, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b""
    assert read_files(tmp_path) == case.recorded
