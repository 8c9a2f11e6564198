"""A cluster with OLM and a simulated node."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING, Self

import pytest
import requests
import yaml

from tests.kit.cluster.client import PATIENCE
from tests.kit.cluster.containers import GRPC_PORT
from tests.kit.cluster.control_plane import ControlPlane
from tests.kit.cluster.kubelet import Kubelet
from tests.kit.cluster.programs import binary, custom_resource_definitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.kit.cluster.client import Object

OPERATORS = "/apis/operators.coreos.com/v1alpha1"
_POLL_INTERVAL = 0.2
_API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _require_addresses_of_pods() -> None:
    """Skip the test if a program listens at the port of catalogs on all addresses: each pod has one of its own."""
    try:
        socket.create_server(("127.254.0.1", GRPC_PORT)).close()
    except OSError:
        pytest.skip(f"another program listens at port {GRPC_PORT} of all addresses")


class Cluster(ControlPlane):
    """A cluster whose pods are started by a simulated kubelet, with OLM unless ``olm`` is false."""

    def __init__(self, *, olm: bool = True) -> None:
        self._with_olm = olm

    def __enter__(self) -> Self:
        _require_addresses_of_pods()
        super().__enter__()
        try:
            self.kubelet = self._stack.enter_context(Kubelet(self))
            if self._with_olm:
                self._install_olm()
            self._initial = self.client.dump().keys()
        except BaseException:
            self.__exit__()
            raise
        return self

    def create_namespace(self, name: str) -> str:
        """Create a namespace and return its name once pods can be created in it."""
        self.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.client.wait(f"/api/v1/namespaces/{name}/serviceaccounts/default", lambda _: True)
        return name

    def restore(self) -> None:
        """Delete everything that was created since the start, and wait until it is gone."""
        deadline = time.monotonic() + PATIENCE
        while new := {path: each for path, each in self.client.dump().items() if path not in self._initial}:
            assert time.monotonic() < deadline, f"not deleted: {sorted(new)}"
            contents = [path for path in new if not _is_namespace(path) and not _is_derived(path)]
            if contents:
                self._delete(new, contents)
            else:
                self._delete_namespaces(path for path in new if _is_namespace(path))
            time.sleep(_POLL_INTERVAL)

    def _delete(self, objects: Mapping[str, Object], paths: Iterable[str]) -> None:
        """Delete objects, owners first, unless they are being deleted."""
        existing = (path for path in paths if "deletionTimestamp" not in objects[path]["metadata"])
        for path in sorted(existing, key=lambda path: bool(objects[path]["metadata"].get("ownerReferences"))):
            self.client.delete(path, gracePeriodSeconds=0)

    def _delete_namespaces(self, paths: Iterable[str]) -> None:
        """Delete empty namespaces at once, for which the namespace controller takes five seconds."""
        for path in paths:
            self.client.delete(path)
            self.client.delete(f"{path}/serviceaccounts/default")
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": path.rpartition("/")[2]}}
            with contextlib.suppress(requests.HTTPError):  # it does not exist any more
                self.client.request("PUT", f"{path}/finalize", json={**namespace, "spec": {"finalizers": []}})

    def _install_olm(self) -> None:
        """Create the resources of OLM, and run its operators outside of the cluster."""
        definitions = [yaml.safe_load(path.read_bytes()) for path in custom_resource_definitions()]
        self.client.apply(*definitions)
        for each in definitions:
            self.client.wait(f"{_CRDS}/{each['metadata']['name']}", _is_established)
            for version in each["spec"]["versions"]:
                self.client.wait(f"{_API_SERVICES}/{version['name']}.{each['spec']['group']}", lambda _: True)
        for namespace in ("olm", "operators"):
            self.create_namespace(namespace)
        self.client.apply(
            {"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "cluster"}, "spec": {}}
        )
        images = ("--configmapServerImage", "configmap-server", "--opmImage", "opm", "--util-image", "olm")
        self.run(
            "catalog-operator",
            binary("catalog-operator"),
            *("--kubeconfig", str(self.kubeconfig), "--namespace", "olm", "--interval", "10s", *images),
            *("--install-plan-retry-timeout", "20s"),
        )
        self.run(
            "olm-operator",
            binary("olm-operator"),
            *("--namespace", "olm", "--interval", "10s", "--writeStatusName", "", "--writePackageServerStatusName", ""),
            env={"KUBECONFIG": str(self.kubeconfig), "OPERATOR_NAMESPACE": "olm", "OPERATOR_NAME": "olm"},
        )


def _is_namespace(path: str) -> bool:
    return path.rpartition("/")[0] == "/api/v1/namespaces"


def _is_derived(path: str) -> bool:
    """Return whether an object follows from a namespace or a CRD."""
    return path.endswith("/serviceaccounts/default") or path.startswith(_API_SERVICES)


def _is_established(definition: Object) -> bool:
    conditions = definition.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
