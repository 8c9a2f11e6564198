"""ConfigMaps written and read by opmkit and by Go opm, which use the same API server."""

from __future__ import annotations

import json
import subprocess
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit.bundle.config_map import (
    MANAGED_ANNOTATIONS,
    ExtractionOptions,
    bundle_config_map,
    read_config_map,
    write_config_map,
)
from opmkit.bundle.load import fetch_bundle_files
from opmkit.bundle.source import BundleSource
from opmkit.index.errors import CatalogError
from opmkit.index.operations.export import walk
from opmkit.index.operations.initialize.loader import write_config_map_database
from opmkit.kube import Cluster
from tests.kit.apiserver import ApiServer
from tests.kit.shared import SHARED, dump_index, needs_shared
from tests.reference.comparison import REFERENCE, needs_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [needs_shared, needs_reference]

PACKAGES = sorted((SHARED / "corpus" / "package-manifests").glob("*"))
BUNDLES = [
    path / min(version.name for version in path.iterdir()) for path in (SHARED / "corpus" / "bundles").glob("a*")
]
KEYS = {"CustomResourceDefinition": "customResourceDefinitions", "ClusterServiceVersion": "clusterServiceVersions"}


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with ApiServer() as started:
        yield started


def catalog(package: Path) -> dict[str, str]:
    """Return the data of a ConfigMap with the manifests of a package directory, and the last version of each CRD."""
    lists: dict[str, dict[str, Any]] = {"customResourceDefinitions": {}, "clusterServiceVersions": {}, "packages": {}}
    for path in walk(package):
        content = yaml.safe_load(path.read_bytes())
        key = "packages" if "packageName" in content else KEYS.get(content.get("kind"), "")
        if key:
            lists[key][content.get("packageName") or content["metadata"]["name"]] = content
    return {key: yaml.safe_dump(list(values.values())) for key, values in lists.items()}


def is_served(server: ApiServer, name: str, directory: Path) -> bool:
    """Run configmap-server of operator-registry and return whether it serves a ConfigMap."""
    flags = ("--configMapName", name, "--configMapNamespace", "default", "--database", "reference.db", "--port", "0")
    program = Path(REFERENCE).with_name("configmap-server")
    kubeconfig = server.kubeconfig(directory / "kubeconfig")
    with subprocess.Popen(
        [program, *flags, "--kubeconfig", kubeconfig, "--termination-log", "log"],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        served = any("serving registry" in line for line in process.stdout)
        process.terminate()
        process.stdout.read()
    return served


def comparable(database: Path) -> Any:
    """Return the content of a database without the manifests, of which Go opm drops unknown fields."""
    tables = json.loads(json.dumps(dump_index(database, "")))["tables"]
    for bundle in tables["operatorbundle"]:
        del bundle["csv"]
        del bundle["bundle"]["sha256"]
    tables["operatorbundle"].sort(key=itemgetter("name"))
    return tables


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_databases_equal_those_of_go_opm(package: Path, server: ApiServer, tmp_path: Path) -> None:
    content = catalog(package)
    server.put_config_map("default", package.name, content)
    if not is_served(server, package.name, tmp_path):
        with pytest.raises(CatalogError):
            write_config_map_database(tmp_path / "ours.db", content, package.name)
        return
    write_config_map_database(tmp_path / "ours.db", content, package.name)
    assert comparable(tmp_path / "ours.db") == comparable(tmp_path / "reference.db")


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.parent.name)
def test_config_maps_equal_those_of_go_opm(bundle: Path, compress: bool, server: ApiServer, tmp_path: Path) -> None:
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    server.put_config_map("default", "theirs")
    flags = ["-m", f"{bundle}/", "-c", "theirs", "-n", "default", "-k", str(kubeconfig), *(["-z"] if compress else [])]
    subprocess.run([REFERENCE, "alpha", "bundle", "extract", *flags], check=True, capture_output=True)
    files = fetch_bundle_files(None, BundleSource(str(bundle), bundle, ""))  # type: ignore[arg-type]
    config_map = bundle_config_map(files, ExtractionOptions("default", "ours", compress=compress))
    cluster = Cluster.connect(str(kubeconfig))
    write_config_map(cluster, config_map, replacing=MANAGED_ANNOTATIONS)
    ours, theirs = (read_config_map(cluster, "default", name) for name in ("ours", "theirs"))
    assert (ours.data, ours.annotations) == (theirs.data, theirs.annotations)
    assert ours.binary_data.keys() == theirs.binary_data.keys()
