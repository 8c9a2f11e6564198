"""The Makefile that operator-sdk scaffolds builds and pushes bundles and catalogs, with ``opm`` for both programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest
import yaml

from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from tests.kit.engines import DockerDaemon
from tests.kit.images import small_image
from tests.kit.operator_project import OperatorProject

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

pytestmark = pytest.mark.slow

CATALOG_BASE = "quay.io/operator-framework/opm:v1.73.0"
TARGETS = ("bundle", "bundle-build", "bundle-push", "catalog-build", "catalog-push")
UNREACHABLE = "http://127.0.0.1:9"
"""A proxy, so that no registry elsewhere is reached."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OperatorProject:
    monkeypatch.setenv("HTTPS_PROXY", UNREACHABLE)
    return OperatorProject.create(tmp_path / "project")


@pytest.fixture
def docker(project: OperatorProject, registry: Registry, tmp_path: Path) -> Iterator[DockerDaemon]:
    """Start a docker daemon that has the default base of catalogs."""
    name = Reference.parse(f"{registry.host}/operator-project/opm:v1")
    image = small_image(tmp_path, {"bin/opm": b"a server"})
    copy_image(image, RegistryClient(RegistryOptions(plain_http=True)).repository(name), name.tag)
    with DockerDaemon() as daemon:
        daemon.run("pull", str(name))
        daemon.run("tag", str(name), CATALOG_BASE)
        project.env.update(daemon.settings)
        yield daemon


def list_bundles(opm: Opm, catalog: str) -> list[dict[str, str]]:
    listed: list[dict[str, str]] = orjson.loads(opm("alpha", "list", "bundles", catalog, "--output", "json"))
    return listed


def test_quick_start_with_docker(
    project: OperatorProject, docker: DockerDaemon, registry: Registry, opm_http: Opm
) -> None:
    base = f"{registry.host}/quick-start/harbor-operator"
    output = project.make(*TARGETS, f"IMAGE_TAG_BASE={base}", f"IMG={base}:v0.0.1")
    assert 'msg="All validation tests have completed successfully"' in output
    file = project.directory / "bundle" / "manifests" / "harbor-operator.clusterserviceversion.yaml"
    (deployment,) = yaml.safe_load(file.read_text())["spec"]["install"]["spec"]["deployments"]
    images = [container["image"] for container in deployment["spec"]["template"]["spec"]["containers"]]
    assert f"{base}:v0.0.1" in images
    (bundle,) = list_bundles(opm_http, f"{base}-catalog:v0.0.1")
    assert (bundle["bundle"], bundle["image"]) == ("harbor-operator.v0.0.1", f"{base}-bundle:v0.0.1")


def test_quick_start_without_a_container_engine(project: OperatorProject, registry: Registry, opm_http: Opm) -> None:
    base = f"{registry.host}/no-engine/harbor-operator"
    for version, catalog in (("0.0.1", ""), ("0.0.2", f" --from-index {base}-catalog:v0.0.1")):
        variables = [f"IMAGE_TAG_BASE={base}", f"VERSION={version}", "CHANNELS=fast,stable", "DEFAULT_CHANNEL=stable"]
        project.make(*TARGETS[:3], *variables, "CONTAINER_TOOL=opm --use-http bundle")
        options = f"--use-http --binary-image scratch{catalog}"
        project.make("catalog-build", *variables, "CONTAINER_TOOL=none", f"FROM_INDEX_OPT={options}")
        project.make("catalog-push", *variables, "CONTAINER_TOOL=opm --use-http image")
    entries = list_bundles(opm_http, f"{base}-catalog:v0.0.2")
    assert {(entry["channel"], entry["bundle"], entry["replaces"]) for entry in entries} == {
        (channel, *names)
        for channel in ("fast", "stable")
        for names in (("harbor-operator.v0.0.1", ""), ("harbor-operator.v0.0.2", "harbor-operator.v0.0.1"))
    }
