"""Bases of ClusterServiceVersions are those of operator-sdk, byte for byte."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm

RECORDED = sorted((FIXTURES / "recorded" / "kustomize").glob("*.yaml"))


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.stem)
def test_recorded_bases(opm: Opm, tmp_path: Path, recorded: Path) -> None:
    name, _, mode = recorded.stem.rpartition("-")
    project = tmp_path / "project"
    shutil.copytree(FIXTURES / name, project)
    base = project / "config" / "manifests" / "bases" / f"{name}.clusterserviceversion.yaml"
    if mode == "new":
        shutil.rmtree(base.parent)
    output = replace(opm, directory=project)("generate", "kustomize", "manifests", "--interactive=false")
    assert f"{base.relative_to(project)}: written\n" in output
    assert base.read_bytes() == recorded.read_bytes()
