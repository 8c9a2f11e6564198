"""Images of Helm charts, and faults of ``helm``: a program of this name prints what a test needs."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from opmkit.core.programs import ProgramLimits
from opmkit.documents.json_path import JsonPath
from opmkit.supply.mirror.charts import ChartImages, HelmError, ImageSetChart, read_charts

if TYPE_CHECKING:
    from pathlib import Path

HEX = "ab" * 32


@dataclass(frozen=True)
class FakeHelm:
    """A program ``helm`` in PATH, and a chart."""

    program: Path
    chart: Path

    def script(self, text: str) -> None:
        self.program.write_text(f"#!/bin/sh\n{text}\n")
        self.program.chmod(stat.S_IRWXU)

    def read(self, rendered: str, *image_paths: str) -> ChartImages:
        """Read the chart, for which helm prints a text."""
        (self.program.parent / "rendered").write_text(rendered)
        self.script(f"cat '{self.program.parent}/rendered'")
        return read_charts([self.entry(*image_paths)])

    def entry(self, *image_paths: str) -> ImageSetChart:
        return ImageSetChart("tide", str(self.chart), tuple(map(JsonPath.parse, image_paths)), "set.yaml:6")

    def failure(self, limits: ProgramLimits | None = None) -> HelmError:
        with pytest.raises(HelmError) as caught:
            read_charts([self.entry()], *([limits] if limits else []))
        assert "additionalImages" in str(caught.value.hint)
        return caught.value


@pytest.fixture
def helm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHelm:
    (tmp_path / "bin").mkdir()
    (tmp_path / "tide").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return FakeHelm(tmp_path / "bin" / "helm", tmp_path / "tide")


def names(found: ChartImages) -> list[str]:
    return [f"{request.reference} {request.tag}".strip() for request in found.requests]


def test_images_of_pods_and_workloads_are_found(helm: FakeHelm) -> None:
    found = helm.read(
        "---\n# Source: tide/templates/pod.yaml\n"
        "spec: {initContainers: [{image: quay.io/me/init:1}], containers: [{image: quay.io/me/untagged}, {}]}\n"
        "---\nspec: {template: {spec: {containers: "
        f"[{{image: 'quay.io/me/both:2@sha256:{HEX}'}}, {{image: nginx}}, {{image: 'quay.io/me/init:1'}}],"
        " initContainers: null}}}\n"
        "---\nspec: {containers: {image: 'quay.io/me/mapping:1'}}\n---\n# empty\n---\n[1]\n"
    )
    assert names(found) == [
        "quay.io/me/init:1",
        "quay.io/me/untagged:latest",
        f"quay.io/me/both:2@sha256:{HEX}",
        f"quay.io/me/both:2@sha256:{HEX} 2",
        "docker.io/library/nginx:latest",
    ]
    assert {request.needed_by for request in found.requests} == {("helm chart tide of set.yaml:6",)}
    assert found.warnings == ()


def test_image_paths_may_lead_to_other_values(helm: FakeHelm) -> None:
    found = helm.read(
        "spec:\n  template: {spec: {containers: [{image: 'quay.io/me/a:1', env: [{value: 'quay.io/me/b:2'}, "
        "{value: info}, {value: 'http://x/y'}, {value: 'quay.io/c quay.io/me/d:3'}]}]}}\n"
        "  tool: {repository: quay.io/me/tool, tag: 4}\n",
        "{.spec.template.spec.containers[*].env[*].value}",
        "{.spec.tool.repository}:{.spec.tool.tag}",
        "{.spec.absent.repository}:{.spec.absent.tag}",
    )
    assert names(found) == ["quay.io/me/a:1", "quay.io/me/b:2", "quay.io/me/d:3", "quay.io/me/tool:4"]
    assert found.warnings == ()


def test_invalid_images_of_containers_are_warnings(helm: FakeHelm) -> None:
    found = helm.read("spec: {containers: [{image: 'Q:1'}, {image: \"\\e[31mred:1\"}, {image: 'Q:1'}]}")
    assert found.warnings == (
        "helm chart tide of set.yaml:6: 'Q:1' is not a valid image: not mirrored",
        r"helm chart tide of set.yaml:6: '\x1b[31mred:1' is not a valid image: not mirrored",
    )
    assert found.requests == ()


def test_helm_gets_an_absolute_path_and_a_limited_environment(
    helm: FakeHelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HELM_PLUGINS", "/plugins")
    monkeypatch.setenv("KUBECONFIG", "/kubeconfig")
    monkeypatch.setenv("AWS_SECRET", "secret")
    (tmp_path / "--help").mkdir()
    helm.script(f'printf "%s\\n" "$@" > {tmp_path}/arguments; env > {tmp_path}/environment; ls -A > {tmp_path}/files')
    chart = ImageSetChart("tide", "--help", (), "set.yaml:6")
    assert read_charts([chart]) == ChartImages()
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert (arguments[0], arguments[-1]) == ("template", f"{tmp_path}/--help")
    environment = dict(line.partition("=")[::2] for line in (tmp_path / "environment").read_text().splitlines())
    scratch = environment["PWD"]
    assert environment["PATH"] == os.environ["PATH"]
    assert {key for key in environment if not environment[key].startswith(scratch)} <= {"PATH", "PWD", "SHLVL", "_"}
    assert {"HELM_PLUGINS", "HELM_REPOSITORY_CONFIG", "KUBECONFIG", "HOME"} <= environment.keys()
    assert (tmp_path / "files").read_text() == ""


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (
            "printf 'Error: bad \\033[31mvalues\\nin tide\\n\\n' >&2; "
            "echo Use --debug flag to render out invalid YAML >&2; exit 1",
            r"helm: bad \x1b[31mvalues in tide",
        ),
        ("exit 3", "helm: no error message"),
        ("kill -9 $$", "helm: no error message"),
        ("yes error >&2", "helm: the output exceeds the limit of 100000 bytes"),
        ("yes image: x", "helm: the output exceeds the limit of 100000 bytes"),
        ("head -c 5000 /dev/zero | tr '\\0' x >&2; exit 1", "helm: " + "x" * 500),
        ("sleep 60 & exec sleep 60", "helm: timed out after 0.5 s"),
        ("echo $$ > /nowhere/x; exec sleep 60", "helm: timed out after 0.5 s"),
    ],
)
def test_faults_of_helm(helm: FakeHelm, script: str, problem: str) -> None:
    helm.script(script)
    limits = ProgramLimits(timeout=0.5 if "timed out" in problem else 60, max_output=100_000)
    assert helm.failure(limits).message == f"set.yaml:6: helm chart tide: {problem}"


def test_processes_that_helm_started_are_killed(helm: FakeHelm, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "alive")
    helm.script(f"sleep 600 > {tmp_path}/alive & sleep 600")
    reader = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    try:
        helm.failure(ProgramLimits(timeout=1, max_output=1000))
        os.set_blocking(reader, True)
        assert os.read(reader, 1) == b""  # it returns once no process has the other end open
    finally:
        os.close(reader)


@pytest.mark.parametrize("text", ["a: [", "--- text\na: 1\n", "a: " + "[" * 5000, "\x00"])
def test_invalid_output_is_an_error(helm: FakeHelm, text: str) -> None:
    with pytest.raises(HelmError, match=r"^set\.yaml:6: helm chart tide: output of helm:[12]:") as caught:
        helm.read(text)
    assert "template" in str(caught.value.hint)


def test_missing_programs_and_charts_are_reported_before_helm_runs(helm: FakeHelm, tmp_path: Path) -> None:
    assert helm.failure().message == "set.yaml:6: helm chart tide: helm is not installed"
    helm.script("exit 9")
    os.mkfifo(tmp_path / "pipe")
    for path, problem in (
        ("absent/tide", "'absent/tide' does not exist"),
        ("oci://quay.io/me/tide", "'oci://quay.io/me/tide' does not exist"),
        ("a\0b", r"'a\x00b' does not exist"),
        (str(tmp_path / "pipe"), f"'{tmp_path}/pipe' is neither a directory nor a file"),
    ):
        other = ImageSetChart("other", path, (), "set.yaml:9")
        with pytest.raises(HelmError) as caught:
            read_charts([helm.entry(), other])
        assert caught.value.message == f"set.yaml:9: helm chart other: {problem}"
        assert "relative to the working directory" in str(caught.value.hint)
