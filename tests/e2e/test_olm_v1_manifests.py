"""``opm index manifests --olm v1``: catalogs and extensions of OLM v1."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import requests
import yaml

from tests.kit.opm import LAGOON, Opm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kit.cluster.cluster import Cluster
    from tests.kit.forkserver import ForkServer
    from tests.kit.registry import Registry

Manifest = dict[str, Any]
KINDS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory, forkserver: ForkServer, registry: Registry) -> str:
    """Push the sample operator and a catalog of it, and return the name of the catalog."""
    directory = tmp_path_factory.mktemp("olm-v1")
    opm = Opm(directory, ("--use-http",), {"OPM_STORE": str(directory / "store")}, forkserver)
    bundles = [f"{registry.host}/olm-v1/lagoon:{version}" for version in ("0.1.0", "0.2.0")]
    for version, name in zip(("0.1.0", "0.2.0"), bundles, strict=True):
        opm.build_bundle(version, name, "--push")
    name = f"{registry.host}/olm-v1/catalog:1"
    opm("index", "add", "--to-fbc", "-b", ",".join(bundles), "-i", "scratch", "-t", name, "--push")
    return name


def objects(opm: Opm, catalog: str, *flags: str) -> list[Manifest]:
    return list(yaml.safe_load_all(opm("index", "manifests", catalog, "--olm", "v1", *flags)))


def kinds(manifests: Sequence[Manifest]) -> list[str]:
    return [one["kind"] for one in manifests]


def test_catalog_without_a_package(opm: Opm) -> None:
    (cluster_catalog,) = objects(opm, "quay.io/me/catalog", "--poll-interval", "1h", "--availability", "unavailable")
    assert cluster_catalog["metadata"] == {"name": "catalog"}
    assert cluster_catalog["spec"] == {
        "source": {"type": "Image", "image": {"ref": "quay.io/me/catalog:latest", "pollIntervalMinutes": 60}},
        "availabilityMode": "Unavailable",
    }


def test_package_with_the_permissions_of_its_bundle(opm_http: Opm, catalog: str) -> None:
    found = objects(opm_http, catalog, "--package", "lagoon-operator", "--channel", "stable", "--version", "0.2.0")
    assert kinds(found) == [*KINDS, "ClusterCatalog", "ClusterExtension"]
    by_kind = {one["kind"]: one for one in found}
    extension = by_kind["ClusterExtension"]["spec"]
    assert extension["serviceAccount"] == {"name": "lagoon-operator-installer"}
    assert extension["source"]["catalog"] == {
        "packageName": "lagoon-operator",
        "version": "0.2.0",
        "channels": ["stable"],
        "selector": {"matchLabels": {"olm.operatorframework.io/metadata.name": "catalog"}},
    }
    description = by_kind["ClusterRole"]["metadata"]["annotations"]["kubernetes.io/description"]
    assert "lagoon-operator.v0.2.0" in description
    granted = {"apiGroups": ["water.example.com"], "resources": ["lagoons"], "verbs": ["*"]}
    assert any(granted["apiGroups"] == rule["apiGroups"] for rule in by_kind["ClusterRole"]["rules"])
    assert not any("*" in rule["resources"] for rule in by_kind["ClusterRole"]["rules"])


def test_installer_permissions(opm_http: Opm, catalog: str) -> None:
    package = ("--package", "lagoon-operator", "--existing-namespace", "--installer-permissions")
    admin = objects(opm_http, catalog, *package, "cluster-admin")
    assert kinds(admin) == ["ServiceAccount", "ClusterRoleBinding", "ClusterCatalog", "ClusterExtension"]
    assert admin[1]["roleRef"]["name"] == "cluster-admin"
    none = objects(opm_http, catalog, *package, "none")
    assert kinds(none) == ["ClusterCatalog", "ClusterExtension"]
    assert "serviceAccount" not in none[1]["spec"]
    existing = objects(opm_http, catalog, *package, "none", "--service-account", "mine")
    assert existing[1]["spec"]["serviceAccount"] == {"name": "mine"}


def test_unreadable_catalogs_and_bundles(opm_http: Opm, registry: Registry) -> None:
    missing = f"{registry.host}/none/catalog:1"
    done = opm_http.attempt("index", "manifests", missing, "--olm", "v1", "-p", "lagoon-operator")
    assert done.returncode == 0
    assert "ClusterRoleBinding" in kinds(list(yaml.safe_load_all(done.stdout)))
    assert "Warning: package, channel and install modes are not checked: " in done.stderr
    assert done.stderr.endswith(
        "Warning: the permissions to install lagoon-operator are unknown: its installer is a cluster admin\n"
    )


def test_warnings(opm_http: Opm, catalog: str) -> None:
    arguments = ("index", "manifests", catalog, "--olm", "v1", "-p", "lagoon-operator", "--version", "<0.2")
    done = opm_http.attempt(*arguments, "--target-namespaces", "harbor")
    assert done.stderr.startswith("Warning: OLM v1 only installs operators that watch one namespace if SingleOwn")
    extension = list(yaml.safe_load_all(done.stdout))[-1]
    assert extension["spec"]["config"]["inline"] == {"watchNamespace": "harbor"}
    assert "Permissions to install lagoon-operator.v0.1.0" in done.stdout


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--package", "lagoon"), 'package "lagoon" '),
        (("--package", "lagoon-operator", "--channel", "none"), 'package "lagoon-operator": channel "none" not found'),
        (
            ("--package", "lagoon-operator", "--version", "9"),
            'package "lagoon-operator": no version matches "9"',
        ),
        (("--package", "lagoon-operator", "--target-namespaces", "a,b"), "several target namespaces unsupported"),
        (("--package", "lagoon-operator", "--starting-csv", "x"), "--starting-csv requires --olm v0"),
        (("--memory-target", "1Gi"), "--memory-target requires --olm v0"),
        (("--version", "1.0.0"), "--version requires --package"),
        (("--poll-interval", "30s"), "polling interval '30s': not in whole minutes"),
    ],
)
def test_invalid_command_lines(opm_http: Opm, catalog: str, flags: tuple[str, ...], message: str) -> None:
    done = opm_http.attempt("index", "manifests", catalog, "--olm", "v1", *flags)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {message}")
    assert "  hint: " in done.stderr


def test_flags_of_olm_v1_without_it(opm: Opm) -> None:
    done = opm.attempt("index", "manifests", "quay.io/me/catalog:1", "-p", "x", "--version", "1.0.0")
    assert done.stderr.startswith("Error: --version requires --olm v1\n")


def test_databases_are_refused(opm_http: Opm, registry: Registry) -> None:
    bundle, index = (f"{registry.host}/olm-v1-database/{name}:1" for name in ("bundle", "index"))
    opm_http.build_bundle("0.1.0", bundle, "--push")
    opm_http("index", "add", "-b", bundle, "-i", "scratch", "-t", index, "--push")
    done = opm_http.attempt("index", "manifests", index, "--olm", "v1", "-p", "lagoon-operator")
    assert done.stderr.startswith(f"Error: {index}: OLM v1 requires a file-based catalog")
    extracted = opm_http.attempt("index", "manifests", index, "-p", "lagoon-operator", "--extract-content")
    assert extracted.stderr.startswith(f"Error: {index}: extracting content unsupported")


class Installer:
    """The ServiceAccount of a ClusterExtension, as which operator-controller installs a bundle."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self.client = cluster.client
        self.headers = {"Impersonate-User": f"system:serviceaccount:{namespace}:{name}"}

    def apply(self, manifest: Manifest) -> None:
        """Create an object, change it, and list the type in all namespaces."""
        path = self.client.path(manifest)
        headers = {**self.headers, "Content-Type": "application/apply-patch+yaml"}
        for number in range(2):
            manifest["metadata"]["annotations"] = {"number": str(number)}
            parameters = "fieldManager=installer&force=true"
            self.client.request("PATCH", f"{path}?{parameters}", data=json.dumps(manifest), headers=headers)
        version = "/api/v1" if manifest["apiVersion"] == "v1" else f"/apis/{manifest['apiVersion']}"
        self.client.request("GET", f"{version}/{path.rsplit('/', 2)[1]}", headers=self.headers)

    def delete(self, manifest: Manifest) -> None:
        self.client.request("DELETE", self.client.path(manifest), headers=self.headers)


def installed_objects(namespace: str) -> list[Manifest]:
    """Return the objects that OLM v1 creates for the sample operator."""
    manifests = [yaml.safe_load(path.read_bytes()) for path in sorted((LAGOON / "0.3.0" / "manifests").iterdir())]
    csv = next(one for one in manifests if one["kind"] == "ClusterServiceVersion")
    install = csv["spec"]["install"]["spec"]
    found = [one for one in manifests if one is not csv]
    for permission in install["clusterPermissions"]:
        account, role = permission["serviceAccountName"], f"{csv['metadata']['name']}-hash"
        subjects = [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
        found += [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}},
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRole",
                "metadata": {"name": role},
                "rules": permission["rules"],
            },
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": role},
                "roleRef": reference,
                "subjects": subjects,
            },
        ]
    for deployment in install["deployments"]:
        metadata = {"name": deployment["name"]}
        found.append({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment["spec"]})
    for one in found:
        if one["kind"] in {"Service", "ServiceAccount", "Deployment"}:
            one["metadata"]["namespace"] = namespace
    return found


def test_the_installer_can_install_the_bundle_and_nothing_else(
    cluster: Cluster, opm_http: Opm, registry: Registry
) -> None:
    bundle, catalog = (f"{registry.host}/olm-v1-cluster/{name}:1" for name in ("lagoon", "catalog"))
    opm_http.build_bundle("0.3.0", bundle, "--push")
    opm_http("index", "add", "--to-fbc", "-b", bundle, "-i", "scratch", "-t", catalog, "--push")
    flags = ("--package", "lagoon-operator", "--install-namespace", "olm-v1-lagoon")
    *manifests, _, _ = objects(opm_http, catalog, *flags)
    cluster.client.apply(*manifests)
    installer = Installer(cluster, "olm-v1-lagoon", "lagoon-operator-installer")
    installed = installed_objects("olm-v1-lagoon")
    assert {one["kind"] for one in installed} >= {"CustomResourceDefinition", "ClusterRoleBinding", "Service"}
    for one in installed:
        installer.apply(one)

    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "namespace": "olm-v1-lagoon"}}
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "namespace": "default"}}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "lagoon-x"}}
    escalation = {**role, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}
    for forbidden in (secret, {**other, "spec": installed[-1]["spec"]}, escalation):
        with pytest.raises(requests.HTTPError, match="403"):
            installer.apply(forbidden)
    for one in reversed(installed):
        installer.delete(one)


def test_clusters_accept_the_pod_of_a_catalog(cluster: Cluster, opm: Opm) -> None:
    (opm.directory / "pod.yaml").write_text("affinity: {podAntiAffinity: {}}\n")
    flags = (
        *("--extract-content", "--extract-cache-dir", "/tmp/cache", "--memory-target", "512Mi", "--priority", "7"),
        *("--node-selector", "a=b", "--toleration", "x:NoSchedule,y=z", "--priority-class", "high"),
        *("--pod-config", "pod.yaml", "--security-context", "restricted", "--namespace", "default"),
    )
    source = yaml.safe_load(opm("index", "manifests", "quay.io/me/catalog:1", *flags))
    path = cluster.client.path(source)
    parameters = "fieldManager=tests&dryRun=All&fieldValidation=Strict"
    headers = {"Content-Type": "application/apply-patch+yaml"}
    stored = cluster.client.request("PATCH", f"{path}?{parameters}", data=json.dumps(source), headers=headers)
    assert stored["spec"] == source["spec"]
