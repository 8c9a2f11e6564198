"""The pipeline from manifests to bundle images, an index image and a newer one."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.opm import Opm
from tests.kit.requirements import require

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.registry import Registry


def pipeline(opm: Opm, where: str) -> list[str]:
    """Run the pipeline with images below ``where`` and return the printed names and digests."""
    lines = [opm.build_bundle(v, f"{where}/lagoon-operator:{v}", "--push") for v in ("0.1.0", "0.2.0", "0.3.0")]
    first, second, third = (f"{where}/lagoon-operator:{v}" for v in ("0.1.0", "0.2.0", "0.3.0"))
    index = f"{where}/catalog"
    lines.append(opm("index", "add", "-b", f"{first},{second}", "-i", "scratch", "-t", f"{index}:1", "--push"))
    lines.append(opm("index", "add", "-b", third, "-f", f"{index}:1", "-t", f"{index}:2", "--push"))
    return lines


def bundles(opm: Opm, index: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(opm("alpha", "list", "bundles", index, "-o", "json"))
    return rows


@pytest.fixture(params=["registry", "layouts"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a repository prefix, or a directory of OCI layouts."""
    if request.param == "layouts":
        return f"oci:{tmp_path}/layouts"
    registry: Registry = request.getfixturevalue("registry")
    return f"{registry.host}/{tmp_path.name.replace('_', '-').lower()}"


def test_newer_index_contains_the_graph_of_all_versions(opm_http: Opm, where: str) -> None:
    pipeline(opm_http, where)
    stable = {
        row["bundle"]: row["replaces"] for row in bundles(opm_http, f"{where}/catalog:2") if row["channel"] == "stable"
    }
    assert stable == {
        "lagoon-operator.v0.1.0": "",
        "lagoon-operator.v0.2.0": "lagoon-operator.v0.1.0",
        "lagoon-operator.v0.3.0": "lagoon-operator.v0.2.0",
    }
    assert len({row["bundle"] for row in bundles(opm_http, f"{where}/catalog:1")}) == 2
    packages = opm_http("alpha", "list", "packages", f"{where}/catalog:2").splitlines()
    assert packages[0].split() == ["NAME", "DISPLAY", "NAME", "DEFAULT", "CHANNEL"]
    assert packages[1].split()[0] == "lagoon-operator"
    assert packages[1].split()[-1] == "stable"


def test_number_of_layers_remains_constant(opm_http: Opm, where: str) -> None:
    pipeline(opm_http, where)
    for tag in ("1", "2"):
        described = json.loads(opm_http("image", "inspect", f"{where}/catalog:{tag}", "-o", "json"))
        assert [len(image["layers"]) for image in described["images"]] == [1]


def test_runs_at_different_times_have_the_same_digests(opm_http: Opm, registry: Registry, tmp_path: Path) -> None:
    runs = []
    for name in ("one", "other"):
        directory = tmp_path / name
        directory.mkdir()
        opm = Opm(directory, opm_http.flags, {"OPM_STORE": str(directory / "store"), "TZ": "Asia/Tokyo", "LC_ALL": "C"})
        runs.append(pipeline(opm, f"{registry.host}/repeated-{tmp_path.name.lower()}"))
        time.sleep(1.1)  # no clock that ticks in seconds may show in the result
    assert runs[0] == runs[1]
    assert all("@sha256:" in line for line in runs[0])


def test_without_push_the_image_stays_in_the_store_until_it_is_pushed(
    opm_http: Opm, registry: Registry, tmp_path: Path
) -> None:
    name = f"{registry.host}/stored-{tmp_path.name.lower()}:1"
    built = opm_http.build_bundle("0.1.0", name)
    assert opm_http.attempt("image", "copy", f"{name}-missing", "oci:elsewhere").returncode == 1
    assert name in opm_http("image", "ls")
    assert opm_http.attempt("image", "pull", name).returncode == 1  # it is in the store, but not in its registry yet
    pushed = opm_http("image", "push", name)
    assert pushed == built
    opm_http("image", "rm", name)
    assert name not in opm_http("image", "ls")
    opm_http("image", "pull", name)
    assert name in opm_http("image", "ls")


def test_other_tools_read_the_images(opm_http: Opm, where: str, tmp_path: Path) -> None:
    skopeo, umoci = require("skopeo"), require("umoci")
    pipeline(opm_http, where)
    transport = where if where.startswith("oci:") else f"docker://{where}"
    options = [] if where.startswith("oci:") else ["--src-tls-verify=false"]
    for name in ("lagoon-operator:0.2.0", "catalog:2"):
        subprocess.run(
            [skopeo, "copy", "--quiet", *options, f"{transport}/{name}", f"oci:{tmp_path}/copied:x"], check=True
        )
        unpacked = tmp_path / f"unpacked-{name.partition(':')[0]}"
        subprocess.run(
            [umoci, "unpack", "--rootless", "--image", f"{tmp_path}/copied:x", str(unpacked)],
            check=True,
            capture_output=True,
        )
    root = tmp_path / "unpacked-lagoon-operator" / "rootfs"
    assert (root / "metadata" / "annotations.yaml").is_file()
    assert list((root / "manifests").glob("*clusterserviceversion.yaml"))
    assert (tmp_path / "unpacked-catalog" / "rootfs" / "database" / "index.db").read_bytes()[:6] == b"SQLite"
