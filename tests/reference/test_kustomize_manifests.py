"""``opm generate kustomize manifests`` writes the same files as operator-sdk.

``OPMKIT_REFERENCE_OPERATOR_SDK`` is the path of operator-sdk v1.42.3, which requires Go. ``OPMKIT_OPERATOR_PROJECTS``
are further operator projects, separated by colons, for example those of real operators; operator-sdk downloads the
modules that they import.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from opmkit.author.project.base import encode_base, read_base
from tests.kit.opm import FIXTURES, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Sequence

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPERATOR_SDK", "")
PROJECTS = [
    FIXTURES / "dock-operator",
    *map(Path, filter(None, os.environ.get("OPMKIT_OPERATOR_PROJECTS", "").split(":"))),
]
BASES = Path("config/manifests/bases")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not REFERENCE, reason="set OPMKIT_REFERENCE_OPERATOR_SDK to the path of operator-sdk"),
]


def generate(program: Sequence[str | Path], project: Path, target: Path, *, keep_base: bool) -> dict[str, bytes]:
    """Run a program in a copy of a project, and return its bases in operator-sdk's formatting.

    opm retains the formatting of a base that does not change.
    """
    shutil.copytree(project, target, ignore=shutil.ignore_patterns(".git"))
    if not keep_base:
        shutil.rmtree(target / BASES, ignore_errors=True)
    apis = next((name for name in ("api", "apis") if (target / name).is_dir()), "api")
    flags = ("generate", "kustomize", "manifests", "--interactive=false", "-q", "--apis-dir", apis)
    subprocess.run([*program, *flags], cwd=target, check=True, timeout=280)
    return {path.name: encode_base(read_base(path)) for path in (target / BASES).iterdir()}


@pytest.mark.parametrize("keep_base", [True, False], ids=["existing", "new"])
@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_bases_are_equal(tmp_path: Path, project: Path, keep_base: bool) -> None:
    bases = [
        generate([program], project, tmp_path / name, keep_base=keep_base)
        for name, program in (("reference", REFERENCE), ("opm", PROGRAM))
    ]
    assert bases[0] == bases[1]
