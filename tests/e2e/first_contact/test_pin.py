"""``opm bundle pin`` of the installed wheel, in a pipeline without a registry."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm

IMAGE = "registry.example.com/water/lagoon-operator:0.1.0"
PINNED = f"registry.corp/lagoon-operator@sha256:{'0' * 64}"


def test_a_bundle_is_checked_and_pinned_with_a_file(newcomer: InstalledOpm) -> None:
    bundle = newcomer.directory / "bundle"
    shutil.copytree(LAGOON / "0.1.0" / "manifests", bundle / "manifests")
    csv = bundle / "manifests" / "lagoon-operator.clusterserviceversion.yaml"
    before = csv.read_text()
    failed = newcomer.attempt("bundle", "pin", "bundle", "--check")
    assert failed.returncode == 1
    assert failed.stdout.splitlines()[-1].startswith(f"bundle/manifests/{csv.name}:80: {IMAGE} (container ")
    (newcomer.directory / "replacements.json").write_text(json.dumps({IMAGE: PINNED}))
    newcomer("bundle", "pin", "bundle", "--replacements", "replacements.json", "--related-images", "keep")
    assert csv.read_text() == before.replace(IMAGE, PINNED)
    newcomer("bundle", "pin", "bundle", "--check")
