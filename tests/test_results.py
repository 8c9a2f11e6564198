"""Results of the public API as JSON types, compared with the output of the commands."""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import opmkit
from opmkit import CatalogClient, IndexPlan, RemovePackages, Severity
from tests.kit.catalogs import write_library
from tests.kit.opm import LAGOON
from tests.kit.server import Server

if TYPE_CHECKING:
    from tests.kit.opm import Opm

ROOT = Path(__file__).parents[1]
MANIFESTS = LAGOON / "0.1.0" / "manifests"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> opmkit.Opm:
    """The API, in the directory of the command."""
    monkeypatch.chdir(tmp_path)
    return opmkit.Opm(store=tmp_path / "store")


@pytest.mark.parametrize(
    "name", ["BuiltIndex", "Catalog", "Finding", "ValidationResult", "AddOptions", "IndexPlan", "RegistryOptions"]
)
def test_results_and_options_are_frozen_dataclasses(name: str) -> None:
    type_ = getattr(opmkit, name)
    assert is_dataclass(type_)
    parameters: Any = vars(type_)["__dataclass_params__"]
    assert parameters.frozen


@pytest.mark.parametrize("fail_on", list(Severity))
def test_validation_results_equal_the_report(opm: Opm, api: opmkit.Opm, fail_on: Severity) -> None:
    api.build_bundle(MANIFESTS, "oci:images:1", package="lagoon-operator", channels=["alpha"], output=Path("bundle"))
    bundles = ["bundle", "oci:images:missing"]
    results = [result.to_dict(fail_on) for result in api.validate_bundles(bundles)]
    done = opm.attempt("bundle", "validate", *bundles, "--profile", "all", "--output", "json", "--fail-on", fail_on)
    assert json.loads(json.dumps(results)) == json.loads(done.stdout)["bundles"]
    assert any(result["findings"] for result in results)
    assert [result["passed"] for result in results] == [fail_on is Severity.ERROR, False]


def test_bundles_are_validated_together(opm: Opm, api: opmkit.Opm) -> None:
    versions = ("0.1.0", "0.2.0", "0.3.0")
    for version in versions:
        api.build_bundle(
            LAGOON / version / "manifests",
            f"oci:images:{version}",
            package="lagoon-operator",
            channels=["alpha"],
            output=Path(version),
        )
    results = api.validate_bundles([versions[0], versions[2]])
    done = opm.attempt("bundle", "validate", versions[0], versions[2], "--profile", "all", "--output", "json")
    assert [result.to_dict() for result in results] == json.loads(done.stdout)["bundles"]
    (missing,) = [
        finding for result in results for finding in result.findings if finding.rule == "ACROSS-REPLACES-MISSING"
    ]
    assert "lagoon-operator.v0.2.0" in missing.message


def test_built_indexes_equal_the_output_of_the_command(opm: Opm, api: opmkit.Opm) -> None:
    bundle = api.build_bundle(
        MANIFESTS, "oci:images:1", package="lagoon-operator", channels=["alpha"], output=Path("bundle")
    ).reference
    source = f"{bundle}=quay.io/me/lagoon-operator:0.1.0"
    built = api.add_bundles([source], IndexPlan(tags=("oci:images:index",), binary_image="scratch"))
    printed = opm(
        *("index", "add", "--bundles", source, "--tag", "oci:images:index", "--binary-image", "scratch"),
        *("--build-tool", "none", "--output", "json"),
    )
    result = built.to_dict()
    assert json.loads(json.dumps(result)) == json.loads(printed)
    assert result["references"] == ["oci:images:index"]
    assert result["digest"].startswith("sha256:")
    assert [change["name"] for change in result["packages"]] == ["lagoon-operator"]

    plan = IndexPlan(from_index="oci:images:index", tags=("oci:images:other",), dry_run=True)
    removed = api.change_index(RemovePackages(["lagoon-operator"]), plan).to_dict()
    assert "references" not in removed
    assert removed["packages"][0]["kind"] == "removed"


def test_a_catalog_has_json_types(api: opmkit.Opm) -> None:
    catalog = api.open_index(str(ROOT / "fixtures" / "catalogs" / "valid")).catalog()
    result = catalog.to_dict()
    assert json.loads(json.dumps(result)) == result
    assert list(result["packages"]) == list(catalog.packages)
    for name, package in catalog.packages.items():
        assert list(result["packages"][name]["channels"]) == list(package.channels)


def test_results_of_the_client_equal_the_output_of_the_command(opm: Opm, tmp_path: Path) -> None:
    write_library(tmp_path / "index.db")
    with (
        Server("--database", str(tmp_path / "index.db")) as server,
        CatalogClient.connect(server.address) as client,
    ):
        flags = ("--address", server.address, "--output", "json")
        bundle = client.get_bundle("shelf", "alpha", "shelf.v1.2.0").to_dict()
        shown = opm("catalog", "get", "bundle", "shelf", "alpha", "shelf.v1.2.0", *flags)
        package = client.get_package("shelf").to_dict()
        described = opm("catalog", "get", "package", "shelf", *flags)
        listed = [entry.to_dict() for entry in client.get_channel_entries_that_replace("shelf.v1.0.0")]
    assert json.loads(json.dumps(bundle)) == json.loads(shown)
    assert bundle["csv"]["kind"] == "ClusterServiceVersion"
    assert package == json.loads(described)
    assert listed
    assert set(listed[0]) == {"package", "channel", "bundle", "replaces"}
