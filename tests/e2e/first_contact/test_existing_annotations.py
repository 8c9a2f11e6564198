"""``opm bundle build`` and ``generate`` next to an existing metadata/annotations.yaml."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.kit.bundles import bundle_labels
from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm

GO_OPM = os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST", "")
BUNDLE = "operators.operatorframework.io.bundle"
LABELS = {
    **bundle_labels("lagoon-operator"),
    f"{BUNDLE}.channels.v1": "alpha,stable",
    f"{BUNDLE}.channel.default.v1": "stable",
    "com.redhat.openshift.versions": "v4.12",
}


def write_bundle(root: Path) -> Path:
    """Write a bundle with annotations edited by hand, and return the annotations file."""
    shutil.copytree(LAGOON / "0.1.0" / "manifests", root / "manifests")
    path = root / "metadata" / "annotations.yaml"
    path.parent.mkdir()
    path.write_text("# by hand\n" + yaml.safe_dump({"annotations": LABELS}))
    return path


@pytest.mark.parametrize("group", [("bundle",), ("alpha", "bundle")], ids=" ".join)
def test_only_the_manifests_and_the_tag_have_to_be_named(group: tuple[str, ...], newcomer: InstalledOpm) -> None:
    path = write_bundle(newcomer.directory / "bundle")
    before = path.read_bytes()
    newcomer(*group, "build", "-d", "bundle/manifests", "-t", "oci:images/lagoon:1")
    inspected = json.loads(newcomer("image", "inspect", "oci:images/lagoon:1", "--output", "json"))
    assert LABELS.items() <= find_labels(inspected).items()
    newcomer(*group, "generate", "-d", "bundle/manifests")
    assert path.read_bytes() == before
    dockerfile = (newcomer.directory / "bundle.Dockerfile").read_text()
    assert f"LABEL {BUNDLE}.channels.v1=alpha,stable\n" in dockerfile


def find_labels(value: object) -> dict[str, str]:
    """Return the labels somewhere in a report on an image."""
    if isinstance(value, dict) and isinstance(value.get("labels"), dict):
        return dict(value["labels"])
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((found for child in children if (found := find_labels(child))), {})


def test_flags_take_precedence_and_a_contradiction_needs_overwrite(newcomer: InstalledOpm) -> None:
    path = write_bundle(newcomer.directory / "bundle")
    line = ("bundle", "build", "-d", "bundle/manifests", "-t", "oci:images/lagoon:1", "-c", "stable,beta")
    done = newcomer.attempt(*line)
    assert done.returncode == 1
    assert f"{BUNDLE}.channels.v1 is 'alpha,stable', not 'stable,beta'" in done.stderr
    newcomer(*line, "--overwrite")
    annotations = yaml.safe_load(path.read_text())["annotations"]
    assert annotations == {**LABELS, f"{BUNDLE}.channels.v1": "stable,beta"}


@pytest.mark.skipif(not GO_OPM, reason="OPMKIT_REFERENCE_OPM_NEWEST is not set")
@pytest.mark.parametrize("flags", [("-p", "other", "-c", "beta"), ("-p", "other", "-c", "beta,x", "-e", "x")], ids=str)
def test_with_flags_the_files_are_those_of_go_opm(flags: tuple[str, ...], newcomer: InstalledOpm) -> None:
    results: list[object] = []
    for program in (GO_OPM, str(newcomer.bin / "opm")):
        work = newcomer.directory / f"run{len(results)}"
        path = write_bundle(work / "bundle")
        argv = [program, "alpha", "bundle", "generate", "-d", "bundle/manifests", *flags]
        subprocess.run(argv, cwd=work, env=newcomer.environment, check=True, capture_output=True, timeout=120)
        results.append((yaml.safe_load(path.read_text()), (work / "bundle.Dockerfile").read_text()))
    assert results[0] == results[1]
