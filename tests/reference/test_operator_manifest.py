"""Pinning by operator-manifest 2.0.1: the same images, apart from those in ``alm-examples``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.author.pin.pin import RelatedImagesMode
from opmkit.documents import go_yaml
from opmkit.imagetools.reference import Reference
from tests.kit.opm import LAGOON
from tests.kit.pinning import fake_digest, pin
from tests.kit.shared import SHARED

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = os.environ.get("OPMKIT_REFERENCE_OPERATOR_MANIFEST", "")
CORPUS = SHARED / "corpus" / "bundles"
ALM_EXAMPLES = "alm-examples"
IN_EXAMPLES = {"aqua", "ncn-operator", "silicom-sts-operator"}
"""Packages with images in alm-examples, which operator-manifest replaces as well, even placeholders."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAM, reason="OPMKIT_REFERENCE_OPERATOR_MANIFEST is not set to operator-manifest 2.0.1"),
]


def samples() -> list[Path]:
    """Return the manifests of the sample operator, and of the first version of each recorded package."""
    recorded = (min(package.iterdir()) / "manifests" for package in sorted(CORPUS.glob("[!s]*")) if package.is_dir())
    return [LAGOON / "0.1.0" / "manifests", *(path for path in recorded if path.is_dir())]


def run(*arguments: str) -> Any:
    """Run operator-manifest and return its output; skip the test if it rejects the bundle."""
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"operator-manifest fails: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout or "null")


@pytest.mark.parametrize("manifests", samples(), ids=lambda path: path.parts[-3])
def test_images_are_those_of_operator_manifest(manifests: Path, tmp_path: Path) -> None:
    directory = tmp_path / "manifests"
    shutil.copytree(manifests, directory)
    images = [image for image in run("extract", str(directory)) if "@" not in image]
    digests = {image: f"{image.rpartition(':')[0]}@{fake_digest(Reference.parse(image))}" for image in images}
    (tmp_path / "replacements.json").write_text(json.dumps(digests))
    (csv,) = (path for path in manifests.iterdir() if b"kind: ClusterServiceVersion" in path.read_bytes())
    result = pin(csv.read_bytes(), related_images=RelatedImagesMode.COMPLETE)
    run("replace", str(directory), str(tmp_path / "replacements.json"))
    theirs: Any = go_yaml.load((directory / csv.name).read_bytes())
    ours: Any = go_yaml.load(result.files.get("csv.yaml", csv.read_bytes()))
    listed, their_listed = (value["spec"].pop("relatedImages", []) for value in (ours, theirs))
    if manifests.parts[-3] in IN_EXAMPLES:
        for value in (ours, theirs):
            del value["metadata"]["annotations"][ALM_EXAMPLES]
    else:
        assert {entry["image"] for entry in listed} == {entry["image"] for entry in their_listed}
    assert ours == theirs
    names = {(entry["name"], entry["image"]) for entry in their_listed}
    assert {(entry["name"], entry["image"]) for entry in listed} <= names
