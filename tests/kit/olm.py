"""OLM and a node for the API server in memory: a catalog is served, resolved and installed, or fails as a test wants.

The objects and messages follow those of OLM 0.38 on a real API server, on which tests/cluster runs the same commands.
"""

from __future__ import annotations

import base64
import gzip
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.index.fbc.csv_metadata import bundle_objects
from opmkit.index.fbc.load import parse_blobs

if TYPE_CHECKING:
    from opmkit.index.fbc.blobs import Blobs
    from tests.kit.apiserver import ApiServer
    from tests.kit.apiserver.store import Object

V1ALPHA1 = "operators.coreos.com/v1alpha1"


@dataclass
class Failures:
    """Failures that a test wants; empty ones do not happen.

    Attributes:
        pod: reason and message of the waiting container of the pod that serves the catalog.
        restarts: number of its restarts.
        connection: state of the connection to the catalog instead of READY.
        resolution: message of the resolver.
        pull: message of the container runtime about the bundle image.
        unpack: reason and message of the failed Job.
        step: message of the failed InstallPlan.
        requirement: message of the requirement that keeps the ClusterServiceVersion pending.
        deployment: message of the waiting container of the operator; the deployment never becomes available.
    """

    pod: tuple[str, str] = ("", "")
    restarts: int = 0
    connection: str = ""
    resolution: str = ""
    pull: str = ""
    unpack: tuple[str, str] = ("", "")
    step: str = ""
    requirement: str = ""
    deployment: str = ""


class ScriptedOlm:
    """Controllers on an API server, which react to each change immediately."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.failures = Failures()
        self._numbers = itertools.count(1)
        server.react("Pod", self._start_pod)
        server.react("CatalogSource", self._connect)
        server.react("Subscription", self._resolve)
        server.react("InstallPlan", self._install)

    def _start_pod(self, pod: Object) -> None:
        if pod.get("status"):
            return
        reason, message = self.failures.pod
        container: Object = {"name": "registry-grpc", "restartCount": self.failures.restarts, "ready": not reason}
        container["state"] = {"waiting": {"reason": reason, "message": message}} if reason else {"running": {}}
        status = {
            "phase": "Pending" if reason else "Running",
            "podIP": f"10.0.0.{next(self._numbers)}",
            "conditions": [{"type": "Ready", "status": "False" if reason else "True"}],
            "containerStatuses": [container],
        }
        self._set_status(pod, status)
        if reason:
            self._warn(pod, "Failed", message)

    def _connect(self, source: Object) -> None:
        address = source["spec"].get("address", "")
        if not address or source.get("status", {}).get("connectionState", {}).get("address") == address:
            return
        state = self.failures.connection or "READY"
        self._set_status(source, {"connectionState": {"address": address, "lastObservedState": state}})
        for subscription in self.server.objects("Subscription"):
            if subscription["spec"]["source"] == source["metadata"]["name"]:
                self._resolve(subscription)

    def _resolve(self, subscription: Object) -> None:
        """Create the InstallPlan of the next version, if the catalog has one that no InstallPlan installs yet."""
        status = subscription.get("status", {})
        current = status.get("currentCSV", "")
        if status.get("conditions") or (current and current != status.get("installedCSV")):
            return
        source = self.server.get(
            "CatalogSource", subscription["spec"]["source"], subscription["spec"]["sourceNamespace"]
        )
        if "address" not in source["spec"]:
            return
        catalog = self._catalog(subscription)
        entries = next(c.entries for c in catalog.channels if c.name == subscription["spec"]["channel"])
        following = [entry.name for entry in entries if entry.replaces == current] if current else []
        wanted = subscription["spec"]["startingCSV"] if not current else next(iter(following), "")
        if not wanted:
            return
        bundle = next(each for each in catalog.bundles if each.name == wanted)
        if conditions := self._resolution_problems(subscription, bundle.image):
            self._set_status(subscription, {**status, "conditions": conditions})
            return
        plan = f"install-{next(self._numbers)}"
        owner = {"apiVersion": V1ALPHA1, "kind": "Subscription", "name": subscription["metadata"]["name"]}
        namespace = subscription["metadata"]["namespace"]
        reference = {"name": plan, "namespace": namespace}
        self._set_status(subscription, {**status, "currentCSV": wanted, "installPlanRef": reference})
        self.server.put(
            {
                "kind": "InstallPlan",
                "metadata": {
                    **reference,
                    "ownerReferences": [{**owner, "uid": subscription["metadata"]["uid"]}],
                },
                "spec": {"approval": "Manual", "approved": False, "clusterServiceVersionNames": [wanted]},
                "status": {"phase": "RequiresApproval"},
            }
        )

    def _resolution_problems(self, subscription: Object, image: str) -> list[Object]:
        failures = self.failures
        if failures.resolution:
            return [_condition("ResolutionFailed", "ConstraintsNotSatisfiable", failures.resolution)]
        reason, message = failures.unpack
        if not image or not (failures.pull or reason):
            return []
        self._put_unpack_job(subscription["metadata"]["namespace"], image)
        if not reason:
            return [_condition("BundleUnpacking", "UnpackingInProgress", "")]
        text = f"bundle unpacking failed. Reason: {reason}, and Message: {message}"
        return [_condition("BundleUnpackFailed", "BundleUnpackFailed", text)]

    def _put_unpack_job(self, namespace: str, image: str) -> None:
        reason, message = self.failures.unpack
        containers = [{"name": "pull", "image": image}]
        job = {
            "kind": "Job",
            "metadata": {"name": "unpack", "namespace": namespace},
            "spec": {"template": {"spec": {"initContainers": containers}}},
            "status": {"conditions": [_condition("Failed", reason, message)] if reason else []},
        }
        self.server.put(job)
        metadata = {"name": "unpack-1", "namespace": namespace, "labels": {"job-name": "unpack"}}
        waiting = {"reason": "ErrImagePull", "message": self.failures.pull}
        state = {"waiting": waiting} if self.failures.pull else {"terminated": {"exitCode": 1, "message": "log\ncause"}}
        status = {"phase": "Pending", "initContainerStatuses": [{"name": "pull", "state": state}]}
        pod = self.server.put({"kind": "Pod", "metadata": metadata, "spec": {}, "status": status})
        if self.failures.pull:
            self._warn(pod, "Failed", f"Failed to pull image: {self.failures.pull}")

    def _install(self, plan: Object) -> None:
        if not plan["spec"]["approved"] or plan["status"]["phase"] != "RequiresApproval":
            return
        if self.failures.step:
            failed = {"type": "Installed", "status": "False", "reason": "InstallComponentFailed"}
            conditions = [{**failed, "message": self.failures.step}]
            self._set_status(plan, {"phase": "Failed", "conditions": conditions})
            return
        namespace = plan["metadata"]["namespace"]
        (name,) = plan["spec"]["clusterServiceVersionNames"]
        (subscription,) = self.server.objects("Subscription", namespace)
        bundle = next(each for each in self._catalog(subscription).bundles if each.name == name)
        objects: list[Any] = list(bundle_objects(bundle))
        steps = [step for each in objects if (step := self._create(each, namespace))]
        self._set_status(plan, {"phase": "Complete", "plan": steps})
        (csv,) = (each for each in objects if each["kind"] == "ClusterServiceVersion")
        self._put_csv(csv, namespace, subscription)

    def _create(self, obj: Object, namespace: str) -> Object | None:
        """Create an object of a bundle unless it exists, and return the step of the InstallPlan."""
        kind, name = obj["kind"], obj["metadata"]["name"]
        if kind == "ClusterServiceVersion":
            return None
        exists = any(each["metadata"]["name"] == name for each in self.server.objects(kind))
        if not exists:
            is_global = kind in ("CustomResourceDefinition", "ClusterRole")
            metadata = {**obj["metadata"], **({} if is_global else {"namespace": namespace})}
            self.server.put({**obj, "metadata": metadata})
        group, _, version = obj["apiVersion"].rpartition("/")
        resource = {"kind": kind, "name": name, "group": group, "version": version}
        return {"resource": resource, "status": "Present" if exists else "Created"}

    def _put_csv(self, csv: Object, namespace: str, subscription: Object) -> None:
        name, package = csv["metadata"]["name"], subscription["spec"]["name"]
        csv["metadata"] = {"name": name, "namespace": namespace}
        self._put_operator(package, namespace)
        if message := self.failures.requirement:
            requirement = {"kind": "CustomResourceDefinition", "name": "needed", "status": "NotPresent"}
            status = {"phase": "Pending", "reason": "RequirementsNotMet", "message": "one or more requirements"}
            status["requirementStatus"] = [{**requirement, "message": message}]  # type: ignore[assignment]
            self.server.put({**csv, "status": status})
            return
        phase = ("Failed", "InstallCheckFailed") if self.failures.deployment else ("Succeeded", "InstallSucceeded")
        status = {"phase": phase[0], "reason": phase[1], "message": "install timeout" if phase[0] == "Failed" else ""}
        stored = self.server.put({**csv, "status": status})
        for deployment in csv["spec"]["install"]["spec"]["deployments"]:
            self._put_deployment(deployment, stored)
        if phase[0] == "Succeeded":
            former = subscription.get("status", {}).get("installedCSV")
            self._set_status(subscription, {**self._status(subscription), "installedCSV": name})
            if former:
                self.server.remove("ClusterServiceVersion", former, namespace)

    def _put_deployment(self, deployment: Object, csv: Object) -> None:
        namespace = csv["metadata"]["namespace"]
        owner = {"apiVersion": V1ALPHA1, "kind": "ClusterServiceVersion", "name": csv["metadata"]["name"]}
        metadata = {"name": deployment["name"], "namespace": namespace}
        metadata["ownerReferences"] = [{**owner, "uid": csv["metadata"]["uid"]}]
        available = "False" if self.failures.deployment else "True"
        conditions = [{"type": "Available", "status": available, "reason": "MinimumReplicasUnavailable"}]
        status = {"conditions": conditions}
        self.server.put({"kind": "Deployment", "metadata": metadata, "spec": deployment["spec"], "status": status})
        if self.failures.deployment:
            labels = deployment["spec"]["selector"]["matchLabels"]
            waiting = {"reason": "CreateContainerConfigError", "message": self.failures.deployment}
            statuses = [{"name": "manager", "state": {"waiting": waiting}}]
            pod_metadata = {"name": "operator-1", "namespace": namespace, "labels": labels}
            pod = {"kind": "Pod", "metadata": pod_metadata, "spec": {}}
            stored = self.server.put({**pod, "status": {"phase": "Pending", "containerStatuses": statuses}})
            self._warn(stored, "Failed", self.failures.deployment)

    def _put_operator(self, package: str, namespace: str) -> None:
        self.server.put({"kind": "Operator", "metadata": {"name": f"{package}.{namespace}"}})

    def _catalog(self, subscription: Object) -> Blobs:
        """Read the catalog in the ConfigMaps of the pod that the CatalogSource is connected to."""
        source = self.server.get(
            "CatalogSource", subscription["spec"]["source"], subscription["spec"]["sourceNamespace"]
        )
        ip = source["spec"]["address"].rpartition(":")[0]
        namespace = source["metadata"]["namespace"]
        (pod,) = (each for each in self.server.objects("Pod", namespace) if each["status"].get("podIP") == ip)
        (volume,) = (each for each in pod["spec"]["volumes"] if "projected" in each)
        content = b""
        for each in volume["projected"]["sources"]:
            stored = self.server.get("ConfigMap", each["configMap"]["name"], namespace)
            raw = base64.b64decode(stored["binaryData"][each["configMap"]["items"][0]["key"]])
            content += gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        return parse_blobs(content, "catalog")

    def _status(self, obj: Object) -> Object:
        status: Object = self.server.get(obj["kind"], obj["metadata"]["name"], obj["metadata"]["namespace"])["status"]
        return status

    def _set_status(self, obj: Object, status: Object) -> None:
        self.server.set_status(obj["kind"], obj["metadata"]["name"], status, obj["metadata"]["namespace"])

    def _warn(self, obj: Object, reason: str, message: str) -> None:
        metadata = obj["metadata"]
        involved = {key: metadata[key] for key in ("name", "namespace", "uid")}
        self.server.put(
            {
                "kind": "Event",
                "metadata": {"name": f"event-{next(self._numbers)}", "namespace": metadata["namespace"]},
                "involvedObject": {"kind": obj["kind"], **involved},
                "type": "Warning",
                "reason": reason,
                "message": message,
            }
        )


def _condition(type_: str, reason: str, message: str) -> Object:
    return {"type": type_, "status": "True", "reason": reason, "message": message}
