"""Helm renders the chart of a bundle to the objects that are rendered without it.

``OPMKIT_REFERENCE_HELM`` is the path of helm. The bundles are those of the corpus, or ``PACKAGE/VERSION`` directories
below ``OPMKIT_BUNDLE_DIRECTORIES``.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from opmkit.bundle.errors import BundleError
from opmkit.bundle.load import read_bundle_directory
from opmkit.bundle.rendering.chart import ChartRequest, make_chart
from opmkit.bundle.rendering.config import InstallConfig
from opmkit.bundle.rendering.objects import RenderRequest, UnsupportedBundle, render_objects
from opmkit.bundle.rendering.registry_v1 import RegistryV1, read_registry_v1
from opmkit.documents.yaml_writer import dump_yaml
from tests.kit.corpus import SHARED_BUNDLES

HELM = os.environ.get("OPMKIT_REFERENCE_HELM", "")
BUNDLES = Path(os.environ.get("OPMKIT_BUNDLE_DIRECTORIES", SHARED_BUNDLES))
pytestmark = [
    pytest.mark.skipif(not HELM, reason="OPMKIT_REFERENCE_HELM is not set"),
    pytest.mark.skipif(not BUNDLES.is_dir(), reason="the bundles are absent"),
    pytest.mark.timeout(3600),
]
CONFIG: dict[str, Any] = {
    "env": [{"name": "HTTP_PROXY", "value": "proxy"}],
    "envFrom": [{"secretRef": {"name": "more"}}],
    "tolerations": [{"operator": "Exists"}],
    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
    "nodeSelector": {"a": "b"},
    "volumes": [{"name": "more", "emptyDir": {}}],
    "volumeMounts": [{"name": "more", "mountPath": "/more"}],
    "affinity": {"podAffinity": {}},
    "annotations": {"x": "y"},
}
CASES: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    ((), {}),
    (("own",), {}),
    (("other",), CONFIG),
    (("a", "b"), CONFIG),
)
CANNOT_WRITE = "Helm cannot write the Deployment"


def rendered(chart: Path, watched: tuple[str, ...], config: dict[str, Any]) -> list[Any] | str:
    """Return the objects that helm renders, or its error."""
    values = chart.parent / "values.json"
    values.write_text(json.dumps({"deploymentConfig": config} | ({"watchNamespaces": watched} if watched else {})))
    command = [HELM, "template", "x", str(chart), "-n", "own", "--include-crds", "-f", str(values)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else read_all(done.stdout.encode())


def read_all(stream: bytes) -> list[Any]:
    return [each for each in yaml.load_all(stream, Loader=yaml.CSafeLoader) if each]


def ordered(objects: list[Any]) -> list[str]:
    return sorted(json.dumps(each, sort_keys=True, default=str) for each in objects)


def expected(bundle: RegistryV1, watched: tuple[str, ...], config: dict[str, Any]) -> list[Any] | None:
    """Return the objects, or None if the operator cannot watch the namespaces."""
    deployment = InstallConfig.parse(json.dumps({"deploymentConfig": config}).encode(), "config").deployment
    try:
        objects = render_objects(bundle, RenderRequest("own", watched, deployment))
    except UnsupportedBundle:
        return None
    return read_all(b"".join(b"---\n" + dump_yaml(each) for each in objects))


def test_objects_equal(tmp_path: Path) -> None:
    counts = {"objects": 0, "errors": 0, "unsupported": 0, "unwritable": 0}
    different = []
    for number, directory in enumerate(sorted(path for path in BUNDLES.glob("*/*") if (path / "manifests").is_dir())):
        try:
            bundle = read_registry_v1(read_bundle_directory(directory, directory.name))
            make_chart(bundle, ChartRequest()).write(tmp_path / str(number))
        except BundleError:
            counts["unsupported"] += 1
            continue
        for watched, config in CASES:
            want, got = expected(bundle, watched, config), rendered(tmp_path / str(number), watched, config)
            if want is None:
                counts["errors"] += 1
                same = isinstance(got, str) and "watchNamespaces" in got
            elif isinstance(got, str) and CANNOT_WRITE in got:  # Helm's YAML has no control characters
                counts["unwritable"] += 1
                same = True
            else:
                counts["objects"] += 1
                same = not isinstance(got, str) and ordered(got) == ordered(want)
            if not same:
                different.append((directory, watched, got, want))
    print(counts)
    assert not different, (len(different), *map(str, different[0]))
    assert counts["objects"] > 300
    assert counts["unwritable"] <= 2
