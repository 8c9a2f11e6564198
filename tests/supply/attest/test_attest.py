"""SBOM and provenance of bundle and index images."""

from __future__ import annotations

import json

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from opmkit.supply.attest.contents import (
    OPMKIT,
    ContainedBundle,
    ContentKind,
    ImageContents,
    image_digest,
    package_url,
    provenance,
    sbom,
)

A, B, C = (f"sha256:{letter * 64}" for letter in "abc")
INDEX = ImageContents(
    f"quay.io/me/catalog@{A}",
    ContentKind.INDEX,
    (
        ContainedBundle(
            "lagoon", "lagoon.v1", "", f"quay.io/me/lagoon@{B}", ("quay.io/me/app:1", f"quay.io/me/db@{C}")
        ),
        ContainedBundle("reef", "reef.v1", "", "quay.io/me/reef:1", ("quay.io/me/app:1", "not an image")),
        ContainedBundle("atoll", "atoll.v1"),
    ),
    base=f"quay.io/operator-framework/opm@{C}",
    previous=B,
)
BUNDLE = ImageContents(
    f"quay.io/me/lagoon@{B}",
    ContentKind.BUNDLE,
    (ContainedBundle("lagoon", "lagoon.v1", "1.0.0", related_images=("quay.io/me/app:1",)),),
)


@pytest.mark.parametrize("contents", [INDEX, BUNDLE], ids=["index", "bundle"])
def test_sbom_is_valid(contents: ImageContents, monkeypatch: pytest.MonkeyPatch) -> None:
    document = sbom(contents)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document)) is None
    assert sbom(contents) == document
    assert "timestamp" not in document["metadata"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    document = sbom(contents)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document)) is None
    assert document["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"


def test_sbom_of_an_index() -> None:
    document = sbom(INDEX)
    assert document["metadata"]["component"]["version"] == A
    components = {component["bom-ref"]: component for component in document["components"]}
    lagoon = components[f"quay.io/me/lagoon@{B}"]
    assert (lagoon["name"], lagoon["version"]) == ("lagoon.v1", B)
    assert lagoon["properties"][0] == {"name": "opmkit:package", "value": "lagoon"}
    assert "purl" not in components["not an image"]
    dependencies = {entry["ref"]: entry["dependsOn"] for entry in document["dependencies"]}
    assert dependencies[f"quay.io/me/lagoon@{B}"] == ["quay.io/me/app:1", f"quay.io/me/db@{C}"]
    assert dependencies[f"quay.io/me/catalog@{A}"] == sorted(
        [f"quay.io/me/lagoon@{B}", "quay.io/me/reef:1", "bundle:atoll/atoll.v1", INDEX.base]
    )


def test_sbom_of_a_bundle() -> None:
    (operator, image) = sbom(BUNDLE)["components"]
    assert (operator["type"], operator["name"], operator["version"]) == ("application", "lagoon.v1", "1.0.0")
    assert image["purl"] == "pkg:oci/app?repository_url=quay.io/me/app&tag=1"


def test_provenance(monkeypatch: pytest.MonkeyPatch) -> None:
    document = provenance(INDEX)
    build = document["buildDefinition"]
    assert build["buildType"] == "urn:opmkit:build:index:v1"
    assert build["externalParameters"]["bundles"][2] == {"package": "atoll", "name": "atoll.v1"}
    materials = {entry["name"]: entry.get("digest") for entry in build["resolvedDependencies"]}
    assert materials == {
        f"quay.io/me/lagoon@{B}": {"sha256": B[7:]},
        "quay.io/me/reef:1": None,
        INDEX.base: {"sha256": C[7:]},
        "previous index": {"sha256": B[7:]},
    }
    assert document["runDetails"]["builder"]["id"] == OPMKIT
    assert document["runDetails"]["metadata"] == {}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    document = provenance(INDEX, "https://ci.example.com/workflow")
    assert document["runDetails"]["builder"]["id"] == "https://ci.example.com/workflow"
    assert document["runDetails"]["metadata"] == {"finishedOn": "1970-01-01T00:00:00Z"}


def test_package_urls() -> None:
    assert package_url(f"quay.io/me/lagoon:1@{A}") == (
        f"pkg:oci/lagoon@sha256%3A{A[7:]}?repository_url=quay.io/me/lagoon&tag=1"
    )
    assert package_url("localhost:5000/x") == "pkg:oci/x?repository_url=localhost%3A5000/x"
    assert package_url("\x1b[2J") == image_digest("\x1b[2J") == ""
