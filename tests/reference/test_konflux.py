"""The profile ``konflux`` decides as the task validate-fbc of Konflux does, whose script runs here.

``OPMKIT_REFERENCE_KONFLUX`` is a directory with checkouts of konflux-operator-tasks and konflux-test, of which the
script is read when the tests run, and ``OPMKIT_REFERENCE_OPM_NEWEST`` the path of a Go opm that reads file-based
catalogs. Only absolute paths of the script are changed, so that runs have separate directories. What is not the real
thing: ``oc image extract`` is a script with skopeo and umoci; the ``opm`` in the base images is a script that runs Go
opm; and Red Hat's registries, with an index for the step about related images, are mirrors in a registry with TLS.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit import IndexRequirements, Opm
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from tests.kit.images import member
from tests.kit.konflux import BASE_4, METADATA, VARIANTS, Variant, catalog
from tests.kit.registry import Registry
from tests.kit.requirements import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opmkit.imagetools.image import Image, ImageIndex

CHECKOUTS = os.environ.get("OPMKIT_REFERENCE_KONFLUX", "")
GO_OPM = os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST", "")
pytestmark = [
    pytest.mark.skipif(not CHECKOUTS, reason="OPMKIT_REFERENCE_KONFLUX is not set"),
    pytest.mark.skipif(not GO_OPM, reason="OPMKIT_REFERENCE_OPM_NEWEST is not set"),
    pytest.mark.timeout(600),
]
PATHS = re.compile(r"(?<![\w.$/}-])/(shared|tmp|extracted_base_img|utils\.sh|var/workdir)\b")
STEPS = ("inspect-image", "extract-and-validate")
OC = """\
#!/bin/bash
set -eu
target=.
for argument in "$@"; do
  case $argument in
    *@sha256:*) image=$argument ;;
    /:*) target=${argument#/:} ;;
  esac
done
layout=$(mktemp -d)
skopeo copy --quiet "docker://$image" "oci:$layout:image"
umoci raw unpack --rootless --image "$layout:image" "$layout/root" > "$layout/log" 2>&1
cp -a "$layout/root/." "$target"
chmod 755 "$target"
rm -rf "$layout"
"""


@dataclass(frozen=True)
class Task:
    """The script of the task, and a registry that stands for all registries."""

    registry: Registry
    base_digest: str
    home: Path

    def push(self, name: str, image: Image | ImageIndex) -> str:
        """Push an image as a mirror of Red Hat's registry, and return its digest."""
        reference = parse_image_reference(f"{self.registry.host}/{name}")
        client = RegistryClient(RegistryOptions(ca_file=self.registry.ca_file))
        return copy_image(image, client.repository(reference), reference.tag).digest  # type: ignore[union-attr, arg-type]

    def run(self, repository: str, digest: str, directory: Path) -> str:
        """Run both steps of the task, and return the result that it reports."""
        spec = yaml.safe_load(
            Path(CHECKOUTS, "konflux-operator-tasks/task/validate-fbc/0.2/validate-fbc.yaml").read_text()
        )
        self._prepare(directory)
        values = {"params.IMAGE_URL": f"{self.registry.host}/{repository}", "params.IMAGE_DIGEST": digest}
        env = {item["name"]: item["value"] for item in spec["spec"]["stepTemplate"]["env"]}
        steps = {step["name"]: step for step in spec["spec"]["steps"]}
        log = ""
        for name in STEPS:
            work = directory / "work" / name
            work.mkdir(parents=True)
            done = subprocess.run(
                ["bash", "-c", substitute(steps[name]["script"], values, directory)],
                cwd=work,
                env={
                    **self._env(directory),
                    **{key: substitute(value, values, directory) for key, value in env.items()},
                },
                capture_output=True,
                text=True,
                check=False,
            )
            log += done.stdout + done.stderr
        (directory / "log").write_text(log)
        result: Any = json.loads((directory / "results/TEST_OUTPUT").read_text().splitlines()[-1])
        return str(result["result"])

    def _prepare(self, directory: Path) -> None:
        for name in ("shared", "tmp", "results", "bin"):
            (directory / name).mkdir()
        utils = Path(CHECKOUTS, "konflux-test/test/utils.sh").read_text()
        (directory / "utils.sh").write_text(substitute(utils, {}, directory))
        oc = directory / "bin/oc"
        oc.write_text(OC)
        oc.chmod(0o755)

    def _env(self, directory: Path) -> dict[str, str]:
        """Return the environment; mirrors are configured in the home directory."""
        return {
            "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "TMPDIR": str(directory / "tmp"),
            "SSL_CERT_FILE": str(self.registry.ca_file),
            "RETRY_COUNT": "0",
            "RETRY_INTERVAL": "0",
        }


def substitute(text: str, values: dict[str, str], directory: Path) -> str:
    """Replace Tekton's variables, and absolute paths that steps share."""
    text = PATHS.sub(lambda match: str(directory / match[1]), text)
    for name, value in values.items():
        text = text.replace(f"$({name})", value)
    return re.sub(r"\$\(results\.(\w+)\.path\)", lambda match: str(directory / "results" / match[1]), text)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Task]:
    for program in ("skopeo", "umoci", "jq"):
        require(program)
    home = tmp_path_factory.mktemp("home")
    with Registry(tls=True) as registry:
        settings = home / ".config/containers/registries.conf"
        settings.parent.mkdir(parents=True)
        mirrors = ("registry.redhat.io", "brew.registry.redhat.io", "quay.io")
        settings.write_text(
            "".join(f'[[registry]]\nprefix = "{name}"\nlocation = "{registry.host}"\n' for name in mirrors)
        )
        opm = f'#!/bin/sh\nexec {GO_OPM} "$@"\n'.encode()
        base = Variant(bottom=(member("bin/opm", opm, mode=0o755),), files={}, base=None).build(home)
        task = Task(registry, base.digest, home)
        index = Variant(files={"kelp/catalog.json": catalog([METADATA], package="kelp")}).build(home)
        for variant in VARIANTS.values():
            repository, _, tag = (variant.base or BASE_4).partition("/")[2].partition(":")
            task.push(f"{repository}:latest", base)
            if re.fullmatch("[0-9A-Za-z.-]+", tag):
                task.push(f"redhat/redhat-operator-index:{tag}", index)
        yield task


@pytest.mark.parametrize("name", VARIANTS)
def test_decision_is_that_of_the_task(
    task: Task, name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    variant = VARIANTS[name]
    image = variant.build(tmp_path, task.base_digest)
    digest = task.push(f"konflux/{name}:1", image)
    run = tmp_path / "run"
    run.mkdir()
    result = task.run(f"konflux/{name}", digest, run)
    record_property("result", result)
    api = Opm(RegistryOptions(ca_file=task.registry.ca_file), tmp_path / "store")
    ours = api.validate_index(f"{task.registry.host}/konflux/{name}@{digest}", IndexRequirements(profile="konflux"))
    log = (run / "log").read_text()
    assert {finding.rule for finding in ours.errors} == variant.rules
    assert (result == "SUCCESS") == ours.passed, f"{result}\n{ours.findings}\n{log}"
