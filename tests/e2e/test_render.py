"""``opm render`` and ``opm migrate``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from opmkit.bundle import labels
from tests.kit.blobs import read_stream
from tests.kit.bundles import bundle_content, bundle_image, push_image
from tests.kit.catalogs import write_library
from tests.kit.images import small_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry


@pytest.fixture
def bundle(tmp_path: Path) -> str:
    """Return the path of a bundle directory."""
    for name, raw in bundle_content("lagoon", "1.0.0").items():
        (tmp_path / "lagoon" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lagoon" / name).write_bytes(raw)
    return str(tmp_path / "lagoon")


@pytest.fixture
def index(tmp_path: Path) -> str:
    """Return the path of an index database."""
    write_library(tmp_path / "index.db")
    return str(tmp_path / "index.db")


def test_index_and_bundle_are_printed_by_package(opm_http: Opm, index: str, registry: Registry, tmp_path: Path) -> None:
    name = push_image(f"{registry.host}/e2e-render/lagoon:1", bundle_image("lagoon", "1.0.0", tmp_path))
    printed = opm_http("render", index, name)
    blobs = [(blob["schema"], blob.get("package", ""), blob["name"]) for blob in read_stream(printed)]
    assert blobs[0] == ("olm.package", "", "book")
    assert blobs[3] == ("olm.bundle", "lagoon", "lagoon.v1.0.0")
    assert printed == opm_http("render", name, index)
    assert len(read_stream(opm_http("render", name, name, "--no-cache"))) == 2
    documents = list(yaml.safe_load_all(opm_http("render", index, name, "-o=yaml")))
    assert documents == read_stream(printed)


def test_only_rendered_images_are_asked_for_their_digests(opm_http: Opm, registry: Registry, tmp_path: Path) -> None:
    """At first, and without the cache, the request for the digest of a tag would be one more for each image."""
    name = push_image(f"{registry.host}/e2e-render/requests:1", bundle_image("lagoon", "1.0.0", tmp_path))

    def methods(*flags: str) -> list[str]:
        before = len(registry.requests())
        assert "lagoon.v1.0.0" in opm_http("render", name, *flags)
        return [request.method for request in registry.requests()[before:]]

    assert methods() == ["GET"] * 3
    assert methods() == ["HEAD"]
    assert methods("--no-cache") == ["GET"] * 2  # the layer is in the store
    missing = opm_http.attempt("render", f"{name}-no")
    assert missing.stderr.startswith(f"Error: {name}-no: not found in the registry (Not Found)\n")


def test_an_index_image_is_resolved_and_read_by_one_request(opm_http: Opm, registry: Registry, tmp_path: Path) -> None:
    catalog = {"configs/catalog.yaml": b"schema: olm.package\nname: lagoon\ndefaultChannel: stable\n"}
    (tmp_path / "layer").mkdir()
    image = small_image(tmp_path / "layer", catalog, labels={labels.INDEX_CONFIGS: "/configs"})
    name = push_image(f"{registry.host}/e2e-render/index:1", image)
    before = len(registry.requests())
    assert opm_http("alpha", "render-graph", name).startswith("graph LR\n")
    assert [request.method for request in registry.requests()[before:]] == ["GET"] * 3


def test_output_is_a_catalog(opm: Opm, index: str, tmp_path: Path) -> None:
    (tmp_path / "catalog").mkdir()
    printed = opm.here("render", index, "--migrate")
    (tmp_path / "catalog" / "any").write_text(printed)
    assert printed == opm.here("render", index, "--migrate-level=all")
    assert read_stream(opm.here("render", str(tmp_path / "catalog"))) == read_stream(printed)
    assert "olm.csv.metadata" in printed
    assert "olm.bundle.object" not in printed


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_index_is_migrated_to_a_directory(opm: Opm, index: str, form: str, tmp_path: Path) -> None:
    assert opm.here("migrate", index, str(tmp_path / "out"), "--output", form) == ""
    files = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*"))
    assert files == [f"book/catalog.{form}", f"shelf/catalog.{form}"]
    assert opm.here("render", str(tmp_path / "out")) == opm.here("render", index)
    again = opm.attempt("migrate", index, "out")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.startswith("Error: out: already exists and is not an empty directory")


def test_bundle_gets_its_image_from_a_template(opm: Opm, bundle: str) -> None:
    done = opm.attempt("render", bundle, "--alpha-image-ref-template", "quay.io/me/{{.Package}}:v{{.Version}}")
    assert json.loads(done.stdout)["image"] == "quay.io/me/lagoon:v1.0.0"
    assert done.stderr == ""
    refused = opm.attempt("render", bundle, "--alpha-image-ref-template", "{{.Tag}}")
    assert refused.returncode == 1
    assert "{{.Tag}}" in refused.stderr
    assert "hint: " in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["render"], "Missing argument"),
        (["render", "x", "--migrate", "--migrate-level", "none"], "mutually exclusive"),
        (["render", "x", "--migrate-level", "most"], "none, bundle-object-to-csv-metadata, all"),
        (["render", "x", "-o", "text"], "json"),
        (["migrate", "x"], "Missing argument"),
        (["migrate", "lagoon", "out"], "is a bundle directory"),
        (["render", "nothing"], "nothing: no such file or directory"),
        (["render", "lagoon/manifests/csv.yaml"], "not a database"),
    ],
)
@pytest.mark.usefixtures("bundle")
def test_errors_have_one_line_and_a_hint(opm: Opm, arguments: list[str], message: str) -> None:
    done = opm.attempt(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert message in done.stderr
    assert "hint: " in done.stderr
