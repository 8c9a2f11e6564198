"""Images of Helm charts without hooks equal those that the collector of oc-mirror v2 finds.

It leaves out hooks, and images of containers without a tag.

``OPMKIT_REFERENCE_OC_MIRROR_CHARTS`` is the path of a program that runs this collector: it reads lines with a JSON
object, a chart of ``mirror.helm.local``, and prints a line with a JSON object for each: ``images``, or ``error``.
``OPMKIT_REFERENCE_HELM`` is the path of helm, ``OPMKIT_CHARTS`` the number of random charts, ``OPMKIT_CHARTS_SEED`` the
seed, and ``OPMKIT_CHART_DIRECTORY`` a directory with real charts, such as the test data of oc-mirror.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

import pytest

from opmkit.documents.json_path import JsonPath
from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import Reference
from opmkit.supply.mirror.charts import HelmError, ImageSetChart, read_charts

PROGRAM, HELM = (os.environ.get(f"OPMKIT_REFERENCE_{name}", "") for name in ("OC_MIRROR_CHARTS", "HELM"))
CHARTS = os.environ.get("OPMKIT_CHART_DIRECTORY", "")
COUNT, SEED = int(os.environ.get("OPMKIT_CHARTS", "300")), int(os.environ.get("OPMKIT_CHARTS_SEED", "1"))
pytestmark = [
    pytest.mark.skipif(not PROGRAM, reason="set OPMKIT_REFERENCE_OC_MIRROR_CHARTS to a program with its collector"),
    pytest.mark.skipif(not HELM, reason="OPMKIT_REFERENCE_HELM is not set"),
    pytest.mark.timeout(3600),
]

Value: TypeAlias = dict[str, Any]
DIGEST = "@sha256:" + "ab" * 32
IMAGES = (
    *("quay.io/me/a:1", "quay.io/me/b:2" + DIGEST, "quay.io/me/c" + DIGEST, "nginx:1.25", "library/x:y", "untagged"),
    *("quay.io:5000/deep/er/est:v1.2.3-rc.1_x", "quay.io/me/d@sha256:short", "quay.io/UP/per:1", "", "localhost/z:1"),
)
PATHS = (
    "{.spec.template.spec.containers[*].env[*].value}",
    "{.spec.image}",
    "{.spec.image.repository}:{.spec.image.tag}",
    "{.spec.images.*}",
    "{.spec.images['main']}",
    r"{.metadata.annotations.example\.com/image}",
    r"{.metadata.annotations['example\.com/image']}",
    "{..image}",
    "{$.spec..image}",
    "{.spec.jobTemplate.spec.template.spec.containers[*].image}",
    "{.spec.versions[*].image} {.spec.default}",
    "{.spec.versions[0].image}",
    "{.spec.versions[-1].image}",
)
KINDS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "Pod", "CronJob", "Tide", "ConfigMap")


def random_chart(rng: random.Random, directory: Path) -> None:
    """Write a chart whose images are in values, helpers, loops, conditions, subcharts, CRDs and test hooks."""
    values: Value = {f"image{number}": rng.choice(IMAGES) for number in range(6)}
    values |= {"tag": "1.5", "enabled": rng.random() < 0.5, "list": rng.sample(IMAGES, 3)}
    _write(directory, {"apiVersion": "v2", "name": directory.name, "version": "1.0.0", "appVersion": "2.5.1"}, values)
    templates = directory / "templates"
    (templates / "_helpers.tpl").write_text(
        '{{- define "image" -}}quay.io/helped/{{ .name }}:{{ .tag | default "9" }}{{- end }}\n'
    )
    (templates / "NOTES.txt").write_text("kind: Pod\nspec: {containers: [{image: 'quay.io/me/notes:1'}]}\n")
    for number in range(rng.randint(1, 6)):
        documents = [_random_document(rng, f"x{number}-{at}") for at in range(rng.randint(1, 3))]
        (templates / f"t{number}.yaml").write_text("\n---\n".join(documents) + "\n")
    if rng.random() < 0.3:
        (directory / "crds").mkdir()
        crd = {"kind": "CustomResourceDefinition", "spec": {"image": rng.choice(IMAGES), "versions": [{"name": "v1"}]}}
        (directory / "crds" / "crd.yaml").write_text(json.dumps(crd))
    if rng.random() < 0.3:
        sub = directory / "charts" / "sub"
        _write(sub, {"apiVersion": "v2", "name": "sub", "version": "0.1.0"}, {"image0": rng.choice(IMAGES)})
        (sub / "templates" / "pod.yaml").write_text(
            "kind: Pod\napiVersion: v1\nmetadata: {name: sub}\nspec: {containers: [{image: '{{ .Values.image0 }}'}]}\n"
        )


def _write(directory: Path, chart: Value, values: Value) -> None:
    (directory / "templates").mkdir(parents=True)
    (directory / "Chart.yaml").write_text(json.dumps(chart))
    (directory / "values.yaml").write_text(json.dumps(values))


def _random_document(rng: random.Random, name: str) -> str:
    kind = rng.choice(KINDS)
    pod = _random_pod(rng)
    metadata: Value = {"name": name, "annotations": {"example.com/image": rng.choice(IMAGES)}}
    if rng.random() < 0.1:
        metadata["annotations"]["helm.sh/hook"] = rng.choice(["test", "pre-install"])
    spec: Value = {"template": {"spec": pod}}
    if kind == "Pod":
        spec = pod
    elif kind == "CronJob":
        spec = {"jobTemplate": {"spec": spec}}
    elif kind == "Tide":
        spec = _random_resource(rng)
    content = {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}
    text = json.dumps(content, indent=2)
    if rng.random() < 0.2:
        return "{{- if .Values.enabled }}\n" + text + "\n{{- end }}"
    return text


def _random_pod(rng: random.Random) -> Value:
    pod: Value = {"containers": [_random_container(rng) for _ in range(rng.randint(1, 3))]}
    if rng.random() < 0.4:
        pod["initContainers"] = rng.choice([None, [], [_random_container(rng)]])
    return pod


def _random_container(rng: random.Random) -> Value:
    container: Value = {"name": "x", "image": _random_image(rng)}
    if rng.random() < 0.1:
        del container["image"]
    if rng.random() < 0.5:
        container["env"] = [{"name": "x", "value": rng.choice([_random_image(rng), "info", "8080", "http://x/y"])}]
    return container


def _random_image(rng: random.Random) -> str:
    return rng.choice(
        [
            rng.choice(IMAGES),
            f"{{{{ .Values.image{rng.randrange(6)} }}}}",
            "{{ include `image` (dict `name` `tool` `tag` .Values.tag) }}",
            "quay.io/me/app:{{ .Chart.AppVersion }}",
            f"{{{{ index .Values.list {rng.randrange(3)} }}}}",
        ]
    )


def _random_resource(rng: random.Random) -> Value:
    resource: Value = {"images": {"main": _random_image(rng), "other": rng.choice([1, True, None, "x"])}}
    tags = ["v1", 7, 1.5, "{{ .Values.tag }}"]
    resource["image"] = rng.choice([_random_image(rng), {"repository": "quay.io/me/split", "tag": rng.choice(tags)}])
    if rng.random() < 0.5:
        resource["versions"] = [{"image": _random_image(rng)} for _ in range(rng.randint(1, 2))]
        resource["default"] = _random_image(rng)
    return resource


def images(chart: Value, helm: Path) -> set[str] | str:
    """Return the images that opmkit finds with the program in a directory, or its error."""
    paths = tuple(map(JsonPath.parse, chart["imagePaths"]))
    try:
        with patch.dict(os.environ, PATH=f"{helm}:{os.environ['PATH']}"):
            requests = read_charts([ImageSetChart(chart["name"], chart["path"], paths, "set.yaml:1")]).requests
    except HelmError as error:
        return error.message
    return {str(request.reference) for request in requests}


def valid(found: list[str]) -> set[str]:
    """Return the valid images of oc-mirror's, which has a looser grammar of references, in canonical form."""
    result = set()
    for text in found:
        try:
            result.add(str(Reference.parse(text)))
        except InvalidReference:
            continue
    return result


def compare(charts: list[Value], directory: Path) -> tuple[Counter[str], list[str]]:
    """Return the numbers of results, and descriptions of the differences in charts without their hooks."""
    lines = "".join(json.dumps(chart) + "\n" for chart in charts)
    done = subprocess.run([PROGRAM], input=lines, capture_output=True, text=True, check=True)
    _write_helm(directory / "all")
    _write_helm(directory / "none", "--no-hooks")
    counts: Counter[str] = Counter()
    different = []
    for chart, line in zip(charts, done.stdout.splitlines(), strict=True):
        complete, ours = images(chart, directory / "all"), images(chart, directory / "none")
        theirs = json.loads(line)
        if isinstance(ours, str) or isinstance(complete, str):
            counts["both fail" if "error" in theirs else "only ours fails"] += 1
            if "error" not in theirs:
                different.append(f"{chart}\nours: {ours}\ntheirs: {theirs}")
        elif "error" in theirs:
            counts[f"only theirs fails: {theirs['error'][-60:]}"] += 1
        elif {
            image for image in ours ^ valid(theirs["images"]) if not image.endswith(":latest")
        } or not ours <= complete:
            counts["different"] += 1
            different.append(f"{chart}\nours: {sorted(ours)}\ntheirs: {theirs}")
        else:
            counts["equal"] += 1
            counts["with images of hooks"] += ours < complete
            counts["images"] += len(ours)
    return counts, different


def _tagged(ours: set[str], theirs: set[str]) -> set[str]:
    """Return our images without those that only we find, and whose tag may be the default one."""
    return {image for image in ours if image in theirs or not image.endswith(":latest")}


def _write_helm(directory: Path, *flags: str) -> None:
    directory.mkdir()
    (directory / "helm").write_text(f'#!/bin/sh\nexec {HELM} "$@" {" ".join(flags)}\n')
    (directory / "helm").chmod(0o755)


def test_random_charts(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    charts = []
    for number in range(COUNT):
        path = tmp_path / f"chart-{number}"
        random_chart(rng, path)
        charts.append({"name": path.name, "path": str(path), "imagePaths": rng.sample(PATHS, rng.randint(0, 3))})
    counts, different = compare(charts, tmp_path)
    print(dict(counts))
    assert not different, different[0]
    assert counts["equal"] > COUNT / 2


@pytest.mark.skipif(not CHARTS, reason="set OPMKIT_CHART_DIRECTORY to a directory with charts")
def test_real_charts(tmp_path: Path) -> None:
    paths = sorted({*Path(CHARTS).rglob("*.tgz"), *(file.parent for file in Path(CHARTS).rglob("Chart.yaml"))})
    charts = [
        {"name": path.name, "path": str(path), "imagePaths": image_paths}
        for path in paths
        for image_paths in ([], *([text] for text in PATHS), list(PATHS))
    ]
    counts, different = compare(charts, tmp_path)
    print(dict(counts))
    assert not different, different[0]
    assert counts["equal"] > 0
