"""Operators are promoted to another version of OpenShift as by operator-pipelines' script promote-catalog.py.

``OPMKIT_REFERENCE_OPERATOR_PIPELINES`` is a Python interpreter that can import ``operatorcert``,
``OPMKIT_REFERENCE_PROMOTE_CATALOG`` the path of the script, and ``OPMKIT_OPERATOR_REPOSITORY`` a checkout of a
repository of operators with catalogs.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from opmkit import Opm, PromotionRequest, PromotionStatus

PYTHON = os.environ.get("OPMKIT_REFERENCE_OPERATOR_PIPELINES", "")
SCRIPT = os.environ.get("OPMKIT_REFERENCE_PROMOTE_CATALOG", "")
REPOSITORY = os.environ.get("OPMKIT_OPERATOR_REPOSITORY", "")
pytestmark = [
    pytest.mark.skipif(not (PYTHON and SCRIPT), reason="operator-pipelines is not set"),
    pytest.mark.skipif(not REPOSITORY, reason="OPMKIT_OPERATOR_REPOSITORY is not set"),
    pytest.mark.timeout(1800),
]
DRIVER = """
import importlib.util, os, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("promote", sys.argv[1])
promote = importlib.util.module_from_spec(spec)
spec.loader.exec_module(promote)
root, source, target = Path(sys.argv[2]), sys.argv[3], sys.argv[4]
names = sorted(os.listdir(root / "catalogs" / f"v{source}"))
never, always, review = promote.triage_operators(names, promote.OperatorRepo(root))
for name in always + review:
    promote.copy_catalog_file_if_not_exist(name, root, source, target)
    promote.add_catalog_to_ci_mapping(name, root, source, target)
"""


def copy_repository(target: Path) -> Path:
    """Copy catalogs and configurations, without operators whose catalogs are absent from the checkout."""
    root = Path(REPOSITORY)
    shutil.copytree(root / "catalogs", target / "catalogs")
    for directory in sorted((target / "catalogs").glob("*/*"), reverse=True):
        if not any(directory.iterdir()):
            directory.rmdir()
    for config in root.glob("operators/*/ci.yaml"):
        (target / "operators" / config.parent.name).mkdir(parents=True)
        shutil.copyfile(config, target / "operators" / config.parent.name / "ci.yaml")
    return target


def differences(ours: Path, theirs: Path) -> list[str]:
    """Return the files that differ; of configurations only the values are compared."""
    found = []
    for path in sorted({p.relative_to(root) for root in (ours, theirs) for p in root.rglob("*") if p.is_file()}):
        files = ours / path, theirs / path
        if not all(file.exists() for file in files):
            found.append(f"only one has {path}")
        elif path.name == "ci.yaml":
            if yaml.safe_load(files[0].read_bytes()) != yaml.safe_load(files[1].read_bytes()):
                found.append(str(path))
        elif not filecmp.cmp(*files, shallow=False):
            found.append(str(path))
    return found


def test_files_equal(tmp_path: Path) -> None:
    ours, theirs = copy_repository(tmp_path / "ours"), copy_repository(tmp_path / "theirs")
    versions = sorted((path.name[1:] for path in ours.glob("catalogs/*")), key=lambda name: int(name.partition(".")[2]))
    versions.append(f"4.{int(versions[-1].partition('.')[2]) + 1}")
    counts: dict[str, int] = {}
    for source, target in pairwise(versions):
        arguments = [PYTHON, "-c", DRIVER, SCRIPT, str(theirs), source, target]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        promoted = Opm().promote_operators(ours, PromotionRequest.parse(source, target))
        for each in promoted.operators:
            counts[each.status] = counts.get(each.status, 0) + 1
        assert not [each for each in promoted.operators if each.status is PromotionStatus.FAILED]
        assert differences(ours, theirs) == [], (source, target)
    print(counts)
