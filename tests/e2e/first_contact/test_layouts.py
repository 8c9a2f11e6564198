"""``opm bundle validate`` on directories that are not laid out as a bundle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.kit.broken import BASE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm

PACKAGE = "packageName: demo\nchannels:\n- {name: stable, currentCSV: demo.v1.2.3}\n- {name: beta}\n"


def write(directory: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_bundles_in_subdirectories_are_named_in_the_hint(newcomer: InstalledOpm) -> None:
    write(newcomer.directory / "operator" / "1.2.3", BASE)
    (newcomer.directory / "operator" / "README.md").write_text("# Demo\n")
    done = newcomer.attempt("bundle", "validate", "operator")
    assert done.returncode == 1
    assert "operator: no manifests directory: there are bundles in subdirectories: operator/1.2.3" in done.stdout
    assert "operator/1.2.3" in done.stdout.partition("hint: ")[2]
    assert newcomer("bundle", "validate", "operator/1.2.3").startswith("operator/1.2.3: no findings")


def test_a_package_manifest_directory_is_validated_with_its_versions(newcomer: InstalledOpm) -> None:
    package = newcomer.directory / "demo"
    write(package / "1.2.3", {path.rpartition("/")[2]: raw for path, raw in BASE.items() if "manifests/" in path})
    (package / "demo.package.yaml").write_text(PACKAGE)
    done = newcomer.attempt("bundle", "validate", "demo", "--output", "json")
    assert done.returncode == 1
    of_package, of_version = json.loads(done.stdout)["bundles"]
    assert [of_package["target"], of_version["target"]] == ["demo", "demo/1.2.3"]
    assert {one["rule"] for one in of_package["findings"]} == {"PKG-DEFAULT-EMPTY", "PKG-CHANNEL-CSV"}
    assert of_version["name"] == "demo.v1.2.3"
    assert not [one for one in of_version["findings"] if one["validator"] in ("format", "packagemanifest")]


def test_case_of_fields_is_handled_as_in_go_opm(newcomer: InstalledOpm) -> None:
    path = "manifests/demo.clusterserviceversion.yaml"
    write(newcomer.directory / "demo", {**BASE, path: BASE[path].replace(b"\n  displayName:", b"\n  DisplayName:")})
    done = newcomer.attempt("bundle", "validate", "demo", "--output", "json")
    assert done.returncode == 1
    (bundle,) = json.loads(done.stdout)["bundles"]
    errors = {(one["rule"], one["validator"]) for one in bundle["findings"] if one["severity"] == "error"}
    assert errors == {("CSV-REQUIRED-FIELD", "opm-content")}
