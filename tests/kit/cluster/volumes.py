"""Volumes of simulated pods, as directories."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from tests.kit.cluster.containers import Mount

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.kit.cluster.client import KubeClient, Object
    from tests.kit.cluster.control_plane import ControlPlane


class MissingVolumeError(Exception):
    """A ConfigMap or Secret that does not exist yet."""


class Volumes:
    """The volumes of a pod, below ``directory``."""

    def __init__(self, manifest: Object, control_plane: ControlPlane, client: KubeClient, directory: Path) -> None:
        self._manifest, self._control_plane, self._client = manifest, control_plane, client
        self._namespace = manifest["metadata"]["namespace"]
        self._directory = directory

    def create(self) -> None:
        """Write the files of all volumes.

        Raises:
            MissingVolumeError: if an object does not exist.
        """
        for volume in self._manifest["spec"].get("volumes", []):
            target = self._directory / volume["name"]
            target.mkdir(parents=True, exist_ok=True)
            target.chmod(0o777)
            if source := volume.get("configMap"):
                self._write(target, "configmaps", source["name"], source)
            elif source := volume.get("secret"):
                self._write(target, "secrets", source["secretName"], source)
            elif source := volume.get("projected"):
                self._project(target, source["sources"])

    def mounts(self, container: Object) -> list[Mount]:
        """Return the mounts of a container, parents first."""
        mounts = []
        for mount in sorted(container.get("volumeMounts", []), key=lambda each: str(each["mountPath"])):
            source = self._directory / mount["name"] / mount.get("subPath", "")
            if not source.exists():
                source.mkdir(parents=True)
            mounts.append(Mount(source, mount["mountPath"].rstrip("/")))
        return mounts

    def _project(self, target: Path, sources: Iterable[Object]) -> None:
        """Write the files of a service account, and of ConfigMaps and Secrets."""
        for source in sources:
            if "serviceAccountToken" in source:
                (target / "token").write_text(self._token())
                (target / "ca.crt").write_bytes(self._control_plane.ca_file.read_bytes())
                (target / "namespace").write_text(self._namespace)
            elif (found := source.get("configMap")) and found["name"] != "kube-root-ca.crt":
                self._write(target, "configmaps", found["name"], found)
            elif found := source.get("secret"):
                self._write(target, "secrets", found["name"], found)

    def _token(self) -> str:
        account = self._manifest["spec"].get("serviceAccountName", "default")
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token"
        return str(self._client.post(path, request)["status"]["token"])

    def _write(self, target: Path, plural: str, name: str, source: Object) -> None:
        found = self._client.find(f"/api/v1/namespaces/{self._namespace}/{plural}/{name}")
        if found is None:
            if source.get("optional"):
                return
            raise MissingVolumeError(f'{plural.removesuffix("s")} "{name}" not found')
        encoded = found.get("binaryData", {}) if plural == "configmaps" else found.get("data", {})
        content = {key: base64.b64decode(value) for key, value in encoded.items()}
        if plural == "configmaps":
            content |= {key: value.encode() for key, value in found.get("data", {}).items()}
        items = source.get("items") or [{"key": key, "path": key} for key in content]
        for item in items:
            path = target / item["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content[item["key"]])
