"""``opm alpha bundle validate --tag`` as scripts written for Go opm call it."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.kit.broken import BASE
from tests.kit.bundles import push_image
from tests.kit.images import small_image
from tests.kit.requirements import require

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.engines import Engine
    from tests.kit.installed import InstalledOpm
    from tests.kit.registry import Registry

GO_OPM = os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST", "")
SUCCESS = re.compile(
    r'^time="\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ" level=info '
    r'msg="All validation tests have been completed successfully" container-tool=none$',
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def images(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the references of a valid bundle and of one whose owned CRD names its group, which only Go opm rejects."""
    scratch = tmp_path_factory.mktemp("images")
    (path,) = (path for path, content in BASE.items() if b"kind: ClusterServiceVersion" in content)
    with_group = BASE[path].replace(b"      kind: Demo\n", b"      kind: Demo\n      group: demo.example.com\n", 1)
    assert with_group != BASE[path]
    labels = yaml.safe_load(BASE["metadata/annotations.yaml"])["annotations"]
    bundles = {"valid": BASE, "owned-group": {**BASE, path: with_group}}
    return {
        name: push_image(f"{registry.host}/dropin/{name}:1", small_image(scratch, files, labels=labels))
        for name, files in bundles.items()
    }


def test_a_valid_bundle_ends_with_the_line_that_scripts_search_for(
    newcomer: InstalledOpm, images: dict[str, str]
) -> None:
    done = newcomer.attempt("alpha", "bundle", "validate", "--tag", images["valid"], "-b", "none", "--use-http")
    assert done.returncode == 0, done.stdout + done.stderr
    assert SUCCESS.search(done.stderr)
    assert "All validation tests" not in done.stdout


@pytest.mark.parametrize("tool", ["docker", "podman", "buildah"])
def test_an_engine_reads_the_image(
    tool: str, newcomer: InstalledOpm, images: dict[str, str], request: pytest.FixtureRequest
) -> None:
    require(tool)
    engine: Engine = request.getfixturevalue("docker_daemon" if tool == "docker" else "container_storage")
    user = newcomer.with_env(**engine.settings)
    for _ in ("new", "again"):
        done = user.attempt("alpha", "bundle", "validate", "--tag", images["valid"], "-b", tool, "--use-http")
        assert done.returncode == 0, done.stdout + done.stderr
        assert f'have been completed successfully" container-tool={tool}\n' in done.stderr


def test_tag_rejects_what_only_go_opm_rejects(newcomer: InstalledOpm, images: dict[str, str]) -> None:
    image = images["owned-group"]
    done = newcomer.attempt("alpha", "bundle", "validate", "--tag", image, "-b", "none", "--use-http")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Error: Bundle validation errors: no CRD")
    assert ("BUNDLE-OWNED-CRD-MISSING" in done.stderr, done.stdout) == (True, "")  # as Go opm
    own = newcomer.attempt("bundle", "validate", image, "--use-http")
    assert own.returncode == 0, own.stdout
    assert not SUCCESS.search(own.stderr)


@pytest.mark.skipif(not GO_OPM, reason="OPMKIT_REFERENCE_OPM_NEWEST is not set")
@pytest.mark.parametrize("name", ["valid", "owned-group"])
def test_go_opm_prints_and_decides_the_same(
    name: str, newcomer: InstalledOpm, images: dict[str, str], registry: Registry, tmp_path: Path
) -> None:
    settings = tmp_path / "registries.conf"
    settings.write_text(f'[[registry]]\nlocation = "{registry.host}"\ninsecure = true\n')
    line = ["alpha", "bundle", "validate", "--tag", images[name], "--image-builder", "none"]
    environment = {**newcomer.environment, "CONTAINERS_REGISTRIES_CONF": str(settings)}
    go = subprocess.run([GO_OPM, *line], env=environment, capture_output=True, text=True, check=False, timeout=120)
    own = newcomer.with_env(CONTAINERS_REGISTRIES_CONF=str(settings)).attempt(*line)
    assert own.returncode == go.returncode, own.stdout + go.stderr
    assert bool(SUCCESS.search(own.stderr)) == bool(SUCCESS.search(go.stderr)) == (go.returncode == 0)
    assert ("Error: Bundle validation errors: " in own.stderr) == ("Error: Bundle validation errors: " in go.stderr)
