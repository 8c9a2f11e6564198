"""``opm index manifests``: the pod of a CatalogSource."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from tests.kit.opm import Opm

MANIFESTS = ("index", "manifests", "quay.io/me/catalog:1")


def test_pod_of_the_catalog(opm: Opm) -> None:
    (opm.directory / "pod.yaml").write_text("affinity: {podAntiAffinity: {}}\nmemoryTarget: 1Gi\n")
    flags = (
        *("--extract-content", "--memory-target", "512Mi", "--node-selector", "a=b,c=", "--priority", "7"),
        *("--toleration", "x:NoSchedule,y=z", "--priority-class", "high", "--pod-config", "pod.yaml"),
    )
    spec = yaml.safe_load(opm(*MANIFESTS, *flags))["spec"]
    assert spec["priority"] == 7
    assert spec["grpcPodConfig"] == {
        "affinity": {"podAntiAffinity": {}},
        "memoryTarget": "512Mi",
        "nodeSelector": {"a": "b", "c": ""},
        "tolerations": [
            {"key": "x", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "y", "operator": "Equal", "value": "z"},
        ],
        "priorityClassName": "high",
        "extractContent": {"catalogDir": "/configs"},
    }
    directories = yaml.safe_load(opm(*MANIFESTS, "--extract-catalog-dir", "/c", "--extract-cache-dir", "/cache"))
    assert directories["spec"]["grpcPodConfig"]["extractContent"] == {"catalogDir": "/c", "cacheDir": "/cache"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*MANIFESTS, "--memory-target", "1m"), "invalid memory target '1m'"),
        ((*MANIFESTS, "--node-selector", "a"), "--node-selector: 'a' is not a label"),
        ((*MANIFESTS, "--toleration", "a:b"), "toleration: invalid effect 'b'"),
        ((*MANIFESTS, "--pod-config", "none.yaml"), "none.yaml: No such file or directory"),
        ((*MANIFESTS, "--pod-config", "pod.yaml"), "pod.yaml:2:3: grpcPodConfig.affinity.x: unknown field"),
        (("index", "manifests", "--address", "a:1", "--extract-content"), "a:1: pod configuration unsupported"),
    ],
)
def test_invalid_settings_of_the_pod(opm: Opm, arguments: tuple[str, ...], message: str) -> None:
    (opm.directory / "pod.yaml").write_text("affinity:\n  x: {}\n")
    done = opm.attempt(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {message}")
    assert "  hint: " in done.stderr
