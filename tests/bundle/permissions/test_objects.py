"""What objects of bundles do besides roles and bindings."""

from __future__ import annotations

from typing import Any

import pytest

from opmkit.bundle.kinds import supported_kinds
from opmkit.bundle.permissions.objects import KNOWN_KINDS
from opmkit.bundle.validation.compat import Compat
from tests.kit.permissions import binding, crd, csv, manifest, read, role

CONTAINER = {"name": "x"}


def dangers(*objects: dict[str, Any]) -> list[str]:
    """Return kind, subject and text of the dangers of all objects."""
    found = read(*objects).objects
    return [f"{danger.kind}: {danger.subject}: {danger}" for each in found for danger in each.dangers]


def pod(**spec: Any) -> list[str]:
    """Return the dangers of a deployment."""
    return dangers(csv(pod=spec))


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [CONTAINER, {**CONTAINER, **fields}]}


def test_all_objects_are_listed() -> None:
    objects = read(csv(), manifest("ConfigMap", "v1"), role("Role", "r"), manifest("Pod", "v1", "p")).objects
    assert [(each.kind, each.group, each.name, len(each.dangers)) for each in objects] == [
        ("ClusterServiceVersion", "operators.coreos.com", "demo.v1.0.0", 0),
        ("ConfigMap", "", "x", 0),
        ("Role", "", "r", 0),
        ("Pod", "", "p", 1),
        ("Deployment", "apps", "demo", 0),
    ]
    assert supported_kinds(Compat.NEWEST) == KNOWN_KINDS.keys()


@pytest.mark.parametrize(
    ("kind", "api_version"),
    [
        ("Pod", "v1"),
        ("APIService", "apiregistration.k8s.io/v1"),
        ("ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1"),
        ("MutatingWebhookConfiguration", "admissionregistration.k8s.io/v1"),
        ("DaemonSet", "apps/v1"),
        ("Subscription", "operators.coreos.com/v1alpha1"),
        ("BundleSecret", "v1"),
        ("clusterrole", "rbac.authorization.k8s.io/v1"),
        ("OAuthClient", "oauth.openshift.io/v1"),
        ("Namespace", "v1"),
        ("Whatever", "example.com/v1"),
    ],
)
def test_unknown_kinds(kind: str, api_version: str) -> None:
    text = f"unknown-object: the bundle: install {kind} x, whose effect is not known"
    assert dangers(csv(), manifest(kind, api_version)) == [text]


@pytest.mark.parametrize(
    ("kind", "api_version", "group"),
    [
        ("Service", "serving.knative.dev/v1", "serving.knative.dev"),
        ("NetworkPolicy", "crd.projectcalico.org/v1", "crd.projectcalico.org"),
        ("Role", "iam.example.com/v1", "iam.example.com"),
        ("ClusterRole", "v1", "the core group"),
    ],
)
def test_known_kinds_of_other_groups(kind: str, api_version: str, group: str) -> None:
    text = f"unknown-object: the bundle: install {kind} x of {group}, whose effect is not known"
    assert dangers(csv(), manifest(kind, api_version)) == [text]


@pytest.mark.parametrize(
    "value",
    [
        manifest("ConfigMap", "v1"),
        manifest("Secret", "v1", type="Opaque"),
        manifest("Service", "v1", spec={"externalIPs": []}),
        manifest("ServiceAccount", "v1"),
        manifest("ServiceMonitor", "monitoring.coreos.com/v1", spec={"endpoints": [{"port": "metrics"}, None]}),
        manifest("PriorityClass", "scheduling.k8s.io/v1", value=10),
        manifest("ConsoleLink", "console.openshift.io/v1"),
        role("ClusterRole", "viewer"),
        role("ClusterRole", "demo", apiVersion="rbac.authorization.k8s.io/v1"),
        {**binding("RoleBinding", "Role/view"), "apiVersion": "authorization.openshift.io/v1"},
    ],
)
def test_harmless(value: dict[str, Any]) -> None:
    assert dangers(csv(), value) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (role("ClusterRole", "view"), "roles: the bundle: replace ClusterRole view in every namespace"),
        (role("Role", "system:x"), "roles: the bundle: replace Role system:x in its own namespace"),
        (
            manifest("ClusterRoleBinding", "rbac.authorization.k8s.io/v1", "cluster-admin"),
            "roles: the bundle: replace ClusterRoleBinding cluster-admin in every namespace",
        ),
        (
            manifest("Service", "v1", spec={"externalIPs": ["10.0.0.1"]}),
            "network: the bundle: receive the traffic to 10.0.0.1 (Service x) in every namespace",
        ),
        (
            manifest("Service", "v1", Spec={"ExternalIPs": ["10.0.0.1"]}),
            "network: the bundle: receive the traffic to 10.0.0.1 (Service x) in every namespace",
        ),
        (
            manifest("Secret", "v1", type="bootstrap.kubernetes.io/token"),
            "tokens: the bundle: issue a token that nodes join the cluster with (Secret x) in its own namespace",
        ),
        (
            manifest("ServiceMonitor", "monitoring.coreos.com/v1", spec={"endpoints": [{"bearerTokenFile": "/x"}]}),
            "tokens: the bundle: obtain the token in /x of Prometheus (ServiceMonitor x) in its own namespace",
        ),
        (
            manifest("PodMonitor", "monitoring.coreos.com/v1", spec={"podMetricsEndpoints": [{"basicAuth": {"a": 1}}]}),
            "secrets: the bundle: obtain secrets from Prometheus (PodMonitor x) in its own namespace",
        ),
        *(
            (
                manifest("ServiceMonitor", "monitoring.coreos.com/v1", spec={"endpoints": [endpoint]}),
                "secrets: the bundle: obtain secrets a/t from Prometheus (ServiceMonitor x) in its own namespace",
            )
            for endpoint in (
                {"authorization": {"credentials": {"name": "a", "key": "t"}}},
                {"oauth2": {"clientSecret": {"name": "a", "key": "t"}}},
                {"proxyUrl": "http://x", "proxyConnectHeader": {"x": [{"name": "a", "key": "t"}]}},
            )
        ),
        (
            manifest("ConsolePlugin", "console.openshift.io/v1"),
            "platform: the bundle: run scripts in the web console (ConsolePlugin x)",
        ),
        (
            manifest("PriorityClass", "scheduling.k8s.io/v1", globalDefault=True),
            "platform: the bundle: make PriorityClass x that of all pods",
        ),
    ],
)
def test_dangerous(value: dict[str, Any], expected: str) -> None:
    assert dangers(csv(), value) == [expected]


@pytest.mark.parametrize(
    ("fields", "expected"), [({}, 1), ({"authorization": "UserToken"}, 2), ({"authorize": True}, 2)]
)
def test_proxies_of_the_web_console(fields: dict[str, Any], expected: int) -> None:
    value = manifest("ConsolePlugin", "console.openshift.io/v1", spec={"proxy": [{"authorization": "None", **fields}]})
    texts = [
        "platform: the bundle: run scripts in the web console (ConsolePlugin x)",
        "tokens: the bundle: obtain tokens of users of the web console (ConsolePlugin x) in its own namespace",
    ]
    assert dangers(csv(), value) == texts[:expected]


@pytest.mark.parametrize(
    "fields", ["type metadata annotations", "Type metadata annotations", "tyPe Metadata Annotations"]
)
def test_tokens_of_service_accounts(fields: str) -> None:
    kind, metadata, annotations = fields.split()
    value = {
        "apiVersion": "v1",
        "kind": "Secret",
        kind: "kubernetes.io/service-account-token",
        metadata: {"name": "x", annotations: {"kubernetes.io/service-account.name": "prometheus"}},
    }
    (found,) = dangers(csv(), value)
    assert found.startswith("tokens: the bundle: obtain a lasting token of service account prometheus (Secret ")


@pytest.mark.parametrize(
    "annotation", ["eks.amazonaws.com/role-arn", "iam.gke.io/gcp-service-account", "azure.workload.identity/client-id"]
)
def test_cloud_identities(annotation: str) -> None:
    value = {**manifest("ServiceAccount", "v1"), "metadata": {"name": "demo", "annotations": {annotation: "root"}}}
    text = "impersonate: the bundle: act as root of the cloud provider (ServiceAccount demo) in its own namespace"
    assert dangers(csv(), value) == [text]


@pytest.mark.parametrize("annotation", ["oauth-redirecturi.first", "oauth-redirectreference.first"])
def test_service_accounts_that_are_oauth_clients(annotation: str) -> None:
    annotations = {f"serviceaccounts.openshift.io/{annotation}": "https://example.com"}
    value = {**manifest("ServiceAccount", "v1"), "metadata": {"name": "demo", "annotations": annotations}}
    assert dangers(csv(), value) == [
        "impersonate: the bundle: obtain tokens of users who log in to https://example.com (ServiceAccount demo) in "
        "its own namespace"
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("self-provisioner", "self-provisioners", "cluster-status", "storage-admin", "registry-viewer"),
        *("cluster-debugger", "cluster-monitoring-view", "helm-chartrepos-viewer", "console-extensions-reader"),
        *("aggregate-olm-edit", "olm-operators-admin", "global-operators-admin", "cluster-readers", "basic-users"),
        *("cluster-admins", "self-access-reviewer", "sudoer"),
    ],
)
def test_roles_of_openshift_and_olm(name: str) -> None:
    for kind in ("ClusterRole", "ClusterRoleBinding"):
        value = manifest(kind, "rbac.authorization.k8s.io/v1", name)
        assert dangers(csv(), value) == [f"roles: the bundle: replace {kind} {name} in every namespace"]


def test_definitions() -> None:
    own = csv(owned=["reefs.reef.io"])
    assert dangers(own, crd("reef.io")) == []
    prefix = "apis: the bundle: change CustomResourceDefinition"
    assert dangers(own, crd("reef.io"), crd("reef.io", "crabs")) == [
        f"{prefix} crabs.reef.io, which its operator does not own"
    ]
    assert dangers(csv(), crd("reef.io", conversion={"strategy": "Webhook"})) == [
        f"{prefix} reefs.reef.io, which its operator does not own",
        "webhooks: the bundle: convert all objects of CustomResourceDefinition reefs.reef.io",
    ]
    foreign = "subscriptions.operators.coreos.com"
    assert dangers(csv(owned=[foreign]), crd("operators.coreos.com", "subscriptions")) == [
        f"{prefix} {foreign}, whose API group belongs to others"
    ]
    assert dangers(own) == [
        "apis: the bundle: provide CustomResourceDefinition reefs.reef.io, which it does not contain"
    ]
    # the name of an object can differ from what its specification defines
    disguised = {**crd("cert-manager.io", "certificates"), "metadata": {"name": "reefs.reef.io"}}
    assert f"{prefix} certificates.cert-manager.io, which its operator does not own" in dangers(own, disguised)


def test_conversion_webhooks_and_api_services() -> None:
    webhook = {"type": "ConversionWebhook", "conversionCRDs": ["reefs.reef.io", "certificates.cert-manager.io"]}
    names = ["reefs.reef.io"]
    assert dangers(csv(owned=names, webhookdefinitions=[webhook]), crd("reef.io")) == [
        "webhooks: the bundle: convert all objects of CustomResourceDefinition certificates.cert-manager.io, which its "
        "operator does not own"
    ]
    services = {"owned": [{"group": "metrics.k8s.io", "version": "v1", "kind": "PodMetrics", "name": "pods"}]}
    assert dangers(csv(apiservicedefinitions=services)) == ["apis: the bundle: serve the API metrics.k8s.io/v1"]


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
def test_service_accounts_of_others(field: str) -> None:
    value = csv(account=None, pod={field: "prometheus"})
    text = "tokens: the bundle: run pods as service account prometheus, which it does not define, (Deployment demo)"
    assert dangers(value) == [f"{text} in its own namespace"]
    assert dangers(value, manifest("ServiceAccount", "v1", "prometheus")) == []
    assert dangers(csv(account=None)) == []  # the account default


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"hostNetwork": True}, "run pods with the network of nodes"),
        ({"hostPID": True}, "run pods with the process IDs of nodes"),
        ({"hostIPC": True}, "run pods with the shared memory of nodes"),
        (
            {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
            "run pods with sysctl kernel.msgmax",
        ),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "run pods without seccomp"),
        (
            {"securityContext": {"windowsOptions": {"hostProcess": True}}},
            "run pods as administrators of Windows nodes",
        ),
        (container(securityContext={"privileged": True}), "run privileged containers"),
        ({"initContainers": [{"name": "x", "securityContext": {"privileged": True}}]}, "run privileged containers"),
        (
            container(securityContext={"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "ALL"]}}),
            "run containers with capabilities ALL, SYS_ADMIN",
        ),
        (container(securityContext={"procMount": "Unmasked"}), "run containers with all of /proc"),
        (container(securityContext={"seLinuxOptions": {"type": "spc_t"}}), "run containers with SELinux type spc_t"),
        (
            container(securityContext={"seLinuxOptions": {"user": "u", "role": "r", "level": "l"}}),
            "run containers with SELinux role r, user u",
        ),
        (
            container(securityContext={"appArmorProfile": {"type": "Unconfined"}}),
            "run containers without AppArmor",
        ),
        (container(ports=[{"containerPort": 1, "hostPort": 1}]), "run containers with port 1 of nodes"),
        *(
            (container(**fields), "let nodes connect to 10.0.0.1 by probes or hooks of containers")
            for fields in (
                {"livenessProbe": {"httpGet": {"host": "10.0.0.1"}}},
                {"readinessProbe": {"tcpSocket": {"host": "10.0.0.1"}}},
                {"startupProbe": {"httpGet": {"host": "10.0.0.1"}}},
                {"lifecycle": {"preStop": {"httpGet": {"host": "10.0.0.1"}}}},
                {"lifecycle": {"postStart": {"tcpSocket": {"host": "10.0.0.1"}}}},
            )
        ),
    ],
)
def test_privileged_pods(spec: dict[str, Any], expected: str) -> None:
    assert pod(**spec) == [f"security-context: demo: {expected} (Deployment demo) in its own namespace"]


def test_directories_of_nodes() -> None:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/dev"}}]
    mounted = "nodes: demo: mount /dev of nodes (Deployment demo)"
    assert pod(volumes=volumes) == [mounted]
    assert pod(volumes=volumes, **container(volumeMounts=[{"name": "b", "readOnly": True}])) == [mounted]
    assert pod(volumes=volumes, **container(volumeMounts=[{"name": "a"}, {"name": "b"}])) == [
        mounted,
        "nodes: demo: write to /dev of nodes (Deployment demo)",
    ]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ('{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}', 1),
        ('{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}', 0),
        ("{}", 0),
        ("{", 0),
        ("[]", 0),
    ],
)
def test_the_suggested_namespace(template: str, expected: int) -> None:
    value = csv()
    value["metadata"]["annotations"] = {"operatorframework.io/suggested-namespace-template": template}
    text = "security-context: the bundle: suggest a namespace with privileged pods in its own namespace"
    assert dangers(value) == [text] * expected


def test_annotations_of_pods() -> None:
    value = csv()
    template = value["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]
    template["metadata"] = {"annotations": {"container.apparmor.security.beta.kubernetes.io/x": "unconfined", "a": "b"}}
    (found,) = dangers(value)
    assert "run containers without AppArmor" in found


def test_pods_within_the_baseline() -> None:
    context = {
        "privileged": False,
        "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
        "procMount": "Default",
        "seccompProfile": {"type": "RuntimeDefault"},
        "seLinuxOptions": {"type": "container_t"},
    }
    sysctls = [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]
    assert pod(**container(securityContext=context), securityContext={"sysctls": sysctls}) == []
