"""Checks of openshift-preflight: images, versions of OpenShift, and outcomes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.labels import PACKAGE
from opmkit.bundle.validation import preflight
from opmkit.bundle.validation.openshift import VERSIONS
from opmkit.bundle.validation.preflight import CheckName, CheckOutcome
from opmkit.bundle.validation.profiles import PREFLIGHT, profile_named
from opmkit.bundle.validation.run import run_profile
from tests.kit.broken import BASE
from tests.kit.validation import view

CSV = "manifests/demo.clusterserviceversion.yaml"
DIGEST = f"@sha256:{'0' * 64}"


def with_csv(**spec: Any) -> dict[str, bytes]:
    """Return the valid bundle with other fields in the spec of its ClusterServiceVersion."""
    csv = yaml.safe_load(BASE[CSV])
    csv["spec"] |= spec
    return {**BASE, CSV: yaml.safe_dump(csv).encode()}


def with_versions(value: object) -> dict[str, bytes]:
    annotations = yaml.safe_load(BASE[preflight.ANNOTATIONS_FILE])
    annotations["annotations"][VERSIONS] = value
    return {**BASE, preflight.ANNOTATIONS_FILE: yaml.safe_dump(annotations).encode()}


@pytest.mark.parametrize(
    ("versions", "kubernetes"),
    [
        ("v4.9", "1.35"),  # a minimum: the latest release counts
        ("=v4.9", "1.22"),
        ("v4.9-v4.12", "1.25"),
        ('"v4.12"', "1.35"),
        ("v4.23", "1.36"),
        ("v4.24", ""),
        ("=v3.11", ""),
        ("", ""),
        (4.9, "1.35"),  # numbers are converted to strings
    ],
)
def test_the_kubernetes_version_of_the_last_openshift_version(versions: object, kubernetes: str) -> None:
    assert preflight.as_extracted(view(with_versions(versions))).options.k8s_version == kubernetes


@pytest.mark.parametrize("versions", ["v4.14-", "v4.5,v4.6", "4", "x.y", "=x", True, ["v4.14"], {}])
def test_invalid_versions_of_openshift(versions: object) -> None:
    bundle = preflight.as_extracted(view(with_versions(versions)))
    (problem,) = preflight.metadata_problems(bundle)
    assert problem.message.startswith(f"{VERSIONS} is ")
    assert bundle.options.k8s_version == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "metadata/annotations.yaml does not exist"),
        (b"", "metadata/annotations.yaml is empty"),
    ],
)
def test_unreadable_annotations(content: bytes | None, message: str) -> None:
    files = {path: raw for path, raw in BASE.items() if path != preflight.ANNOTATIONS_FILE}
    bundle = view(files if content is None else {**files, preflight.ANNOTATIONS_FILE: content})
    assert [problem.message for problem in preflight.metadata_problems(bundle)] == [message]


@pytest.mark.parametrize(
    "content", [b"[]", b"{", b"text", b"annotations: 1", f"annotations: {{{PACKAGE}: []}}".encode()]
)
def test_annotations_that_are_not_yaml(content: bytes) -> None:
    bundle = view({**BASE, preflight.ANNOTATIONS_FILE: content})
    assert [problem.file for problem in preflight.load_problems(bundle)] == [preflight.ANNOTATIONS_FILE]
    checks = preflight.enforced_checks(run_profile(bundle, profile_named(PREFLIGHT)))
    assert {check.outcome for check in checks} == {CheckOutcome.ERROR}


def test_manifests_are_in_their_directory() -> None:
    raw = BASE[preflight.ANNOTATIONS_FILE].replace(b"manifests/", b"other/")
    assert preflight.as_extracted(view({**BASE, preflight.ANNOTATIONS_FILE: raw})).csv


def test_only_extracted_files_are_read() -> None:
    files = {**BASE, "manifests/more/bad.yaml": b"{", "metadata/other.yaml": b"{", "tests/x.yaml": b"{"}
    extracted = preflight.as_extracted(view(files))
    assert set(extracted.files) == {path for path in BASE if path != "metadata/dependencies.yaml"}
    assert run_profile(view(files), profile_named(PREFLIGHT)) == []


def unlisted(**spec: Any) -> list[str]:
    csv = yaml.safe_load(BASE[CSV])
    csv["metadata"]["annotations"] = {}
    csv["spec"] |= spec
    found = preflight.check_related_images(view({**BASE, CSV: yaml.safe_dump(csv).encode()}))
    return [problem.message.split()[2] for problem in found.problems]


def test_related_images_with_a_scheme_are_not_found() -> None:
    related = [{"name": "a", "image": "oci://a.b/c:1"}, {"name": "b", "image": "d:1"}, {"name": "c", "image": "e/f"}]
    assert unlisted(relatedImages=related, install=deployments(image="d:1")) == ["oci:/a.b/c:1", "e/f:latest"]


def deployments(**container: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "a", **container}]}
    return {"strategy": "deployment", "spec": {"deployments": [{"spec": {"template": {"spec": pod}}}]}}


def test_images_of_containers_their_environment_and_annotations() -> None:
    variables = [{"name": "RELATED_IMAGE_X", "value": "a.b/env:1"}, {"name": "OTHER", "value": "a.b/other:1"}]
    install = deployments(image="a.b/main", env=variables)
    install["spec"]["deployments"][0]["spec"]["template"]["metadata"] = {"annotations": {"x": "(a.b/noted:1)"}}
    assert unlisted(install=install, relatedImages=[]) == ["a.b/main:latest", "a.b/env:1", "a.b/noted:1"]
    related = [{"name": name, "image": image} for name, image in [("a", "a.b/main:latest"), ("b", "a.b/env:1")]]
    assert unlisted(install=install, relatedImages=related) == ["a.b/noted:1"]


@pytest.mark.parametrize(
    ("text", "images"),
    [
        ("First is a.b/c:1. Second is d.e:5000/f/g@sha256:" + "a" * 64, ["a.b/c:1", "d.e:5000/f/g@sha256:" + "a" * 64]),
        ("a.b/c a.b/c: ab/c:1 https://a.b/c:1 a.b//c:1 a.b:x/c:1 a@b.c/d:1 a.b/c:d/e:1 a.b-/c:1 a.b/c@sha256:12", []),
        ("." * 100_000 + "/" + "a-" * 100_000, []),
    ],
)
def test_images_in_texts(text: str, images: list[str]) -> None:
    csv = yaml.safe_load(BASE[CSV])
    csv["metadata"]["annotations"]["note"] = text
    found = preflight.check_related_images(view({**BASE, CSV: yaml.safe_dump(csv).encode()}))
    assert [problem.message.split()[2] for problem in found.problems] == images


@pytest.mark.parametrize(
    ("install", "where"),
    [
        ({}, "spec.install.spec.deployments is missing"),
        ({"spec": {"deployments": {}}}, "spec.install.spec.deployments is not a list"),
        (deployments(), "containers[0].image is missing"),
        (deployments(image=1), "containers[0].image is not a string"),
        (deployments(image="x", env={}), "containers[0].env is not a list"),
        (deployments(image="x", env=[1]), "env[0] is not a mapping"),
        (deployments(image="x", env=[{"name": "RELATED_IMAGE_X"}]), "env[0].value is missing"),
        (
            deployments(image="x", env=[{"name": "RELATED_IMAGE_X", "valueFrom": {}}]),
            "env[0].valueFrom is not supported",
        ),
    ],
)
def test_images_that_cannot_be_read(install: dict[str, Any], where: str) -> None:
    bundle = view(with_csv(install=install))
    for check in (preflight.check_related_images, preflight.check_certified_images):
        result = check(bundle)
        assert result.outcome is CheckOutcome.ERROR
        assert result.problems[0].message.endswith(where)


def test_images_need_one_csv_in_yaml() -> None:
    csv = BASE[CSV]
    for files in ({**BASE, CSV: b"kind: X"}, {**BASE, "manifests/b.yml": csv}, {**BASE, "manifests/b.yaml": b"x: 1"}):
        assert preflight.check_related_images(view(files)).outcome is CheckOutcome.ERROR


@pytest.mark.parametrize(
    ("image", "outcome"),
    [
        (f"quay.io/a/b{DIGEST}", CheckOutcome.UNKNOWN),
        (f"localhost:5000/ab{DIGEST}", CheckOutcome.UNKNOWN),
        (f"localhost:5000/a{DIGEST}", CheckOutcome.FAILED),
        (f"quay.io/a/b:1{DIGEST}", CheckOutcome.UNKNOWN),
        ("quay.io/a/b:1", CheckOutcome.FAILED),
        ("quay.io/a/b@sha256:12", CheckOutcome.FAILED),
        (f"quay.io/A/b{DIGEST}", CheckOutcome.FAILED),
    ],
)
def test_certified_images_have_digests(image: str, outcome: CheckOutcome) -> None:
    csv = yaml.safe_load(BASE[CSV])
    csv["metadata"]["annotations"] = {}
    csv["spec"] |= {"relatedImages": [], "install": deployments(image=image)}
    found = preflight.check_certified_images(view({**BASE, CSV: yaml.safe_dump(csv).encode()}))
    assert found.outcome is outcome


def test_results_of_findings() -> None:
    def outcomes(*findings: Finding) -> list[CheckOutcome]:
        return [check.outcome for check in preflight.enforced_checks(findings)]

    passed, failed, error = CheckOutcome.PASSED, CheckOutcome.FAILED, CheckOutcome.ERROR
    warning = Finding("a", severity=Severity.WARNING, rule="PREFLIGHT-RELATED-IMAGES", validator="preflight")
    assert outcomes() == outcomes(warning) == [passed, passed]
    assert outcomes(Finding("a", rule="CSV-X", validator="csv")) == [failed, passed]
    assert outcomes(Finding("a", rule="PREFLIGHT-ANNOTATIONS", validator="preflight")) == [passed, failed]
    assert outcomes(Finding("a", rule="PREFLIGHT-METADATA", validator="preflight")) == [error, passed]
    assert outcomes(Finding("a", rule="LOAD-NO-CSV", validator="load")) == [error, error]
    assert outcomes(Finding("a", rule="PREFLIGHT-LOAD", validator="preflight")) == [error, error]
    assert [check.name for check in preflight.enforced_checks(())] == [CheckName.VALID, CheckName.ANNOTATIONS]
