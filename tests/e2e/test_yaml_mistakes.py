"""Mistakes in YAML files: the line of the mistake, and no findings that only follow from it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    from tests.kit.opm import Opm


def test_a_missing_colon_in_a_catalog(opm: Opm) -> None:
    (opm.directory / "catalog").mkdir()
    opm.directory.joinpath("catalog/c.yaml").write_text(
        "schema: olm.package\nname: reef\ndefaultChannel stable\n---\n"
        "schema: olm.channel\npackage: reef\nname: stable\nentries:\n- name: reef.v1.0.0\n"
    )
    done = opm.attempt("validate", "catalog")
    assert done.returncode == 1
    assert "catalog/c.yaml:3: error: invalid YAML or JSON: a key without ':'" in done.stderr
    assert "unknown package" not in done.stderr
    assert "(1 error, 0 warnings)" in done.stderr


def test_a_missing_colon_in_a_mirror_configuration(opm: Opm) -> None:
    opm.directory.joinpath("set.yaml").write_text(
        "apiVersion: mirror.openshift.io/v2alpha1\nkind: ImageSetConfiguration\nmirror:\n  operators:\n"
        "    - catalog: localhost:1/reef\n      packages:\n        - name: reef\n          channels\n"
        "            - name: stable\n"
    )
    done = opm.attempt("mirror", "--config", "set.yaml", "--to", "127.0.0.1:1/m", "--dry-run")
    assert done.returncode == 1
    assert "set.yaml:8:11: a key without ':'" in done.stderr


def test_a_missing_colon_in_a_bundle(opm: Opm) -> None:
    shutil.copytree(LAGOON / "0.1.0", opm.directory / "lagoon")
    (csv,) = (opm.directory / "lagoon/manifests").glob("*clusterserviceversion.yaml")
    text = csv.read_text()
    line = text.count("\n") + 1
    csv.write_text(text + "foobar\n")
    done = opm.attempt("bundle", "validate", "./lagoon")
    assert done.returncode == 1
    assert f"    {line}:1 error LOAD-DECODE: invalid YAML or JSON: a key without ':'\n      | foobar\n" in done.stdout
    assert "1 bundle, 1 error, 0 warnings" in done.stdout


def test_findings_of_a_catalog_have_the_lines_of_values(opm: Opm) -> None:
    (opm.directory / "catalog").mkdir()
    opm.directory.joinpath("catalog/c.yaml").write_text(
        "---\nschema: olm.package\nname: reef\ndefaultChannel: stable\n---\n# entries\n"
        "schema: olm.channel\npackage: reef\nname: stable\nentries:\n- name: reef.v1.0.0\n- name: reef.v1.1.0\n"
        "  replaces: reef.v1.0.0\n---\nschema: olm.deprecations\npackage: reef\nentries:\n"
        "- message: old\n  reference: {schema: olm.channel, name: stable}\n"
        "- message: old\n  reference:\n    schema: olm.channel\n    name: beta\n"
    )
    done = opm.attempt("validate", "catalog")
    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if line.startswith("catalog/")]
    assert [line.split(":")[1] for line in errors] == ["11", "20"]
    assert "reef.v1.1.0" in done.stderr
    assert done.stderr.count("catalog/c.yaml:12") == 1
    assert 'cannot deprecate channel "beta"' in errors[-1]


def test_an_empty_related_image_is_a_warning(opm: Opm) -> None:
    (opm.directory / "catalog").mkdir()
    opm.directory.joinpath("catalog/c.yaml").write_text(
        "schema: olm.package\nname: reef\ndefaultChannel: stable\n---\n"
        "schema: olm.channel\npackage: reef\nname: stable\nentries:\n- name: reef.v1.0.0\n---\n"
        "schema: olm.bundle\npackage: reef\nname: reef.v1.0.0\nimage: quay.io/x/reef:1\nproperties:\n"
        "- type: olm.package\n  value: {packageName: reef, version: 1.0.0}\n"
        "relatedImages:\n- name: tool\n  image: quay.io/x/reef:1\n- name: other\n  image: ''\n"
    )
    done = opm.attempt("validate", "catalog", "--output", "text")
    assert done.returncode == 0
    assert "catalog/c.yaml:21: warning: " in done.stderr
    assert "relatedImages[1] has no image [FBC-RELATED-IMAGE]" in done.stderr


def test_an_argument_as_a_flag(opm: Opm) -> None:
    done = opm.attempt("mirror", "catalog", "--packages", "reef", "--to", "localhost:1/x")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Error: unknown flag: --packages",
        "  hint: pass PACKAGE[:CHANNEL,...][@RANGE] without a flag; run 'opm mirror --help' for examples",
    ]
