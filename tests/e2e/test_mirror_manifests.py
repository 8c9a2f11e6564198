"""``opm mirror --manifests``: clusters and podman use the mirror."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.kit.content import noise
from tests.kit.engines import Engine
from tests.kit.images import small_image
from tests.kit.mirror_site import MirrorSite, SampleBundle

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry


@pytest.fixture
def site(registry: Registry, tmp_path: Path) -> MirrorSite:
    return MirrorSite(registry.host, f"src-{tmp_path.name.replace('_', '-').lower()}", tmp_path)


def read_manifests(directory: Path) -> dict[str, Any]:
    """Return the first object of each file by its kind."""
    documents = [yaml.safe_load(path.read_text()) for path in directory.glob("*.yaml")]
    return {document["kind"]: document for document in documents}


def test_manifests_refer_to_the_mirror(opm_http: Opm, site: MirrorSite, tmp_path: Path) -> None:
    fish, kelp = site.push_operand("team/fish", 21), site.push_operand("team/kelp", 22)
    by_tag = f"{kelp.partition('@')[0]}:1"
    catalog = site.push_catalog([SampleBundle("reef", "1.0.0", site.push_bundle("team/reef", 1), [fish, by_tag])])
    to = f"{site.host}/to-{site.prefix}"
    done = opm_http.attempt("mirror", catalog, "--to", to, "--manifests", "out/cluster")
    assert done.returncode == 0, done.stderr
    assert "manifests written to out/cluster: cc-catalog-1.yaml, cs-catalog-1.yaml, idms-operator.yaml" in done.stderr
    found = read_manifests(tmp_path / "out" / "cluster")
    assert sorted(found) == ["CatalogSource", "ClusterCatalog", "ImageDigestMirrorSet", "ImageTagMirrorSet"]
    entry = {"mirrors": [f"{to}/{site.prefix}/team"], "source": f"{site.host}/{site.prefix}/team"}
    assert found["ImageDigestMirrorSet"]["spec"] == {"imageDigestMirrors": [entry]}
    assert found["ImageTagMirrorSet"]["spec"] == {"imageTagMirrors": [entry]}
    assert found["CatalogSource"]["spec"]["image"] == f"{to}/{site.prefix}/catalog:1"
    assert found["ClusterCatalog"]["spec"]["source"]["image"]["ref"] == f"{to}/{site.prefix}/catalog:1"


def test_podman_pulls_a_source_from_the_mirror(opm_http: Opm, site: MirrorSite, tmp_path: Path) -> None:
    bundle = site.push_bundle("team/reef", 1)
    catalog = site.push_catalog([SampleBundle("reef", "1.0.0", bundle)])
    to = f"{site.host}/to-{site.prefix}"
    flags = ("--manifests", "out", "--never-contact-source", "--manifest-scope", "repository", "-o", "json")
    opm_http("mirror", catalog, "--to", to, *flags, "--manifest-namespace", "olm")
    (entry,) = read_manifests(tmp_path / "out")["ImageDigestMirrorSet"]["spec"]["imageDigestMirrors"]
    assert (entry["source"], entry["mirrorSourcePolicy"]) == (bundle.partition("@")[0], "NeverContactSource")
    with Engine("podman") as podman:
        conf = (tmp_path / "out" / "registries.conf").read_text()
        unreachable = "quay.invalid/team/reef"
        (podman.path / "registries.conf").write_text(
            conf.replace(f"{site.host}/{site.prefix}/team/reef", unreachable, 2)
        )
        image = f"{unreachable}@{bundle.partition('@')[2]}"
        podman.run("pull", "--quiet", image)
        assert bundle.partition("@")[2] in podman.run("image", "inspect", "--format", "{{.Digest}}", image)


def extracted(manifests: dict[str, Any]) -> dict[str, Any] | None:
    """Return the directories that OLM extracts from the image of a CatalogSource, None if it runs the image."""
    found: dict[str, Any] | None = manifests["spec"].get("grpcPodConfig", {}).get("extractContent")
    return found


@pytest.mark.parametrize(("program", "expected"), [("bin/opm", None), ("bin/sh", {"catalogDir": "/configs"})])
def test_olm_serves_a_catalog_whose_image_has_no_server(
    opm_http: Opm, site: MirrorSite, tmp_path: Path, program: str, expected: dict[str, str] | None
) -> None:
    site.push("base", "1", small_image(tmp_path, {program: noise(100_000, 3)}))
    base = f"{site.host}/{site.prefix}/base:1"
    site.write_catalog(tmp_path / "catalog", [SampleBundle("reef", "1.0.0", site.push_bundle("team/reef", 1))])
    name = f"{site.host}/{site.prefix}/served:1"
    opm_http("index", "build", "catalog", "-i", base, "-t", name, "--push")
    to = f"{site.host}/to-{site.prefix}"
    opm_http("mirror", name, "--to", to, "--manifests", "cluster")
    assert extracted(read_manifests(tmp_path / "cluster")["CatalogSource"]) == expected
    assert extracted(yaml.safe_load(opm_http("index", "manifests", name))) == expected
    runs = next(line for line in opm_http("image", "inspect", name).splitlines() if line.startswith("Runs:"))
    assert runs.endswith(
        "/bin/opm serve /configs" if expected is None else "(fails: the image does not contain /bin/opm)"
    )
    (image,) = json.loads(opm_http("image", "inspect", name, "-o", "json"))["images"]
    assert image["hasProgram"] is (expected is None)
    opm_http("mirror", name, "--to", "./carried")
    opm_http("mirror", "./carried", "--to", f"{to}-2", "--manifests", "loaded")
    assert extracted(read_manifests(tmp_path / "loaded")["CatalogSource"]) == expected


def test_catalog_without_a_base_image_is_extracted(opm_http: Opm, site: MirrorSite, tmp_path: Path) -> None:
    catalog = site.push_catalog([SampleBundle("reef", "1.0.0", site.push_bundle("team/reef", 1))])
    to = f"{site.host}/to-{site.prefix}"
    opm_http("mirror", catalog, "reef", "--to", to, "--manifests", "cluster")
    assert extracted(read_manifests(tmp_path / "cluster")["CatalogSource"]) == {"catalogDir": "/configs"}
    given = opm_http("index", "manifests", catalog, "--extract-catalog-dir", "/other", "--package", "reef")
    assert extracted(next(yaml.safe_load_all(given))) == {"catalogDir": "/other"}
    assert opm_http("image", "inspect", catalog).count("fails: the image does not contain /bin/opm") == 2


def test_database_without_a_server_is_reported(opm_http: Opm, site: MirrorSite) -> None:
    name = f"{site.host}/{site.prefix}/db:1"
    opm_http("index", "add", "-b", "", "-i", "scratch", "-t", name, "--push")
    done = opm_http.attempt("index", "manifests", name)
    assert (done.returncode, extracted(yaml.safe_load(done.stdout))) == (0, None)
    assert "cannot serve its database" in done.stderr


@pytest.mark.parametrize(
    ("to", "more", "message"),
    [("./mirror", (), "requires a registry as the target"), ("localhost:1/x", ("--dry-run",), "mutually exclusive")],
)
def test_unsupported_targets(opm_http: Opm, to: str, more: tuple[str, ...], message: str) -> None:
    done = opm_http.attempt("mirror", "localhost:1/catalog", "--to", to, "--manifests", "out", *more)
    assert (done.returncode, message in done.stderr) == (1, True)
