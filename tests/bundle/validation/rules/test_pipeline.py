"""Rules of the validators ``pipeline`` and ``community-pipeline``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.kit.broken import BASE
from tests.kit.validation import findings, view

if TYPE_CHECKING:
    from opmkit.bundle.finding import Finding

CSV, ANNOTATIONS = "manifests/demo.clusterserviceversion.yaml", "metadata/annotations.yaml"
VERSIONS = "com.redhat.openshift.versions"


def check(minimum: Any, openshift: Any, config: str = "") -> list[Finding]:
    """Return the findings for a minKubeVersion, an annotation, or none, and the ci.yaml of the operator."""
    csv, annotations = yaml.safe_load(BASE[CSV]), yaml.safe_load(BASE[ANNOTATIONS])
    csv["spec"]["minKubeVersion"] = minimum
    annotations["annotations"].pop(VERSIONS, None)
    if openshift is not None:
        annotations["annotations"][VERSIONS] = openshift
    files = {**BASE, CSV: yaml.safe_dump(csv).encode(), ANNOTATIONS: yaml.safe_dump(annotations).encode()}
    found = findings(view(files, operator_config=config.encode()), "community-pipeline")
    return [finding for finding in found if finding.rule == "PIPELINE-KUBE-VERSION"]


@pytest.mark.parametrize(
    ("minimum", "openshift", "severity"),
    [
        ("1.27.0", "v4.14", ""),
        ("1.27.0", "v4.13", "error"),
        ("1.27.1", "v4.14", "error"),
        ("1.27.1", "v4.15", ""),
        ("1.27", "v4.14-v4.16", ""),
        ("1.27.0-rc.1", "4.14", ""),
        ("1.27.0", "v4.12-v4.14", "error"),
        ("1.27.0", "v4.14-v4.12", ""),
        ("1.27.0", "=v4.14", ""),
        ("1.27.0", "=v4.13", "error"),
        ("1.31.0", "v4.18", ""),
        ("1.31.0", "=v4.18", "error"),
        ("1.18.0", "v4.5,v4.6", ""),
        ("1.18.0", "v4.5,v4.7", "warning"),
        ("1.27.0", None, "error"),
        ("1.27.0", "", "error"),
        ("1.27.0", "latest", "error"),
        ("1.27.0", 4.14, "error"),
        ("v1.27.0", "v4.14", "error"),
        (1.27, "v4.14", "error"),
        ("", None, ""),
    ],
)
def test_kubernetes_and_openshift_versions(minimum: Any, openshift: Any, severity: str) -> None:
    assert [finding.severity.value for finding in check(minimum, openshift)] == ([severity] if severity else [])
    assert check(minimum, openshift, "fbc: {enabled: true}") == []


@pytest.mark.parametrize("config", ["fbc: {enabled: false}", "fbc: true", "fbc: [enabled]", "[1]", "a: [", "\0"])
def test_configurations_without_catalogs(config: str) -> None:
    assert len(check("1.27.0", None, config)) == 1


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("demo.service.yaml", "kind: Service\n", 0),
        ("demo.service.yaml", "---\nkind: Service\n", 0),
        ("demo.service.yaml", "# text\n\n---\nkind: Service\n", 0),
        ("demo.service.yaml", "kind: Service\na: |\n  ---\n  x\n", 0),
        ("demo.service.yaml", "kind: Service\na: '='\nb: !!str x\nc: ! x\n", 0),
        ("demo.service.yaml", "kind: Service\n---\n", 2),
        ("demo.service.yml", "kind: Service\na: [=, b]\n", 2),
        ("demo.service.yml", "kind: Service\na: !x y\n", 2),
        ("demo.service.json", "kind: Service\n---\n", 0),
    ],
)
def test_files_that_the_pipelines_cannot_read(name: str, content: str, line: int) -> None:
    found = findings(view({**BASE, f"manifests/{name}": content}), "pipeline")
    assert [(finding.rule, finding.line) for finding in found] == ([("PIPELINE-YAML", line)] if line else [])


def test_files_in_other_encodings() -> None:
    found = findings(view({**BASE, "manifests/demo.service.yaml": "kind: Service\n".encode("utf-16")}), "pipeline")
    assert [finding.rule for finding in found] == ["PIPELINE-YAML"]


def test_files_with_network_policies() -> None:
    policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"
    for name, number in {"a.yaml": 1, "a.yml": 1, "a.json": 0, "a": 0}.items():
        assert len(findings(view({**BASE, f"manifests/{name}": policy}), "pipeline")) == number


@pytest.mark.parametrize(
    ("created", "is_valid"),
    [
        ("2026-01-31", True),
        ("'2026'", True),
        ("'2026-01'", True),
        ("'2026-031'", True),
        ("'2026-366'", False),
        ("'2026-01-31T24:00:00Z'", True),
        ("'2026-01-31T09:00:00.123456789Z'", True),
        ("2026-1-31T9:00:00.0Z", True),
        ("'2026-1-31T9:00:00.0Z'", False),
        ("31/01/2026", False),
        ("'2026-13-01'", False),
    ],
)
def test_creation_times(created: str, is_valid: bool) -> None:
    csv = BASE[CSV].replace(b"createdAt: '2026-01-31T09:00:00Z'", f"createdAt: {created}".encode())
    found = findings(view({**BASE, CSV: csv}), "community-pipeline")
    assert [finding.rule for finding in found] == ([] if is_valid else ["PIPELINE-RECOMMENDED-FIELD"])


@pytest.mark.parametrize(
    ("categories", "count"),
    [("Database, Storage", 0), ("Drivers and plugins", 0), ("Observability", 1), ("Storage,", 1), ("storage", 1)],
)
def test_categories(categories: str, count: int) -> None:
    csv = BASE[CSV].replace(b"categories: Developer Tools", f"categories: {categories}".encode())
    assert len(findings(view({**BASE, CSV: csv}), "community-pipeline")) == count
