from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit.bundle.errors import BundleError
from opmkit.bundle.rendering.chart import ChartRequest, CrdLocation, HelmChart, make_chart
from opmkit.bundle.rendering.config import InstallConfig
from opmkit.bundle.rendering.objects import RenderRequest, UnsupportedBundle, render_objects
from tests.bundle.rendering.samples import ALL, DEFINITION, DEPLOYMENT, RULE, bundle, webhook
from tests.kit import golang

if TYPE_CHECKING:
    from pathlib import Path

EVERY = ("AllNamespaces", "OwnNamespace", "SingleNamespace", "MultiNamespace")
PERMISSIONS: dict[str, Any] = {
    "permissions": [{"serviceAccountName": "reef", "rules": [RULE]}],
    "clusterPermissions": [{"serviceAccountName": "reef", "rules": [{**RULE, "verbs": ["get"]}]}],
}
CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "texts"},
    "data": {"template": "{{ .Values }} {{{ }} {{- if }}", "name": "opm-value-0-namespace", "line": "a: opm-value-1"},
}
ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "own"}, "rules": [RULE]}
CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000000}
CONFIG: dict[str, Any] = {
    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
    "envFrom": [{"secretRef": {"name": "more"}}],
    "volumes": [{"name": "more", "emptyDir": {}}],
    "volumeMounts": [{"name": "more", "mountPath": "/more"}],
    "tolerations": [{"operator": "Exists"}],
    "resources": {"limits": {"cpu": "1"}},
    "nodeSelector": {"a": "b"},
    "annotations": {"own": "2", "new": "3"},
    "affinity": {
        "podAffinity": {},
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
            }
        },
    },
}
CONFIGS: tuple[dict[str, Any], ...] = ({}, CONFIG, {"affinity": {}})
WRONG_VALUES: tuple[dict[str, Any], ...] = (
    {"watchNamespace": "a"},
    {"watchNamespaces": ["A"]},
    {"deploymentConfig": {"selector": {}}},
)


def chart(*objects: dict[str, Any], request: ChartRequest | None = None, **fields: Any) -> HelmChart:
    return make_chart(bundle(*objects, **fields), request or ChartRequest())


def parsed(content: bytes) -> Any:
    return yaml.safe_load(content)


def test_values_of_an_operator_that_only_watches_all_namespaces() -> None:
    made = chart(DEFINITION, modes=ALL, owned=["reefs.demo.com"], **PERMISSIONS)
    assert (made.name, made.version) == ("reef", "0.0.0")
    assert parsed(made.files["values.yaml"]) == {"namespace": "", "deploymentConfig": {}}
    assert made.files["crds/customresourcedefinition_reefs.demo.com.yaml"].startswith(b"apiVersion: apiext")
    assert not any(b"$namespace :=" in content for path, content in made.files.items() if "role" in path)


def test_defaults_of_the_values() -> None:
    request = ChartRequest("own", ("a", "b"), {"nodeSelector": {"x": "y"}})
    values = parsed(chart(modes=EVERY, request=request).files["values.yaml"])
    expected = {"namespace": "own", "watchNamespaces": ["a", "b"], "deploymentConfig": {"nodeSelector": {"x": "y"}}}
    assert values == expected


def test_metadata_comes_from_the_bundle() -> None:
    spec = {
        "version": "1.2.3-rc.1",
        "displayName": "The\nReef",
        "keywords": ["sea"],
        "maintainers": [{"name": "Ann", "email": "ann@demo.com"}, {"email": "nobody"}],
        "links": [{"name": "Source", "url": "https://demo.com"}, {"name": "None"}],
    }
    assert parsed(chart(spec=spec).files["Chart.yaml"]) == {
        "apiVersion": "v2",
        "name": "reef",
        "type": "application",
        "version": "1.2.3-rc.1",
        "appVersion": "1.2.3-rc.1",
        "description": "The Reef",
        "keywords": ["sea"],
        "maintainers": [{"name": "Ann", "email": "ann@demo.com"}],
        "sources": ["https://demo.com"],
    }


def test_definitions_with_a_conversion_webhook_are_templates() -> None:
    hooks = [webhook("ConversionWebhook", conversionCRDs=["reefs.demo.com"])]
    made = chart(DEFINITION, owned=["reefs.demo.com"], webhooks=hooks)
    assert made.to_dict()["templated_crds"] == ["reefs.demo.com"]
    assert json.loads(json.dumps(made.to_dict()))["files"].keys() == made.files.keys()
    assert b'include "reef.namespace"' in made.files["templates/customresourcedefinition_reefs.demo.com.yaml"]
    wanted = ChartRequest(crds=CrdLocation.TEMPLATES)
    assert chart(DEFINITION, owned=["reefs.demo.com"], webhooks=hooks, request=wanted).templated_crds == ()


def test_objects_of_the_same_file_name_have_their_own_files() -> None:
    other = {**CONFIG_MAP, "data": {}}
    files = chart({**CONFIG_MAP, "metadata": {"name": "a:b"}}, {**other, "metadata": {"name": "a/b"}}).files
    assert {"templates/configmap_a_b.yaml", "templates/configmap_a_b_2.yaml"} <= files.keys()


@pytest.mark.parametrize("mode", ['x" }}{{ fail "no', "x\nnamespace: evil"])
def test_unknown_install_modes_are_not_written(mode: str) -> None:
    files = chart(modes=[*EVERY, mode]).files
    assert not any(mode.splitlines()[-1].encode() in content for content in files.values())


def test_namespaces_that_it_cannot_watch() -> None:
    with pytest.raises(UnsupportedBundle, match="install mode SingleNamespace"):
        chart(modes=ALL, request=ChartRequest(watch_namespaces=("a",)))
    with pytest.raises(BundleError, match="invalid namespace"):
        ChartRequest(watch_namespaces=("{{ }}",))


@pytest.fixture(scope="session")
def helm(pytestconfig: pytest.Config) -> Path:
    return golang.helm(pytestconfig.cache.mkdir("opmkit-go"))


def rendered(helm: Path, directory: Path, values: dict[str, Any]) -> list[Any] | str:
    """Return the objects that helm renders, or its error."""
    (directory.parent / "values.json").write_text(json.dumps(values))
    arguments = ("-n", "own", "--include-crds", "-f", directory.parent / "values.json")
    done = subprocess.run([helm, "template", "x", directory, *arguments], capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else [each for each in yaml.safe_load_all(done.stdout) if each]


def ordered(objects: list[Any]) -> list[str]:
    return sorted(json.dumps(each, sort_keys=True) for each in objects)


HOOKS = [webhook("ValidatingAdmissionWebhook"), webhook("MutatingAdmissionWebhook", "other.demo.com")]
CONVERSION = [*HOOKS, webhook("ConversionWebhook", "convert.demo.com", conversionCRDs=["reefs.demo.com"])]


@pytest.mark.long
@pytest.mark.timeout(900)  # helm may have to be built
@pytest.mark.parametrize(("modes", "webhooks"), [(EVERY, HOOKS), (ALL, CONVERSION), (EVERY[1:], HOOKS)])
@pytest.mark.parametrize("crds", CrdLocation)
def test_helm_renders_the_same_objects(
    helm: Path, tmp_path: Path, modes: tuple[str, ...], webhooks: list[Any], crds: CrdLocation
) -> None:
    template = DEPLOYMENT["spec"]["template"]  # type: ignore[index]
    affinity: dict[str, Any] = {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
        "podAntiAffinity": {},
    }
    spec = {**template["spec"], "affinity": affinity, "tolerations": [{"operator": "Exists"}, {"key": "a"}]}
    deployment = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "template": {**template, "spec": spec}}}  # type: ignore[dict-item]
    content = bundle(
        DEFINITION, CONFIG_MAP, ROLE, CLASS,
        modes=modes, webhooks=webhooks, owned=["reefs.demo.com"], deployments=[deployment], **PERMISSIONS,
    )  # fmt: skip
    make_chart(content, ChartRequest(crds=crds)).write(tmp_path / "chart")
    compared = 0
    for watched in ((), ("own",), ("a",), ("a", "own"), ("123", "456")):
        for config in CONFIGS:
            values: dict[str, Any] = {"deploymentConfig": config}
            if modes != ALL or watched:
                values["watchNamespaces"] = watched
            found = rendered(helm, tmp_path / "chart", values)
            deployed = InstallConfig.parse(json.dumps({"deploymentConfig": config}).encode(), "config").deployment
            try:
                expected = render_objects(content, RenderRequest("own", watched, deployed))
            except UnsupportedBundle:
                assert isinstance(found, str)
                assert "watchNamespaces" in found
            else:
                assert not isinstance(found, str), found
                assert ordered(found) == ordered(expected)
                compared += 1
    assert compared >= 3


@pytest.mark.long
@pytest.mark.timeout(900)
def test_helm_accepts_the_chart_and_checks_the_values(helm: Path, tmp_path: Path) -> None:
    chart(DEFINITION, CONFIG_MAP, modes=EVERY, webhooks=HOOKS, owned=["reefs.demo.com"]).write(tmp_path / "chart")
    lint = subprocess.run([helm, "lint", tmp_path / "chart"], capture_output=True, text=True, check=False)
    assert lint.returncode == 0, lint.stdout
    for values in WRONG_VALUES:
        assert isinstance(rendered(helm, tmp_path / "chart", values), str)
    found = rendered(helm, tmp_path / "chart", {"namespace": "123", "watchNamespaces": ["123"]})
    assert not isinstance(found, str), found
    assert {each["metadata"].get("namespace") for each in found} == {None, "123"}
