"""A cluster with OLM and a simulated node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import yaml

from tests.kit.cluster.control_plane import ControlPlane
from tests.kit.cluster.kubelet import Kubelet
from tests.kit.cluster.programs import binary, custom_resource_definitions

if TYPE_CHECKING:
    from tests.kit.cluster.client import Object

OPERATORS = "/apis/operators.coreos.com/v1alpha1"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Cluster(ControlPlane):
    """A cluster whose pods are started by a simulated kubelet, with OLM unless ``olm`` is false."""

    def __init__(self, *, olm: bool = True) -> None:
        self._with_olm = olm

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.kubelet = self._stack.enter_context(Kubelet(self))
            if self._with_olm:
                self._install_olm()
        except BaseException:
            self.__exit__()
            raise
        return self

    def create_namespace(self, name: str) -> str:
        """Create a namespace and return its name once pods can be created in it."""
        self.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.client.wait(f"/api/v1/namespaces/{name}/serviceaccounts/default", lambda _: True)
        return name

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace with its objects and wait until it is gone."""
        self.client.delete(f"/api/v1/namespaces/{name}")
        self.client.wait_gone(f"/api/v1/namespaces/{name}")

    def _install_olm(self) -> None:
        """Create the resources of OLM, and run its operators outside of the cluster."""
        definitions = [yaml.safe_load(path.read_bytes()) for path in custom_resource_definitions()]
        self.client.apply(*definitions)
        for each in definitions:
            self.client.wait(f"{_CRDS}/{each['metadata']['name']}", _is_established)
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


def _is_established(definition: Object) -> bool:
    conditions = definition.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
