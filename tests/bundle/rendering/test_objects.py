from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.bundle.errors import BundleError
from opmkit.bundle.rendering.certificates import CertificateProvider
from opmkit.bundle.rendering.config import InstallConfig
from opmkit.bundle.rendering.objects import RenderRequest, UnsupportedBundle, generated_name, render_objects
from opmkit.bundle.rendering.output import KUSTOMIZATION, RenderedBundle
from tests.bundle.rendering.samples import DEFINITION, DEPLOYMENT, RULE, bundle, webhook

if TYPE_CHECKING:
    from pathlib import Path

PERMISSION = {"serviceAccountName": "reef", "rules": [RULE]}
NAMESPACE_RULE = {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]}


def render(*objects: dict[str, Any], watch: tuple[str, ...] = (), **fields: Any) -> dict[tuple[str, str, str], Any]:
    """Return the objects by kind, namespace and name."""
    found = render_objects(bundle(*objects, **fields), RenderRequest("own", watch))
    return {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in found}


def deployment(config: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the rendered Deployment with a configuration."""
    settings = InstallConfig.parse(json.dumps({"deploymentConfig": config}).encode(), "config")
    found = render_objects(bundle(**fields), RenderRequest("own", (), settings.deployment))
    return next(each for each in found if each["kind"] == "Deployment")


def pod(**fields: Any) -> dict[str, Any]:
    """Return the sample's deployment with further fields of its pod."""
    template = DEPLOYMENT["spec"]["template"]  # type: ignore[index]
    spec = {**template["spec"], **fields}
    return {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "template": {**template, "spec": spec}}}  # type: ignore[dict-item]


def test_permissions_become_cluster_permissions_of_an_operator_that_watches_everything() -> None:
    found = render(permissions=[PERMISSION], clusterPermissions=[{"rules": [RULE]}])
    own = generated_name("reef.v1.0.0-reef", {**PERMISSION, "rules": [RULE, NAMESPACE_RULE]})
    default = generated_name("reef.v1.0.0-default", {"rules": [RULE]})
    assert list(found)[:5] == [
        ("ServiceAccount", "own", "reef"),
        ("ClusterRole", "", default),
        ("ClusterRoleBinding", "", default),
        ("ClusterRole", "", own),
        ("ClusterRoleBinding", "", own),
    ]
    assert found["ClusterRole", "", own]["rules"] == [RULE, NAMESPACE_RULE]
    assert found["ClusterRoleBinding", "", default]["subjects"] == [
        {"kind": "ServiceAccount", "name": "default", "namespace": "own"}
    ]


def test_permissions_in_each_watched_namespace() -> None:
    found = render(permissions=[PERMISSION], modes=["MultiNamespace", "OwnNamespace"], watch=("a", "own"))
    name = generated_name("reef.v1.0.0-reef", PERMISSION)
    assert [key for key in found if "Role" in key[0]] == [
        ("Role", "a", name),
        ("RoleBinding", "a", name),
        ("Role", "own", name),
        ("RoleBinding", "own", name),
    ]
    assert found["RoleBinding", "a", name]["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": name,
    }


def test_generated_names_are_labels() -> None:
    name = generated_name("a" * 80, PERMISSION)
    assert len(name) <= 63
    assert name.startswith("aaaa")
    assert name != generated_name("a" * 80, {**PERMISSION, "rules": []})
    assert generated_name("a", {"rules": [{"verbs": ["<&>"]}]}) != generated_name("a", {"rules": [{"verbs": ["<>"]}]})


def test_deployments_have_the_annotations_of_the_csv_and_of_an_operator_group() -> None:
    found = render(modes=["OwnNamespace"], watch=("own",))["Deployment", "own", "reef"]
    assert found["spec"]["template"]["metadata"]["annotations"] == {
        "of": "csv",
        "own": "1",
        "olm.targetNamespaces": "own",
        "olm.operatorNamespace": "own",
    }
    assert found["spec"]["revisionHistoryLimit"] == 1
    assert found["metadata"]["labels"] == {"app": "reef"}
    assert found["spec"]["template"]["spec"]["containers"][0]["resources"] == {}


def test_other_objects_get_the_namespace_if_they_have_one() -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "x": 1}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "other"}}
    found = render(role, secret, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "t"}})
    assert found["ClusterRole", "", "r"] == role
    assert {("Secret", "own", "s"), ("Service", "own", "t")} <= found.keys()


def test_webhooks() -> None:
    conversion = webhook("ConversionWebhook", conversionCRDs=["reefs.demo.com"], webhookPath="/convert")
    validating = webhook("ValidatingAdmissionWebhook", "check.demo.com-", reinvocationPolicy="Never", targetPort=9443)
    mutating = webhook("MutatingAdmissionWebhook", "change.demo.com", webhookPath="/m", containerPort=0)
    webhooks = [conversion, {**validating, "generateName": "check.demo.com"}, mutating]
    found = render(DEFINITION, owned=["reefs.demo.com"], webhooks=webhooks)
    service = {"name": "reef-service", "namespace": "own"}
    converted = found["CustomResourceDefinition", "", "reefs.demo.com"]
    assert converted["spec"]["conversion"]["webhook"]["clientConfig"]["service"] == {
        **service,
        "path": "/convert",
        "port": 443,
    }
    assert converted["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "own/reef-service-cert"}
    (check,) = found["ValidatingWebhookConfiguration", "own", "check.demo.com"]["webhooks"]
    assert check["clientConfig"]["service"] == {**service, "port": 443}
    assert "reinvocationPolicy" not in check
    assert found["Service", "own", "reef-service"]["spec"]["ports"] == [
        {"name": "443", "port": 443, "targetPort": 443},
        {"name": "443", "port": 443, "targetPort": 9443},
    ]
    assert ("Issuer", "own", "reef-service-cert-selfsigned-issuer") in found
    certificate = found["Certificate", "own", "reef-service-cert"]["spec"]
    assert certificate["dnsNames"][-1] == "reef-service.own.svc.cluster.local"
    volumes = found["Deployment", "own", "reef"]["spec"]["template"]["spec"]["volumes"]
    assert [volume["secret"]["secretName"] for volume in volumes] == ["reef-service-cert"] * 2


def test_webhooks_of_watched_namespaces() -> None:
    given = [webhook("ValidatingAdmissionWebhook")]
    found = render(modes=["OwnNamespace"], watch=("own",), webhooks=given)
    (check,) = found["ValidatingWebhookConfiguration", "own", "reef.demo.com"]["webhooks"]
    watched = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["own"]}
    assert check["namespaceSelector"] == {"matchExpressions": [watched]}


@pytest.mark.parametrize(
    ("provider", "annotations", "mounted"),
    [
        (CertificateProvider.SERVICE_CA, {"service.beta.openshift.io/inject-cabundle": "true"}, True),
        (CertificateProvider.NONE, None, False),
    ],
)
def test_other_providers_of_certificates(
    provider: CertificateProvider, annotations: dict[str, str] | None, mounted: bool
) -> None:
    old = {"name": "old", "emptyDir": {}}
    mount = {"name": "old", "mountPath": "/tmp/k8s-webhook-server/serving-certs"}
    container = {"name": "manager", "image": "x", "volumeMounts": [mount, {"name": "kept", "mountPath": "/kept"}]}
    deployed = pod(containers=[container], volumes=[old, {"name": "kept", "emptyDir": {}}])
    given = bundle(webhooks=[webhook("ValidatingAdmissionWebhook")], deployments=[deployed])
    found = {each["kind"]: each for each in render_objects(given, RenderRequest("own", certificates=provider))}
    assert found["ValidatingWebhookConfiguration"]["metadata"].get("annotations") == annotations
    assert "Issuer" not in found
    names = [volume["name"] for volume in found["Deployment"]["spec"]["template"]["spec"]["volumes"]]
    assert names == (["kept", "webhook-cert", "apiservice-cert"] if mounted else ["old", "kept"])
    secret = found["Service"]["metadata"].get("annotations", {}).values()
    assert list(secret) == (["reef-service-cert"] if mounted else [])


def test_a_definition_that_preserves_unknown_fields_cannot_be_converted() -> None:
    preserving = {**DEFINITION, "spec": {**DEFINITION["spec"], "preserveUnknownFields": True}}  # type: ignore[dict-item]
    conversion = webhook("ConversionWebhook", conversionCRDs=["reefs.demo.com"])
    with pytest.raises(UnsupportedBundle, match=r"manifests/0.yaml: .*'reefs.demo.com' .* preserves unknown"):
        render(preserving, owned=["reefs.demo.com"], webhooks=[conversion])


def test_all_reasons_are_listed() -> None:
    with pytest.raises(UnsupportedBundle) as raised:
        render({"kind": "Pod", "metadata": {"name": "p"}}, owned=["a.b"])
    assert raised.value.lines == (
        "manifests/csv.yaml: owned CustomResourceDefinition 'a.b' is not in the bundle",
        "manifests/0.yaml: bundles cannot contain objects of kind Pod ('p')",
    )
    with pytest.raises(UnsupportedBundle, match="does not support install mode SingleNamespace, only AllNamespaces"):
        render(watch=("a",))


@pytest.mark.parametrize("name", ["", "../x", "A", "a.b", "x" * 64, "a\x1b"])
def test_namespaces_are_checked(name: str) -> None:
    with pytest.raises(BundleError, match="invalid namespace"):
        RenderRequest(name)
    with pytest.raises(BundleError, match="invalid namespace"):
        RenderRequest("own", (name,))


def test_configured_deployments() -> None:
    found = deployment(
        {
            "env": [{"name": "A", "value": "new"}, {"name": "B"}],
            "envFrom": [{"prefix": "p"}, {"prefix": "p"}],
            "volumes": [{"name": "old", "emptyDir": {}}, {"name": "more", "emptyDir": {}}],
            "volumeMounts": [{"name": "m", "mountPath": "/m"}],
            "tolerations": [{"key": "a"}, {"key": "b"}],
            "resources": {"requests": {"cpu": "0.5"}},
            "nodeSelector": {},
            "annotations": {"own": "2", "new": "3"},
        },
        deployments=[
            pod(
                volumes=[{"name": "old", "hostPath": {"path": "/"}}],
                tolerations=[{"key": "a"}],
                nodeSelector={"x": "y"},
            )
        ],
    )
    spec = found["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["env"] == [{"name": "A", "value": "new"}, {"name": "B"}]
    assert container["envFrom"] == [{"prefix": "p"}]
    assert container["volumeMounts"] == [{"name": "m", "mountPath": "/m"}]
    assert container["resources"] == {"requests": {"cpu": "500m"}}
    assert spec["volumes"] == [{"name": "old", "emptyDir": {}}, {"name": "more", "emptyDir": {}}]
    assert spec["tolerations"] == [{"key": "a"}, {"key": "b"}]
    assert "nodeSelector" not in spec
    assert found["metadata"]["annotations"] == {"own": "2", "new": "3"}
    assert found["spec"]["template"]["metadata"]["annotations"]["own"] == "1"


NODES: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": []}]}}
PODS = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}


@pytest.mark.parametrize(
    ("config", "left"),
    [
        ({}, None),
        ({"nodeAffinity": {}}, ["podAffinity"]),
        ({"nodeAffinity": {}, "podAffinity": {}}, None),
        ({"podAntiAffinity": PODS}, ["nodeAffinity", "podAffinity", "podAntiAffinity"]),
    ],
)
def test_configured_affinity(config: dict[str, Any], left: list[str] | None) -> None:
    deployed = pod(affinity={"nodeAffinity": NODES, "podAffinity": PODS})
    found = deployment({"affinity": config}, deployments=[deployed])["spec"]["template"]["spec"].get("affinity")
    assert (sorted(found) if found else None) == left


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "config:2:1: "),
        ("1", "config: not a mapping"),
        ("watch: a", "config: unknown field 'watch'"),
        ("watchNamespace: 1", "config: watchNamespace is not a namespace"),
        ("deploymentConfig: 1", "config: deploymentConfig is a number, not a mapping"),
        ("deploymentConfig: {env: {}}", "config: deploymentConfig.env is a mapping, not a list"),
        ("deploymentConfig: {envs: []}", "config: deploymentConfig.envs is an unknown field"),
        ("deploymentConfig: {env: [{nam: a}]}", "config: deploymentConfig.env[0].nam is an unknown field"),
        ("deploymentConfig: {selector: {}}", "config: deploymentConfig.selector has no effect"),
        ("deploymentConfig: {env: [{value: a}]}", "config: deploymentConfig.env[0].name is missing"),
        ("deploymentConfig: {volumes: [null]}", "config: deploymentConfig.volumes[0].name is missing"),
    ],
)
def test_invalid_configurations(content: str, message: str) -> None:
    with pytest.raises(BundleError) as raised:
        InstallConfig.parse(content.encode(), "config")
    assert str(raised.value).startswith(message)


def test_files(tmp_path: Path) -> None:
    named = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "../../system:x\x1b"}}
    rendered = RenderedBundle("reef", tuple(render_objects(bundle(named), RenderRequest("own"))))
    files = rendered.write(tmp_path / "new" / "base", kustomize=True)
    assert files == ("0_secret_.._.._system_x_.yaml", "1_deployment_reef.yaml", KUSTOMIZATION)
    assert sorted(path.name for path in (tmp_path / "new" / "base").iterdir()) == sorted(files)
    with pytest.raises(BundleError, match="not an empty directory"):
        rendered.write(tmp_path / "new" / "base")
    assert rendered.to_yaml().count(b"---\n") == 2
    assert rendered.to_dict()["name"] == "reef"
