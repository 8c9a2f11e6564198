"""``opm alpha render-template``, ``opm alpha convert-template`` and ``opm index graph``."""

from __future__ import annotations

import json
import random
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.kit.blobs import read_stream
from tests.kit.randomcatalogs import random_catalog, write_catalog
from tests.kit.rawserver import RawServer
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm

BUNDLE = "oci:bundles:1"
SEMVER = {"schema": "olm.semver", "stable": {"bundles": [{"image": BUNDLE}]}}


@pytest.fixture
def opm_with_bundle(opm: Opm) -> Opm:
    opm.build_bundle("0.1.0", BUNDLE)
    (opm.directory / "semver.yaml").write_text(yaml.safe_dump(SEMVER))
    return opm


def test_templates_are_rendered_from_files_and_standard_input_by_schema_or_type(opm_with_bundle: Opm) -> None:
    opm = opm_with_bundle
    catalog = opm("alpha", "render-template", "semver", "semver.yaml")
    assert [blob["schema"] for blob in read_stream(catalog)] == ["olm.package", "olm.channel", "olm.bundle"]
    assert opm("alpha", "render-template", "semver.yaml") == catalog
    for words in (("semver",), ("-",), (), ("semver", "-")):
        done = subprocess.run(
            opm.argv("alpha", "render-template", *words),
            cwd=opm.directory,
            input=(opm.directory / "semver.yaml").read_bytes(),
            capture_output=True,
            check=True,
        )
        assert done.stdout.decode() == catalog
    documents = list(yaml.safe_load_all(opm("alpha", "render-template", "semver.yaml", "-o", "yaml")))
    assert documents == read_stream(catalog)
    assert opm("alpha", "render-template", "semver.yaml", "-o", "mermaid").startswith("graph LR\n")


def test_catalog_is_converted_to_a_basic_template_that_renders_to_it(opm_with_bundle: Opm) -> None:
    opm = opm_with_bundle
    catalog = opm("alpha", "render-template", "semver.yaml")
    (opm.directory / "catalog.json").write_text(catalog)
    (opm.directory / "basic.yaml").write_text(opm("alpha", "convert-template", "basic", "catalog.json", "-o", "yaml"))
    assert read_stream(opm("alpha", "render-template", "basic.yaml")) == read_stream(catalog)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("nonsense", "semver.yaml"), 'invalid template type "nonsense"'),
        (("semver.yaml", "--migrate-level", "far"), 'unknown level "far"'),
        (("semver.yaml", "--allow-programs"), "--allow-programs requires the type composite"),
        (("composite", "-o", "mermaid"), "unsupported for composite templates"),
        (("missing.yaml",), "missing.yaml"),
        (("basic", "semver.yaml"), "semver.yaml:1: the schema is 'olm.semver', not 'olm.template.basic'"),
        (("composite", "-f", "semver.yaml"), "not 'olm.composite.catalogs'"),
        (("composite", "-f", "http://127.0.0.1:9/catalogs.yaml"), "connection to 127.0.0.1:9 failed"),
    ],
)
def test_errors_are_short(opm: Opm, words: tuple[str, ...], problem: str) -> None:
    (opm.directory / "semver.yaml").write_text(yaml.safe_dump(SEMVER))
    (opm.directory / "catalog").mkdir()
    (opm.directory / "catalog" / "config.yaml").write_text("schema: olm.composite\n")
    done = opm.attempt("alpha", "render-template", *words)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert problem in done.stderr
    assert len(done.stderr.splitlines()) <= 3


def test_catalogs_configuration_that_is_cut_off(opm: Opm) -> None:
    cut_off = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nschema: olm"
    with RawServer(lambda _: [cut_off]) as server:
        done = opm.attempt("alpha", "render-template", "composite", "-f", f"http://{server.host}/catalogs.yaml")
    assert (done.returncode, server.connections) == (1, 6)
    assert f"/catalogs.yaml: connection to {server.host} failed: the response ended early" in done.stderr


def test_composite_template_with_a_catalogs_configuration_from_the_web(opm: Opm, tmp_path: Path) -> None:
    catalogs = {
        "schema": "olm.composite.catalogs",
        "catalogs": [{"name": "one", "destination": {"workingDir": "work"}, "builders": ["olm.builder.raw"]}],
    }
    config = {"input": "raw.json", "output": "catalog.yaml"}
    component = {
        "name": "one",
        "destination": {"path": "demo"},
        "strategy": {"name": "raw", "template": {"schema": "olm.builder.raw", "config": config}},
    }
    (tmp_path / "config.yaml").write_text(json.dumps({"schema": "olm.composite", "components": [component]}))
    write_catalog(random.Random(0), random_catalog(random.Random(0)), tmp_path / "sound")
    (tmp_path / "raw.json").write_text(opm("render", "sound"))

    class Catalogs(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 (the base class's name)
            self.answer(200, yaml.safe_dump(catalogs).encode())

    with WebServer(Catalogs) as server:
        url = f"http://{server.host}/catalogs.yaml"
        opm("alpha", "render-template", "composite", "-f", url, "-c", "config.yaml", "-o", "yaml")
    assert opm("render", "work") == opm("render", "sound")
    (tmp_path / "raw.json").write_text('{"schema": "olm.package", "name": "half"}')
    (tmp_path / "catalogs.yaml").write_text(yaml.safe_dump(catalogs))
    words = ("alpha", "render-template", "composite", "-c", "config.yaml")
    assert "default channel must be set" in opm.attempt(*words).stderr
    opm(*words, "--validate=false")


def test_graph_of_missing_empty_and_existing_catalogs(opm: Opm) -> None:
    for words, problem in (
        (("missing", "reef"), "missing: no such file or directory, and not found as an image"),
        ((".", "reef"), 'package "reef" not found'),
        ((".", "--channel", "beta"), "--channel requires a package"),
    ):
        done = opm.attempt("index", "graph", *words)
        assert done.returncode == 1
        assert problem in done.stderr
    assert "The catalog is empty." in opm("index", "graph", ".")
    assert opm("index", "graph", ".", "-o", "dot").startswith("digraph")
