"""Manifests of the documentation, checked by a Kubernetes API server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from tests.kit.command_lines import ROOT

if TYPE_CHECKING:
    from tests.kit.cluster.cluster import Cluster

_BLOCK = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
_GROUPS = ("v1", "apps/v1", "batch/v1", "networking.k8s.io/v1")


def manifests(page: str) -> list[dict[str, Any]]:
    """Return the objects of Kubernetes in the YAML blocks of a page."""
    text = (ROOT / "docs" / page).read_text()
    documents = (each for block in _BLOCK.findall(text) for each in yaml.safe_load_all(block))
    return [each for each in documents if isinstance(each, dict) and each.get("apiVersion") in _GROUPS]


def test_workers_and_jobs_are_accepted(cluster: Cluster, namespace: str) -> None:
    found = manifests("scaling.md")
    assert {each["kind"] for each in found} == {"Deployment", "Service", "NetworkPolicy", "Job"}
    for each in found:
        each["metadata"]["namespace"] = namespace
        collection = cluster.client.path(each).rpartition("/")[0]
        created = cluster.client.post(f"{collection}?fieldValidation=Strict&dryRun=All", each)
        assert created["kind"] == each["kind"]
