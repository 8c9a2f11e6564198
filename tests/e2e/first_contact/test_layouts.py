"""Directories that are not laid out as a bundle or a catalog, among them those of OCI image layouts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.kit.broken import BASE
from tests.kit.opm import LAGOON

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


@pytest.fixture
def layout(newcomer: InstalledOpm) -> InstalledOpm:
    """Return a user with a bundle image in the layout ``images``."""
    flags = ("-p", "lagoon-operator", "-c", "alpha", "-u", "bundle", "-t", "oci:images:1")
    newcomer("bundle", "build", "-d", str(LAGOON / "0.1.0" / "manifests"), *flags)
    return newcomer


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("bundle", "unpack", "./images", "--out", "files"), "bundle"),
        (("bundle", "validate", "images"), "bundle"),
        (("index", "add", "-b", "./images", "-i", "scratch", "-t", "oci:index:1"), "bundle"),
        (("render", "./images"), "catalog"),
        (("validate", "images"), "catalog"),
        (("alpha", "list", "bundles", "./images"), "catalog"),
        (("serve", "images"), "catalog"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_directory_of_an_image_layout_is_recognized(
    layout: InstalledOpm, arguments: tuple[str, ...], kind: str
) -> None:
    done = layout.attempt(*arguments)
    assert done.returncode == 1
    assert f"images: an OCI image layout, not a {kind} directory" in done.stderr
    assert "oci:images, or oci:images:TAG" in done.stderr.replace("./", "")


def test_hint_for_an_image_layout_works(layout: InstalledOpm) -> None:
    hint = layout.attempt("bundle", "unpack", "./images", "--out", "files").stderr.partition("hint: write ")[2]
    layout("bundle", "unpack", hint.split(",")[0], "--out", "files")
    assert (layout.directory / "files" / "manifests").is_dir()
