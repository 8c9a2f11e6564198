"""Ways to gain permissions by an update: ``opm bundle permissions`` and the gate of a catalog report each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.permissions import EVERYTHING, SECRETS, binding, crd, csv, manifest, role, rule
from tests.kit.plans import chain, embeds, encode, package

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm

OLD, NEW, NEXT = "demo.v1.0.0", "demo.v2.0.0", "demo.v3.0.0"
RBAC = "rbac.authorization.k8s.io/v1"
CERTIFICATES = "certificates.cert-manager.io"
TOKEN = {
    **manifest("Secret", "v1", type="kubernetes.io/service-account-token"),
    "metadata": {"name": "x", "annotations": {"kubernetes.io/service-account.name": "prometheus"}},
}
OAUTH_CLIENT = {"serviceaccounts.openshift.io/oauth-redirecturi.first": "https://example.com"}
MONITOR = manifest(
    "ServiceMonitor",
    "monitoring.coreos.com/v1",
    spec={"endpoints": [{"proxyUrl": "http://x", "proxyConnectHeader": {"x": [{"name": "a", "key": "t"}]}}]},
)
AGGREGATED = {"authorization.openshift.io/aggregate-to-basic-user": "true"}
OPENSHIFT = manifest(
    "RoleBinding", "authorization.openshift.io/v1", roleRef={"name": "r"}, userNames=["system:anonymous"]
)
WAYS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "an existing role": (
        [role("ClusterRole", "system:basic-user", SECRETS, apiVersion=RBAC)],
        "Users with ClusterRole system:basic-user may now get secrets in every namespace (others)",
    ),
    "an aggregated role": (
        [role("ClusterRole", "r", rule("get", "pods"), labels=AGGREGATED, apiVersion=RBAC)],
        "Users with ClusterRole basic-user may now get pods in every namespace (others)",
    ),
    "a token": (
        [TOKEN],
        "the bundle may now obtain a lasting token of service account prometheus (Secret x) in its own "
        "namespace (tokens)",
    ),
    "an API service": (
        [manifest("APIService", "apiregistration.k8s.io/v1", "v1.x")],
        "the bundle may now install APIService v1.x, whose effect is not known (unknown-object)",
    ),
    "a pod": (
        [manifest("Pod", "v1")],
        "the bundle may now install Pod x, whose effect is not known (unknown-object)",
    ),
    "a binding for all": (
        [{**binding("ClusterRoleBinding", "ClusterRole/x", "Group/system:authenticated"), "apiVersion": RBAC}],
        "Group system:authenticated may now do what ClusterRole x permits in every namespace (others)",
    ),
    "a binding of OpenShift": (
        [OPENSHIFT, role("ClusterRole", "r", rule("get", "pods"), apiVersion=RBAC)],
        "User system:anonymous may now get pods in its own namespace (others)",
    ),
    "a definition of others": (
        [crd("operators.coreos.com", "subscriptions")],
        "the bundle may now change CustomResourceDefinition subscriptions.operators.coreos.com, whose API group "
        "belongs to others (apis)",
    ),
    "a privileged pod": (
        [csv(name=NEW, pod={"hostNetwork": True})],
        "demo may now run pods with the network of nodes (Deployment demo) in its own namespace (security-context)",
    ),
    "an account of others": (
        [csv(name=NEW, pod={"serviceAccountName": "prometheus"})],
        "the bundle may now run pods as service account prometheus, which it does not define, (Deployment demo) in its "
        "own namespace (tokens)",
    ),
    "a conversion webhook": (
        [csv(name=NEW, webhookdefinitions=[{"type": "ConversionWebhook", "conversionCRDs": [CERTIFICATES]}])],
        f"the bundle may now convert all objects of CustomResourceDefinition {CERTIFICATES}, which its operator does "
        "not own (webhooks)",
    ),
    "all resources of an API group": (
        [csv(name=NEW, cluster=[rule("*", "*", "reef.io")], owned=["reefs.reef.io"])],
        "demo may now do everything with all resources of reef.io in every namespace (wildcard)",
    ),
    "a dangerous rule": (
        [csv(name=NEW, cluster=[rule("create", "volumeattachments", "storage.k8s.io")])],
        "demo may now attach volumes to nodes by all attachments (nodes)",
    ),
    "the status of install plans": (
        [csv(name=NEW, cluster=[rule("patch", "installplans/status", "operators.coreos.com")])],
        "demo may now install operators with any permission in every namespace (escalate)",
    ),
    "the status of namespaces": (
        [csv(name=NEW, cluster=[rule("patch", "namespaces/status")])],
        "demo may now change the pod security of all namespaces in every namespace (security-context)",
    ),
    "images of others": (
        [csv(name=NEW, cluster=[rule("update", "imagestreams/layers", "image.openshift.io")])],
        "demo may now replace all images of workloads in every namespace (workloads)",
    ),
    "the account of all pods": (
        [csv(name=NEW, account="default", cluster=[rule("get", "pods")])],
        "default may now get pods in every namespace (others)",
    ),
    "an OAuth client": (
        [{**manifest("ServiceAccount", "v1"), "metadata": {"name": "demo", "annotations": OAUTH_CLIENT}}],
        "the bundle may now obtain tokens of users who log in to https://example.com (ServiceAccount demo) in its own "
        "namespace (impersonate)",
    ),
    "a role of OpenShift": (
        [role("ClusterRole", "self-provisioner", apiVersion=RBAC)],
        "the bundle may now replace ClusterRole self-provisioner in every namespace (roles)",
    ),
    "headers with secrets": (
        [MONITOR],
        "the bundle may now obtain secrets a/t from Prometheus (ServiceMonitor x) in its own namespace (secrets)",
    ),
    "tokens of users": (
        [manifest("ConsolePlugin", "console.openshift.io/v1", spec={"proxy": [{"authorization": "UserToken"}]})],
        "the bundle may now obtain tokens of users of the web console (ConsolePlugin x) in its own namespace (tokens)",
    ),
    "probes of other hosts": (
        [csv(name=NEW, pod={"containers": [{"name": "x", "livenessProbe": {"httpGet": {"host": "10.0.0.1"}}}]})],
        "demo may now let nodes connect to 10.0.0.1 by probes or hooks of containers (Deployment demo) in its own "
        "namespace (security-context)",
    ),
    "all URLs": (
        [csv(name=NEW, cluster=[{"verbs": ["get"], "nonResourceURLs": ["*"]}])],
        "demo may now get all URLs of the API server in every namespace (wildcard)",
    ),
}  # fmt: skip


def objects_of(way: str) -> list[dict[str, Any]]:
    """Return the objects of the new version, which owns ``reefs.reef.io`` as well as the old one."""
    found = WAYS[way][0]
    has_csv = any(each["kind"] == "ClusterServiceVersion" for each in found)
    return [*(() if has_csv else [csv(name=NEW, owned=["reefs.reef.io"])]), *found, crd("reef.io")]


def write_bundle(directory: Path, objects: list[dict[str, Any]]) -> None:
    (directory / "manifests").mkdir(parents=True)
    for number, value in enumerate(objects):
        (directory / "manifests" / f"{number}.yaml").write_text(json.dumps(value))


def write_catalog(
    directory: Path, channels: dict[str, list[dict[str, Any]]] | None = None, **versions: list[dict[str, Any]]
) -> None:
    """Write a catalog that contains the objects of its bundles, by default each replaces the one before."""
    names = {key: f"demo.{key}.0.0" for key in versions}
    properties = {names[key]: list(map(embeds, objects)) for key, objects in versions.items()}
    documents = package("demo", channels or {"stable": chain(*names.values())}, properties)
    without_images = [{key: value for key, value in each.items() if key != "image"} for each in documents]
    directory.mkdir()
    (directory / "catalog.json").write_bytes(encode(without_images))


@pytest.mark.parametrize("way", WAYS)
def test_gained_permissions(newcomer: InstalledOpm, way: str) -> None:
    old, new, line = [csv(name=OLD, owned=["reefs.reef.io"]), crd("reef.io")], objects_of(way), WAYS[way][1]
    for name, objects in (("old", old), ("new", new)):
        write_bundle(newcomer.directory / name, objects)
    done = newcomer.attempt("bundle", "permissions", "./new", "--from", "./old", "--fail-on", "any")
    assert done.returncode == 1
    assert line in done.stderr.splitlines()

    write_catalog(newcomer.directory / "published", v1=old)
    write_catalog(newcomer.directory / "catalog", v1=old, v2=new)
    gate = ("validate", "catalog", "--against", "published", "-o", "json", "--allowed-permissions")
    done = newcomer.attempt(*gate, "none")
    assert done.returncode == 1
    findings = [each["message"] for each in json.loads(done.stdout)["findings"] if each["rule"] == "GATE-PERMISSIONS"]
    assert f"{OLD} to {NEW}: {line}" in findings
    kinds = ",".join(each.rpartition("(")[2].removesuffix(")") for each in findings)
    assert newcomer.attempt(*gate, kinds).returncode == 0


@pytest.mark.parametrize(
    "channels",
    [
        {"stable": [{"name": OLD}, {"name": NEXT, "skips": [OLD]}], "beta": chain(NEW)},
        {"stable": chain(OLD), "beta": chain(NEW), "fast": [{"name": NEXT, "skipRange": "<3.0.0"}]},
        {"stable": chain(OLD), "beta": chain(NEW), "fast": [{"name": NEXT, "skips": [OLD]}]},
        {"stable": chain(OLD, NEW), "beta": chain(NEW)},
        {"stable": chain(OLD), "beta": chain(NEW), "fast": [{"name": OLD}, {"name": NEW, "skips": [OLD]}]},
    ],
)
def test_all_new_updates_count(newcomer: InstalledOpm, channels: dict[str, list[dict[str, Any]]]) -> None:
    all_bundles = {"v1": [csv(name=OLD)]} | {
        key: [csv(name=f"demo.{key}.0.0", cluster=[EVERYTHING])] for key in ("v2", "v3")
    }
    bundles = {key: value for key, value in all_bundles.items() if f"demo.{key}.0.0" in json.dumps(channels)}
    published = {"stable": chain(OLD), "beta": chain(NEW)}
    write_catalog(newcomer.directory / "published", published, **{key: all_bundles[key] for key in ("v1", "v2")})
    write_catalog(newcomer.directory / "catalog", channels, **bundles)
    gate = ("validate", "catalog", "--against", "published", "--allowed-permissions")
    done = newcomer.attempt(*gate, "none")
    assert done.returncode == 1
    assert f"{OLD} to " in done.stdout + done.stderr
    assert newcomer.attempt(*gate, "everything").returncode == 0
    done = newcomer.attempt("index", "diff", "published", "catalog", "--fail-on", "gained-permission")
    assert done.returncode == 1
    assert f"{OLD} to " in done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["secrets", "escalate", "bind"])
@pytest.mark.parametrize(
    "objects",
    [
        [csv(name=NEW, cluster=[EVERYTHING])],
        [csv(name=NEW), binding("ClusterRoleBinding", "ClusterRole/admin", "ServiceAccount/demo")],
    ],
)
def test_kinds_that_include_others_fail(newcomer: InstalledOpm, kind: str, objects: list[dict[str, Any]]) -> None:
    write_bundle(newcomer.directory / "new", objects)
    assert newcomer.attempt("bundle", "permissions", "./new", "--fail-on", kind).returncode == 1
    assert newcomer.attempt("bundle", "permissions", "./new", "--fail-on", "unknown-object").returncode == 0


def test_a_bundle_without_complete_objects_fails_the_gate(newcomer: InstalledOpm) -> None:
    old = [csv(name=OLD, owned=["reefs.reef.io"]), crd("reef.io")]
    write_catalog(newcomer.directory / "published", v1=old)
    kinds = "everything,unknown-role,unknown-object"
    for number, objects in enumerate(([crd("reef.io")], [*old, {"kind": "Role", "rules": {}}])):
        write_catalog(newcomer.directory / f"catalog{number}", v1=old, v2=objects)
        gate = ("validate", f"catalog{number}", "--against", "published", "--allowed-permissions", kinds)
        done = newcomer.attempt(*gate)
        assert done.returncode == 1
        assert f"the permissions of {NEW} cannot be read" in done.stdout + done.stderr
