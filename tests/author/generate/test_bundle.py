"""Generation of manifests: the base, the fields of the ClusterServiceVersion, and the other files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opmkit.author.generate.bundle import BundleSettings, GeneratedManifests, generate_manifests
from opmkit.bundle import InvalidBundle
from opmkit.documents import go_yaml

from .inputs import BASE, CRD, read
from .inputs import DEPLOYMENT as WITH_ACCOUNT

DEPLOYMENT = WITH_ACCOUNT.replace("captain", "default")
SETTINGS = BundleSettings("boat", "1.0.0")


def generate(*documents: str, settings: BundleSettings = SETTINGS, base: str = "") -> GeneratedManifests:
    return generate_manifests(read(*documents), settings, read(base) if base else ())


def base_with(**spec: Any) -> str:
    return BASE + "\n".join(f"  {key}: {json.dumps(value)}" for key, value in spec.items())


def test_the_base_is_filled_in() -> None:
    generated = generate(BASE, DEPLOYMENT, CRD)
    csv = generated.csv
    assert csv["metadata"] == {
        "annotations": {"capabilities": "Full Lifecycle", "alm-examples": "[]"},
        "name": "boat.v1.0.0",
    }
    assert csv["spec"]["install"]["strategy"] == "deployment"
    (deployment,) = csv["spec"]["install"]["spec"]["deployments"]
    assert (deployment["name"], deployment["label"]) == ("boat-operator", {"app": "boat"})
    assert (csv["spec"]["version"], csv["spec"]["replaces"]) == ("1.0.0", "boat.v0.9.0")
    assert csv["spec"]["customresourcedefinitions"]["owned"] == [
        {"kind": "Boat", "name": "boats.example.com", "version": "v1"}
    ]
    assert generated.csv_file == "boat.clusterserviceversion.yaml"
    assert generated.files.keys() == {"example.com_boats.yaml"}
    assert generated.warnings == ()


def test_conversions_are_left_to_olm() -> None:
    service = """
    apiVersion: v1
    kind: Service
    metadata: {name: boat-service}
    spec: {selector: {app: boat}, ports: [{port: 443, targetPort: 9443}]}
    """
    annotations = "annotations: {cert-manager.io/inject-ca-from: boats/cert, note: x}"
    client = "clientConfig: {service: {name: SERVICE, namespace: boats}}"
    conversion = f"  conversion: {{strategy: Webhook, webhook: {{conversionReviewVersions: [v1], {client}}}}}\n"
    crd = CRD.replace("{name: boats", f"{{{annotations}, name: boats").replace("spec:\n", f"spec:\n{conversion}", 1)
    for name, is_defined in (("boat-service", True), ("absent", False)):
        files = generate(BASE, DEPLOYMENT, service, crd.replace("SERVICE", name)).files
        written: Any = go_yaml.load(files["example.com_boats.yaml"])
        assert ("conversion" in written["spec"]) is not is_defined
        assert ("cert-manager.io/inject-ca-from" in written["metadata"]["annotations"]) is not is_defined
        assert written["metadata"]["annotations"]["note"] == "x"


def test_manual_fields_of_the_base_are_retained() -> None:
    owned = [
        {"name": "boats.example.com", "version": "v1", "kind": "Boat", "displayName": "Boat", "description": "Floats."},
        {"name": "ships.example.com", "version": "v1", "kind": "Ship"},
    ]
    fields = {
        "relatedImages": [{"name": "mast", "image": "mast:1"}],
        "webhookdefinitions": [{"generateName": "a", "type": "ConversionWebhook", "admissionReviewVersions": ["v1"]}],
        "customresourcedefinitions": {"owned": owned},
        "futureField": {"a": 1},
    }
    generated = generate(base_with(**fields), DEPLOYMENT, CRD)
    spec = generated.csv["spec"]
    assert spec["customresourcedefinitions"]["owned"] == owned[:1]
    assert spec["relatedImages"] == fields["relatedImages"]
    assert spec["webhookdefinitions"][0]["generateName"] == "a"
    assert spec["futureField"] == {"a": 1}
    assert generated.warnings == (
        "omitted the owned CRD ships.example.com v1 of the base: no CRD of the input serves it",
    )


def test_related_images_of_input_and_base_are_merged() -> None:
    base = base_with(relatedImages=[{"name": "oar", "image": "oar:0"}, {"name": "mast", "image": "mast:1"}])
    deployment = DEPLOYMENT.rstrip() + "\n        env: [{name: RELATED_IMAGE_OAR, value: 'oar:1'}]"
    images = generate(base, deployment).csv["spec"]["relatedImages"]
    assert images == [{"name": "oar", "image": "oar:1"}, {"name": "mast", "image": "mast:1"}]


def test_samples_are_examples() -> None:
    sample = (
        "apiVersion: example.com/v1\nkind: Boat\nmetadata: {name: a, annotations: {x: '<&>'}}\nspec: {b: [], a: 1.0}"
    )
    text = generate(BASE, DEPLOYMENT, CRD, sample).csv["metadata"]["annotations"]["alm-examples"]
    assert json.loads(text)[0]["spec"] == {"a": 1, "b": []}
    assert '"x": "\\u003c\\u0026\\u003e"' in text
    with_examples = BASE.replace("capabilities:", 'alm-examples: "[ ]", capabilities:')
    assert generate_annotations(with_examples)["alm-examples"] == "[ ]"


def generate_annotations(base: str, settings: BundleSettings = SETTINGS) -> Any:
    return generate(DEPLOYMENT, base=base, settings=settings).csv["metadata"]["annotations"]


def test_layouts_of_projects_are_annotations() -> None:
    annotations = generate_annotations(BASE, BundleSettings("boat", "1.0.0", "go.kubebuilder.io/v4"))
    assert annotations["operators.operatorframework.io/project_layout"] == "go.kubebuilder.io/v4"
    assert annotations["operators.operatorframework.io/builder"].startswith("opmkit-v")


def test_watched_namespaces_are_those_of_the_operator_group() -> None:
    deployment = DEPLOYMENT.rstrip() + "\n        env: [{name: WATCH_NAMESPACE, value: boats}]"
    install = generate(BASE, deployment).csv["spec"]["install"]["spec"]
    (variable,) = install["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.annotations['olm.targetNamespaces']"
    assert "value" not in variable


def test_without_version_that_of_the_base_is_used() -> None:
    base = base_with(version="0.3").replace("boat.v0.0.0", "boat.v0.3.0")
    generated = generate(DEPLOYMENT, base, settings=BundleSettings("boat"))
    assert (generated.csv["metadata"]["name"], generated.csv["spec"]["version"]) == ("boat.v0.3.0", "0.3.0")
    assert generate(DEPLOYMENT, settings=BundleSettings("boat")).warnings == ("no version given: the version is 0.0.0",)


def test_without_base_there_are_placeholders() -> None:
    generated = generate(DEPLOYMENT)
    assert generated.csv["spec"]["provider"]["name"] == "Provider Name"
    assert generated.has_placeholders
    assert not generate(DEPLOYMENT, BASE).has_placeholders


def test_selection_of_the_base() -> None:
    other = BASE.replace("boat.v0.0.0", "ship.v0.0.0").replace("Boat", "Ship")
    given = generate(BASE, DEPLOYMENT, base=other)
    assert given.csv["spec"]["displayName"] == "Ship"
    assert given.warnings == ("standard input:1:1: the base ship.v0.0.0 is not named like package boat",)
    assert generate(other, BASE, DEPLOYMENT).csv["spec"]["displayName"] == "Boat"
    with pytest.raises(InvalidBundle, match=r"none of which is of package sail: ship.v0.0.0, boat.v0.0.0"):
        generate(other, BASE, DEPLOYMENT, settings=BundleSettings("sail"))


def test_accounts_that_are_not_created() -> None:
    assert generate(BASE, WITH_ACCOUNT).warnings == (
        "service account captain has no permissions, so OLM does not create it",
    )


def test_deployments_need_a_name() -> None:
    with pytest.raises(InvalidBundle, match="Deployment has no name"):
        generate(
            BASE, DEPLOYMENT.replace("name: boat-operator", "labels: {}").replace("labels: {app: boat}\nspec", "spec")
        )


def test_the_base_installs_the_operator_if_there_is_no_deployment() -> None:
    install = {"strategy": "deployment", "spec": {"deployments": [{"name": "a", "spec": {}}]}}
    assert generate(base_with(install=install), CRD).csv["spec"]["install"]["spec"]["deployments"][0]["name"] == "a"
    generated = generate(BASE, CRD)
    assert generated.csv["spec"]["install"] == {"strategy": "deployment", "spec": {"deployments": []}}
    assert generated.warnings == ("no Deployment found: the ClusterServiceVersion installs no operator",)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (BundleSettings("Boat Operator"), "invalid package name 'Boat Operator'"),
        (BundleSettings("../boat"), "invalid package name '../boat'"),
        (BundleSettings(""), "invalid package name ''"),
        (BundleSettings("boat", "v1.0.0"), "invalid version 'v1.0.0'"),
        (BundleSettings("boat", "1.0"), "invalid version '1.0'"),
    ],
)
def test_invalid_settings(settings: BundleSettings, message: str) -> None:
    with pytest.raises(InvalidBundle) as raised:
        generate(BASE, DEPLOYMENT, settings=settings)
    assert raised.value.message.startswith(message)
    assert raised.value.hint


def test_invalid_service_versions_are_reported() -> None:
    with pytest.raises(InvalidBundle, match="invalid generated ClusterServiceVersion: ") as raised:
        generate(base_with(minKubeVersion="new", replaces="boat.V1"), DEPLOYMENT)
    assert len(raised.value.lines) > 1


def test_empty_input() -> None:
    with pytest.raises(InvalidBundle, match="no Kubernetes objects found"):
        generate("")


def test_other_objects_become_files_without_namespace() -> None:
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: boats}\nspec: {ports: [{port: 80}]}"
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: boats}\ndata: {a: b}"
    budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: p}"
    certificate = "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: c}"
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: boats}"
    generated = generate(BASE, DEPLOYMENT, service, config, budget, certificate, namespace)
    assert generated.warnings == ("omitted objects that OLM cannot install: Certificate c",)
    assert {name: go_yaml.load(content) for name, content in generated.files.items()} == {
        "s_v1_service.yaml": {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"creationTimestamp": None, "name": "s"},
            "spec": {"ports": [{"port": 80, "targetPort": 0}]},
            "status": {"loadBalancer": {}},
        },
        "c_v1_configmap.yaml": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}},
        "p_policy_v1_poddisruptionbudget.yaml": {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "p"},
        },
    }


def test_objects_in_several_namespaces() -> None:
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: NS}\ndata: {a: NS}"
    generated = generate(BASE, DEPLOYMENT, config.replace("NS", "a"), config.replace("NS", "b"))
    assert list(generated.files) == ["c_v1_configmap.yaml", "dup0_c_v1_configmap.yaml"]
    assert "ConfigMap c is in several namespaces" in generated.warnings[0]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("apiVersion: v1\nkind: ConfigMap", "ConfigMap has no name"),
        ("apiVersion: ../../x/v1\nkind: ConfigMap\nmetadata: {name: a}", "invalid group, version or kind"),
        (CRD.replace("group: example.com", "group: ../x"), "invalid group, version or kind"),
    ],
)
def test_file_names_cannot_leave_the_directory(document: str, message: str) -> None:
    with pytest.raises(InvalidBundle, match=message):
        generate(BASE, DEPLOYMENT, document)


def test_scorecard_configurations() -> None:
    config = "apiVersion: scorecard.operatorframework.io/v1alpha3\nkind: Configuration\nmetadata: {name: NAME}"
    assert b"name: one" in generate(BASE, DEPLOYMENT, config.replace("NAME", "one")).scorecard
    with pytest.raises(InvalidBundle, match="Configuration two is the second configuration of the scorecard"):
        generate(BASE, DEPLOYMENT, config.replace("NAME", "one"), config.replace("NAME", "two"))
