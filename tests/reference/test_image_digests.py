"""``generate bundle --use-image-digests`` of operator-sdk: the same images and related images."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.kit.bundles import push_image
from tests.kit.images import small_image
from tests.kit.opm import PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.registry import Registry

OPERATOR_SDK = os.environ.get("OPMKIT_REFERENCE_OPERATOR_SDK", "")
MANIFESTS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: lagoon, namespace: lagoon}}
spec:
  selector: {{matchLabels: {{app: lagoon}}}}
  template:
    metadata:
      labels: {{app: lagoon}}
      annotations: {{text: "see {host}/proxy:2"}}
    spec:
      initContainers:
      - {{name: setup, image: "{host}/operator:1"}}
      containers:
      - name: manager
        image: {host}/operator:1
        env:
        - {{name: RELATED_IMAGE_PROXY, value: "{host}/proxy:2"}}
        - {{name: OTHER, value: "{host}/proxy:2"}}
        - {{name: UNKNOWN, value: "{host}/unknown:2"}}
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not OPERATOR_SDK, reason="set OPMKIT_REFERENCE_OPERATOR_SDK to the path of operator-sdk 1.42.3"),
]


def generate(program: str, directory: Path, *flags: str) -> Any:
    """Return the spec of the ClusterServiceVersion that a program generates."""
    arguments = ("generate", "bundle", "--input-dir", "../deploy", "--package", "lagoon", "--version", "0.1.0")
    directory.mkdir()
    argv = [program, *arguments, "--use-image-digests", *flags]
    done = subprocess.run(argv, cwd=directory, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (csv,) = (directory / "bundle" / "manifests").glob("*.clusterserviceversion.yaml")
    return yaml.safe_load(csv.read_text())["spec"]


def test_images_are_those_of_operator_sdk(registry: Registry, tmp_path: Path) -> None:
    host = f"{registry.host}/digests-{tmp_path.name.lower().replace('_', '-')}"
    for image in ("operator:1", "proxy:2"):
        push_image(f"{host}/{image}", small_image(tmp_path, {image: b""}))
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "lagoon.yaml").write_text(MANIFESTS.format(host=host))
    theirs = generate(OPERATOR_SDK, tmp_path / "theirs")
    ours = generate(str(PROGRAM), tmp_path / "ours", "--use-http")
    listed, their_listed = (spec.pop("relatedImages") for spec in (ours, theirs))
    assert ours == theirs
    annotated = [entry for entry in their_listed if entry["name"].endswith("-annotation")]
    assert sorted(map(str, listed)) == sorted(str(entry) for entry in their_listed if entry not in annotated)
