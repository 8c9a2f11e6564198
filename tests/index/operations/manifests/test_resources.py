"""Settings of the pod of a CatalogSource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from opmkit.bundle.api_types.decode import DecodeMode, decode_struct
from opmkit.imagetools.reference import Reference
from opmkit.index.errors import CatalogError
from opmkit.index.operations.manifests.resources import CatalogSource, Installation, PodConfig, build_manifests

if TYPE_CHECKING:
    from pathlib import Path

AFFINITY = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}}
ALL_FIELDS = PodConfig(
    security_context="restricted",
    memory_target="512Mi",
    catalog_directory="/configs",
    cache_directory="/tmp/cache",
    node_selector={"kubernetes.io/arch": "arm64", "pool": ""},
    tolerations=("infra:NoSchedule", "dedicated=catalogs", "any"),
    priority_class="system-cluster-critical",
    fields={"affinity": AFFINITY, "memoryTarget": "1Gi"},
)


def test_all_fields() -> None:
    assert ALL_FIELDS.manifest() == {
        "affinity": AFFINITY,
        "memoryTarget": "512Mi",
        "nodeSelector": {"kubernetes.io/arch": "arm64", "pool": ""},
        "tolerations": [
            {"key": "infra", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "dedicated", "operator": "Equal", "value": "catalogs"},
            {"key": "any", "operator": "Exists"},
        ],
        "priorityClassName": "system-cluster-critical",
        "securityContextConfig": "restricted",
        "extractContent": {"catalogDir": "/configs", "cacheDir": "/tmp/cache"},
    }
    assert PodConfig().manifest() == {}


def test_all_objects_have_the_fields_of_the_api() -> None:
    image = Reference.parse("quay.io/me/catalog:1")
    texts = {"display_name": "Catalog", "publisher": "me", "poll_interval": "1h", "secrets": ("pull",)}
    source = CatalogSource("catalog", "olm", image, pod=ALL_FIELDS, priority=1, **texts)  # type: ignore[arg-type]
    installation = Installation("shelf", "shelves", "stable", "shelf.v1", "Manual", targets=("a", "b"))
    for manifest in build_manifests(source, installation):
        if manifest["kind"] != "Namespace":
            decoded = decode_struct(manifest, manifest["kind"], DecodeMode.JSON)
            assert (decoded.unknown, decoded.mismatches) == ((), ())


@pytest.mark.parametrize("target", ["512Mi", "1.5Gi", "500M", "1048576", "1Ki", "1023Ti"])
def test_memory_targets(target: str) -> None:
    assert PodConfig(memory_target=target).manifest() == {"memoryTarget": target}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"security_context": "privileged"}, "invalid security context 'privileged'"),
        ({"memory_target": "much"}, "grpcPodConfig.memoryTarget is 'much', which is not a valid quantity"),
        ({"memory_target": "100m"}, "invalid memory target '100m'"),
        ({"memory_target": "0.5"}, "invalid memory target '0.5'"),
        ({"memory_target": "0Mi"}, "invalid memory target '0Mi'"),
        ({"memory_target": "-1Mi"}, "invalid memory target '-1Mi'"),
        ({"memory_target": "1024Ti"}, "invalid memory target '1024Ti'"),
        ({"cache_directory": "/tmp/cache"}, "cache directory without a catalog directory"),
        ({"catalog_directory": "configs"}, "catalogDir 'configs': not an absolute path"),
        ({"node_selector": {"a b": ""}}, "key of the node selector 'a b'"),
        ({"node_selector": {"a": "b c"}}, "value of the node selector 'b c'"),
        ({"priority_class": "High"}, "priority class 'High'"),
        ({"tolerations": ("a:Never",)}, "toleration: invalid effect 'Never'"),
        ({"tolerations": ("a b",)}, "key of the toleration 'a b'"),
        ({"tolerations": ("=b",)}, "key of the toleration ''"),
        ({"tolerations": ("a=b/c",)}, "value of the toleration 'b/c'"),
        ({"fields": {"tolerations": [{"operator": "In"}]}}, "toleration: invalid operator 'In'"),
        ({"fields": {"memory": "1Gi"}}, "grpcPodConfig.memory: unknown field"),
        ({"fields": {"affinity": {"nodeAfinity": {}}}}, "grpcPodConfig.affinity.nodeAfinity: unknown field"),
        ({"fields": {"nodeSelector": {"a": 1}}}, "grpcPodConfig.nodeSelector.a is a number, not a string"),
        ({"fields": {"tolerations": {}}}, "grpcPodConfig.tolerations is a mapping, not a list"),
        (
            {"fields": {"extractContent": {"catalogDir": "/c", "cacheDir": "tmp"}}},
            "cacheDir 'tmp': not an absolute path",
        ),
        ({"fields": {"extractContent": {"cacheDir": "/tmp"}}}, "cache directory without a catalog directory"),
    ],
)
def test_invalid_settings(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(CatalogError) as failure:
        PodConfig(**settings)
    assert problem in failure.value.message
    assert failure.value.hint


def test_files_of_fields(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text("affinity:\n  podAntiAffinity: {}\n")
    assert PodConfig.read_fields(path) == {"affinity": {"podAntiAffinity": {}}}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("- a", ": not a mapping"),
        ("", ": not a mapping"),
        ("a: [", ":2:1: did not find expected node content"),
        ("affinity:\n  nodeAfinity: {}", ":2:3: grpcPodConfig.affinity.nodeAfinity: unknown field"),
        ("tolerations:\n- key: 1", ":2:3: grpcPodConfig.tolerations[0].key is a number"),
        ("tolerations:\n- {key: a, operator: In}", ": toleration: invalid operator 'In'"),
        ("memoryTarget: 0", ": invalid memory target '0'"),
    ],
)
def test_invalid_files(content: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(content)
    with pytest.raises(CatalogError) as failure:
        PodConfig.read_fields(path)
    assert failure.value.message.startswith(f"{path}{problem}")
