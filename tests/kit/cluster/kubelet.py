"""Simulated node: starts the pods of the cluster as far as tests need them."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

import requests

from tests.kit.cluster.containers import GRPC_PORT
from tests.kit.cluster.pod_logs import LogServer
from tests.kit.cluster.pods import Pod, pod_path

if TYPE_CHECKING:
    from tests.kit.cluster.client import Object
    from tests.kit.cluster.control_plane import ControlPlane

NODE = "node"
_RECONNECT_DELAY = 0.2


class Kubelet:
    """A node that runs every pod, as a context manager; there is no scheduler.

    Containers that run opmkit are processes on this machine. Other containers are only reported as running.
    ``authorities`` maps registries to the certificate authorities that the node trusts for them.
    """

    def __init__(self, control_plane: ControlPlane) -> None:
        self.authorities: dict[str, Path] = {}
        self._control_plane = control_plane
        self._stopping = threading.Event()
        self._pods: dict[str, Pod] = {}
        self._ending: set[str] = set()
        self._numbers = itertools.count()

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="opmkit-kubelet-", ignore_cleanup_errors=True)
        self._logs = LogServer(self._control_plane.certificate, self._find_log).__enter__()
        self._register_node()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for pod in list(self._pods.values()):
            pod.stop()
        for pod in list(self._pods.values()):
            pod.join()
        self._logs.__exit__()
        self._directory.cleanup()

    def _register_node(self) -> None:
        client = self._control_plane.client
        client.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._logs.port}},
        }
        client.patch(f"/api/v1/nodes/{NODE}/status", {"status": status})

    def _run(self) -> None:
        client = self._control_plane.client.as_user("")
        while not self._stopping.is_set():
            with contextlib.suppress(requests.RequestException):
                for event in client.watch("/api/v1/pods"):
                    if self._stopping.is_set():
                        return
                    self._handle(event["type"], event["object"])
            self._stopping.wait(_RECONNECT_DELAY)

    def _handle(self, change: str, manifest: Object) -> None:
        if change not in ("ADDED", "MODIFIED", "DELETED"):
            return
        metadata = manifest["metadata"]
        pod = self._pods.get(metadata["uid"])
        if change == "DELETED":
            if pod:
                pod.stop()
        elif "nodeName" not in manifest["spec"]:
            self._bind(manifest)
        elif "deletionTimestamp" in metadata:
            if metadata["uid"] not in self._ending:
                self._ending.add(metadata["uid"])
                threading.Thread(target=self._end, args=(pod, manifest), daemon=True).start()
        elif pod is None:
            self._start(manifest)

    def _bind(self, manifest: Object) -> None:
        metadata = manifest["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
        }
        with contextlib.suppress(requests.HTTPError):  # bound already, or deleted
            self._control_plane.client.as_user("").post(f"{pod_path(manifest)}/binding", binding)

    def _start(self, manifest: Object) -> None:
        directory = Path(self._directory.name, manifest["metadata"]["uid"])
        directory.mkdir()
        address = self._free_address()
        self._pods[manifest["metadata"]["uid"]] = Pod(
            manifest, self._control_plane, directory, address, self.authorities
        )

    def _free_address(self) -> str:
        """Return an unused loopback address; the nodes of other processes use addresses as well."""
        while True:
            number = next(self._numbers)
            address = f"127.{os.getpid() % 250 + 1}.{number // 250}.{number % 250 + 1}"
            with contextlib.suppress(OSError), socket.create_server((address, GRPC_PORT)):
                return address

    def _end(self, pod: Pod | None, manifest: Object) -> None:
        """Stop a pod and confirm its deletion."""
        if pod:
            pod.stop()
            pod.join()
        uid = {"uid": manifest["metadata"]["uid"]}
        with contextlib.suppress(requests.HTTPError):  # another pod has its name
            self._control_plane.client.as_user("").delete(pod_path(manifest), gracePeriodSeconds=0, preconditions=uid)

    def _find_log(self, namespace: str, name: str, container: str) -> Path | None:
        for pod in list(self._pods.values()):
            if (pod.namespace, pod.name) == (namespace, name):
                return pod.log(container)
        return None
