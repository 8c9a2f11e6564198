"""A real API server accepts the objects that are rendered for bundles."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import requests

from tests.kit.corpus import SHARED_BUNDLES
from tests.kit.opm import LAGOON, PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.cluster.cluster import Cluster

CORPUS = [path for path in sorted(SHARED_BUNDLES.glob("*/*"))[::8] if not path.parts[-2].startswith("syn-")]
"""Some of the bundles, of all packages but the synthetic ones; none if the corpus is absent."""


def rendered(bundle: Path) -> list[dict[str, Any]]:
    """Return the objects of a bundle in the namespace ``default``; none if OLM v1 does not support it."""
    arguments = [str(PROGRAM), "bundle", "render", str(bundle), "--namespace", "default", "--output", "json"]
    for more in ([], ["--watch-namespace", "default"]):
        done = subprocess.run([*arguments, "--certificates", "none", *more], capture_output=True, check=False)
        if not done.returncode:
            return list(json.loads(done.stdout)["objects"])
    return []


def is_served(cluster: Cluster, value: dict[str, Any]) -> bool:
    """Return whether the cluster has the API of an object, unlike those of OpenShift and Prometheus."""
    try:
        cluster.client.path(value)
    except (requests.HTTPError, ValueError, KeyError):
        return False
    return True


def test_server_side_dry_run(empty_cluster: Cluster) -> None:
    accepted, refused = 0, []
    for bundle in [LAGOON / "0.1.0", *CORPUS]:
        for value in rendered(bundle):
            if is_served(empty_cluster, value):
                try:
                    empty_cluster.client.apply(value, dry_run=True)
                    accepted += 1
                except requests.HTTPError as error:
                    refused.append((bundle.parts[-2:], value["kind"], str(error)))
    assert [each for each in refused if each[1] != "CustomResourceDefinition"] == []  # some bundles have invalid CRDs
    assert accepted > 50 * len(refused)
