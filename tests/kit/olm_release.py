"""A small stand-in for an OLM release, and the controllers that make it run in the API server of the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from tests.kit.apiserver import ApiServer
    from tests.kit.apiserver.store import Object

RELEASE = FIXTURES / "olm-release"


def add_controllers(server: ApiServer) -> None:
    """Make CRDs established, Deployments available, and the package server succeed, as the controllers would."""

    def establish(crd: Object) -> None:
        conditions = [{"type": "Established", "status": "True"}]
        server.set_status("CustomResourceDefinition", crd["metadata"]["name"], {"conditions": conditions}, "")

    def roll_out(deployment: Object) -> None:
        counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), deployment["spec"]["replicas"])
        status = {**counts, "observedGeneration": deployment["metadata"]["generation"]}
        server.set_status("Deployment", deployment["metadata"]["name"], status, deployment["metadata"]["namespace"])

    def install(csv: Object) -> None:
        namespace = csv["metadata"]["namespace"]
        for each in csv["spec"]["install"]["spec"]["deployments"]:
            metadata = {"name": each["name"], "namespace": namespace}
            server.put({"kind": "Deployment", "metadata": metadata, "spec": each["spec"]})
        server.set_status("ClusterServiceVersion", csv["metadata"]["name"], {"phase": "Succeeded"}, namespace)

    server.react("CustomResourceDefinition", establish)
    server.react("Deployment", roll_out)
    server.react("ClusterServiceVersion", install)
