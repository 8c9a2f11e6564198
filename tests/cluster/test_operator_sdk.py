"""``opm run`` and ``opm cleanup`` compared with operator-sdk on the same cluster."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from tests.cluster.state import cluster_state, wait_for_state
from tests.kit.bundles import push_image
from tests.kit.cluster.cluster import OPERATORS
from tests.kit.images import small_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.cluster.client import Object
    from tests.kit.cluster.cluster import Cluster
    from tests.kit.cluster.operators import SampleOperator
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

_REFERENCE = "OPMKIT_REFERENCE_OPERATOR_SDK"
_CATALOG_FIELDS = ("address", "publisher", "icon", "secrets")
"""Fields of CatalogSources that name the tool or the pod, or that operator-sdk sets to empty values."""
_CATALOG = (
    {"schema": "olm.package", "name": "reef", "defaultChannel": "stable"},
    {"schema": "olm.channel", "name": "stable", "package": "reef", "entries": [{"name": "reef.v1.0.0"}]},
    {
        "schema": "olm.bundle",
        "name": "reef.v1.0.0",
        "package": "reef",
        "image": "registry.example.com/reef:1",
        "properties": [{"type": "olm.package", "value": {"packageName": "reef", "version": "1.0.0"}}],
    },
)


@dataclass(frozen=True)
class OperatorSdk:
    """operator-sdk with an index image, which it requires where it cannot pull its default index."""

    path: str
    kubeconfig: str
    index: str
    ca_file: Path
    directory: Path

    def __call__(self, *arguments: str) -> str:
        """Run a command that must succeed and return its messages."""
        command = [self.path, *arguments, "--kubeconfig", self.kubeconfig]
        env = {**os.environ, "SSL_CERT_FILE": str(self.ca_file)}
        done = subprocess.run(
            command, cwd=self.directory, env=env, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    def run_bundle(self, image: str) -> None:
        self("run", "bundle", image, "--index-image", self.index)


@pytest.fixture
def tls_operator(cluster: Cluster, tls_registry: Registry, operator: SampleOperator) -> SampleOperator:
    """Return an operator with bundle images in a registry with TLS, which the node trusts."""
    cluster.kubelet.authorities[tls_registry.host] = tls_registry.ca_file
    return replace(operator, repository=f"{tls_registry.host}/{operator.name}/bundle")


@pytest.fixture
def tls_opm(kube_opm: Opm, tls_registry: Registry) -> Opm:
    """Return the command with the authority of the registry."""
    return replace(kube_opm, flags=("--ca-file", str(tls_registry.ca_file)))


@pytest.fixture
def sdk(tls_opm: Opm, tls_registry: Registry, tmp_path: Path) -> OperatorSdk:
    """Return operator-sdk, whose locks are in its working directory; skip the test if it is not available."""
    path = os.environ.get(_REFERENCE)
    if not path:
        pytest.skip(f"{_REFERENCE} is not set to operator-sdk 1.42.3")
    content = "\n".join(map(json.dumps, _CATALOG)).encode()
    labels = {"operators.operatorframework.io.index.configs.v1": "/configs"}
    layout = push_image(f"oci:{tmp_path}/index:1", small_image(tmp_path, {"configs/reef.json": content}, labels=labels))
    index = f"{tls_registry.host}/index:1"
    tls_opm("image", "copy", layout, index)
    return OperatorSdk(path, tls_opm.env["KUBECONFIG"], index, tls_registry.ca_file, tmp_path)


def created(before: dict[str, Object], after: dict[str, Object]) -> list[str]:
    """Return the paths of new objects."""
    return sorted(after.keys() - before.keys())


def kinds(paths: list[str]) -> list[str]:
    """Return the plural names of the objects at ``paths``."""
    return sorted(path.split("/")[-2] for path in paths)


def specs(cluster: Cluster, namespace: str) -> dict[str, Object]:
    """Return the specs of the objects that select an operator, without addresses of pods and empty values."""
    parents = (
        f"{OPERATORS}/namespaces/{namespace}/catalogsources",
        f"{OPERATORS}/namespaces/{namespace}/subscriptions",
        f"/apis/operators.coreos.com/v1/namespaces/{namespace}/operatorgroups",
    )
    found = {
        f"{parent}/{each['metadata']['name']}": each["spec"]
        for parent in parents
        for each in cluster.client.list(parent)
    }
    for spec in found.values():
        for field in _CATALOG_FIELDS:
            spec.pop(field, None)
    return found


def wait_until_installed(cluster: Cluster, namespace: str, csv: str) -> None:
    """Return once the Subscription records the version, which operator-sdk requires and does not wait for."""
    (found,) = cluster.client.list(f"{OPERATORS}/namespaces/{namespace}/subscriptions")
    cluster.client.wait(
        cluster.client.path({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", **found}),
        lambda current: current.get("status", {}).get("installedCSV") == csv,
    )


def test_both_create_the_same_objects_and_continue_what_the_other_began(
    cluster: Cluster, namespace: str, tls_opm: Opm, tls_operator: SampleOperator, sdk: OperatorSdk
) -> None:
    first, second = (tls_operator.build(replace(tls_opm, env={}), version) for version in ("0.1.0", "0.2.0"))
    before = cluster_state(cluster.client)

    sdk.run_bundle(first)
    expected = created(before, cluster_state(cluster.client)), specs(cluster, namespace)
    tls_opm("run", "bundle-upgrade", second)
    replace(tls_opm, flags=())("cleanup", tls_operator.package)
    wait_for_state(cluster.client, before)

    tls_opm("run", "bundle", first, "--index-image", sdk.index)
    found = created(before, cluster_state(cluster.client)), specs(cluster, namespace)
    wait_until_installed(cluster, namespace, tls_operator.csv("0.1.0"))
    sdk("run", "bundle-upgrade", second)
    wait_until_installed(cluster, namespace, tls_operator.csv("0.2.0"))
    sdk("cleanup", tls_operator.package)
    remaining = created(before, cluster_state(cluster.client))
    assert kinds(found[0]) == kinds(expected[0])
    assert found[1] == expected[1]
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    assert f"{roles}/{tls_operator.name}-viewer" in remaining  # opmkit removes it
