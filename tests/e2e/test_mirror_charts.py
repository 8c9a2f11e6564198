"""``opm mirror --config`` with Helm charts, rendered by a real helm."""

from __future__ import annotations

import json
import os
import tarfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit import golang
from tests.kit.mirror_site import MirrorSite, digest_at
from tests.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.kit.opm import Opm

pytestmark = pytest.mark.timeout(900)  # building helm takes minutes, the first time

POD = (
    "kind: Pod\napiVersion: v1\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\n"
    'spec: {{containers: [{{image: "{image}"}}]}}\n'
)


@dataclass(frozen=True)
class ChartMirror:
    """Images, a chart that refers to them by its values, and the prefix of their mirror."""

    site: MirrorSite
    opm: Opm
    target: Registry
    images: dict[str, str]

    @property
    def to(self) -> str:
        return f"{self.target.host}/{self.site.prefix}"

    @property
    def chart(self) -> Path:
        return self.site.scratch / "tide"

    def write_chart(self, **templates: str) -> None:
        (self.chart / "templates").mkdir(parents=True)
        (self.chart / "Chart.yaml").write_text("apiVersion: v2\nname: tide\nversion: 1.0.0\n")
        schema = {"$ref": f"http://{self.target.host}/schema.json"}  # must not be asked for
        (self.chart / "values.schema.json").write_text(json.dumps(schema))
        (self.chart / "values.yaml").write_text(json.dumps(self.images))
        for name, text in templates.items():
            (self.chart / "templates" / f"{name}.yaml").write_text(text)

    def run(self, chart: dict[str, Any], *flags: str, **mirror: Any) -> CompletedProcess[str]:
        """Run the command in the directory of the chart, with the chart in line 6 of the configuration."""
        document = json.dumps({"helm": {"local": [chart]}, **mirror})
        head = "apiVersion: mirror.openshift.io/v2alpha1\nkind: ImageSetConfiguration\n\n\n\n"
        path = self.site.scratch / "set.yaml"
        path.write_text(f"{head}mirror: {document}\n")
        return self.opm.attempt("mirror", "--config", str(path), "--to", self.to, *flags)

    def has(self, name: str) -> bool:
        return bool(digest_at(f"{self.to}/{self.images[name].partition('/')[2]}"))


@pytest.fixture(scope="session")
def helm(pytestconfig: pytest.Config) -> Path:
    return golang.helm(pytestconfig.cache.mkdir("opmkit-go"))


@pytest.fixture(scope="module")
def target() -> Iterator[Registry]:
    """Start a second registry."""
    with Registry() as started:
        yield started


def prepare(opm: Opm, registry: Registry, target: Registry, directory: Path, path: str) -> ChartMirror:
    site = MirrorSite(registry.host, f"set-{directory.name.replace('_', '-').lower()}", directory)
    images = {name: site.push_operand(name, seed) for seed, name in enumerate(("pod", "hook", "check", "crd", "env"))}
    tagged = {name: f"{image.partition('@')[0]}:1" for name, image in images.items()}
    opm = replace(opm, env={**opm.env, "PATH": path}, directory=directory)
    return ChartMirror(site, opm, target, tagged | {"env": images["env"]})


@pytest.fixture
def mirror(opm_http: Opm, registry: Registry, target: Registry, tmp_path: Path, helm: Path) -> ChartMirror:
    return prepare(opm_http, registry, target, tmp_path, f"{helm.parent}:{os.environ['PATH']}")


def pod(name: str, image: str, annotations: str = "") -> str:
    return POD.format(name=name, image=image, annotations=annotations)


@pytest.mark.parametrize("packed", [False, True])
def test_images_of_a_chart_are_mirrored(mirror: ChartMirror, packed: bool, tmp_path: Path) -> None:
    mirror.write_chart(
        pod=pod("pod", "{{ .Values.pod }}"),
        hook=pod("hook", "{{ .Values.hook }}", '"helm.sh/hook": pre-install'),
        check=pod("check", "{{ .Values.check }}", '"helm.sh/hook": test'),
        env="kind: Tide\nspec: {env: [{value: '{{ .Values.env }}'}, {value: info}]}\n",
    )
    (mirror.chart / "templates" / "NOTES.txt").write_text(pod("notes", "quay.io/me/notes:1"))
    (mirror.chart / "crds").mkdir()
    (mirror.chart / "crds" / "pod.yaml").write_text(pod("crd", mirror.images["crd"]))
    path = "tide"
    if packed:
        path = "tide-1.0.0.tgz"
        with tarfile.open(tmp_path / path, "w:gz") as archive:
            archive.add(mirror.chart, "tide")
    before = len(mirror.target.requests())
    chart = {"name": "tide", "path": path, "imagePaths": ["{.spec.env[*].value}"]}
    done = mirror.run(chart, "--dry-run", "--output", "json")
    assert done.returncode == 0, done.stderr
    assert not [line for line in mirror.target.requests()[before:] if "schema.json" in str(line)]
    planned = {image["source"] for image in json.loads(done.stdout)["images"]}
    assert planned == {image for name, image in mirror.images.items() if name != "check"}
    done = mirror.run(chart, blockedImages=[{"name": "/hook:"}])
    assert done.returncode == 0, done.stderr
    assert {name: mirror.has(name) for name in mirror.images if name != "env"} == {
        "pod": True,
        "hook": False,
        "check": False,
        "crd": True,
    }


def test_image_that_cannot_be_read_names_its_chart_and_line(mirror: ChartMirror) -> None:
    absent = f"{mirror.site.host}/absent/image:1"
    mirror.write_chart(pod=pod("pod", absent))
    done = mirror.run({"name": "tide", "path": "tide"}, additionalImages=[{"name": absent}])
    assert done.returncode == 1
    assert "needed by additionalImages of " in done.stderr
    assert f"needed by helm chart tide of {mirror.site.scratch}/set.yaml:6" in done.stderr


def test_chart_that_cannot_be_rendered_is_an_error(mirror: ChartMirror) -> None:
    mirror.write_chart(pod='{{ fail (printf "set \\x1b[31mtag") }}')
    before = len(mirror.target.requests())
    done = mirror.run({"name": "tide", "path": "tide"})
    assert done.returncode == 1
    assert f"{mirror.site.scratch}/set.yaml:6: helm chart tide: helm: " in done.stderr
    assert r"set \x1b[31mtag" in done.stderr
    assert "\x1b" not in done.stderr
    assert "hint: make `helm template` render the chart" in done.stderr
    assert len(mirror.target.requests()) == before


def test_missing_helm_and_missing_charts_are_errors(
    opm_http: Opm, registry: Registry, target: Registry, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    mirror = prepare(opm_http, registry, target, tmp_path, str(tmp_path / "bin"))
    mirror.write_chart()
    done = mirror.run({"name": "tide", "path": "tide"})
    assert (done.returncode, "set.yaml:6: helm chart tide: helm is not installed" in done.stderr) == (1, True)
    assert "hint: install helm 3.16 or newer, or list the images of the chart under additionalImages" in done.stderr
    done = mirror.run({"path": "-f"})
    assert (done.returncode, "set.yaml:6: helm chart -f: '-f' does not exist" in done.stderr) == (1, True)
