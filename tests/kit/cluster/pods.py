"""A simulated pod: runs its containers and reports their states."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import requests

from tests.kit.cluster.containers import GRPC_PORT, TERMINATION_LOG, Mount, environment, local_command, start
from tests.kit.cluster.images import credentials_of, is_local, pull_error, registry_of
from tests.kit.cluster.port_forward import PortForward, accepts
from tests.kit.cluster.programs import free_port
from tests.kit.cluster.states import PodState, now
from tests.kit.cluster.unpacking import unpack_bundle
from tests.kit.cluster.volumes import MissingVolumeError, Volumes

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from pathlib import Path

    from tests.kit.cluster.client import Object
    from tests.kit.cluster.control_plane import ControlPlane

FAULT = "SIMULATED_FAULT"
"""Variable of a container that is only reported as running: a reason of waiting, or ``NotReady``."""
_POLL_INTERVAL = 0.05
_RETRY_INTERVAL = 0.5
_CRASHED = "CrashLoopBackOff"


class Pod:
    """A pod in a thread, with an own ``address`` and files below ``directory``.

    ``authorities`` are the certificate authorities of registries; other registries are accessed with plain HTTP.
    """

    def __init__(
        self,
        manifest: Object,
        control_plane: ControlPlane,
        directory: Path,
        address: str,
        authorities: Mapping[str, Path],
    ) -> None:
        self.namespace: str = manifest["metadata"]["namespace"]
        self.name: str = manifest["metadata"]["name"]
        self._manifest, self._spec = manifest, manifest["spec"]
        self._control_plane, self._directory, self._authorities = control_plane, directory, authorities
        self._client = control_plane.client.as_user("")
        self._volumes = Volumes(manifest, control_plane, self._client, directory / "volumes")
        self._state = PodState(self._spec, address)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the processes of the pod."""
        self._stopping.set()

    def join(self) -> None:
        self._thread.join()

    def log(self, container: str) -> Path | None:
        """Return the file with the output of a container, None if the pod does not have it."""
        names = [each["name"] for each in (*self._spec.get("initContainers", []), *self._spec["containers"])]
        return self._directory / f"{container}.log" if container in names else None

    def _run(self) -> None:
        with contextlib.suppress(_StoppedError), ExitStack() as stack:
            self._report()
            self._create_volumes()
            for container in self._spec.get("initContainers", []):
                if not self._run_init_container(container):
                    return
            self._state.initialized = True
            for container in self._spec["containers"]:
                self._pull(container)
            self._run_containers(stack)

    def _create_volumes(self) -> None:
        while True:
            try:
                return self._volumes.create()
            except (MissingVolumeError, requests.HTTPError) as error:
                self._record_event("FailedMount", f"MountVolume.SetUp failed: {error}")
                self._sleep()

    def _run_init_container(self, container: Object) -> bool:
        """Run an init container until it succeeds; return whether it did."""
        while True:
            self._pull(container)
            status, message = self._run_to_end(container)
            self._state.terminated(container, status, message)
            self._report()
            if status == 0:
                return True
            if self._spec.get("restartPolicy") == "Never":
                self._state.phase = "Failed"
                self._report()
                return False
            self._wait_with_reason(container, _CRASHED, f"back-off restarting failed container {container['name']}")

    def _run_to_end(self, container: Object) -> tuple[int, str]:
        """Run a container and return its exit code and the end of its output."""
        command = [*container.get("command", []), *container.get("args", [])]
        if command[:1] == ["/util/cpb"]:  # the second container of an unpack job runs in the bundle image
            credentials = credentials_of(self._manifest, self._client)
            target = self._volumes.mounts(container)[0].source
            authority = self._authorities.get(registry_of(container["image"]))
            return unpack_bundle(container["image"], target, credentials, authority, self._directory)
        if command[:1] == ["/bin/cp"] or not local_command(container, GRPC_PORT):
            return 0, ""
        process = self._start(container, free_port())
        self._state.running(container, ready=False)
        try:
            while process.poll() is None:
                self._sleep(_POLL_INTERVAL)
        finally:
            _kill(process)
        return process.returncode, self._last_output(container)

    def _run_containers(self, stack: ExitStack) -> None:
        self._state.phase = "Running"
        runs = []
        for container in self._spec["containers"]:
            if local_command(container, GRPC_PORT):
                runs.append(self._start_serving(container, stack))
            else:
                self._report_simulated(container)
        self._report()
        simulated = len(runs) < len(self._spec["containers"])
        while simulated or self._restarts or any(run.process.poll() is None for run in runs):
            for run in runs:
                self._observe(run)
            self._sleep(_POLL_INTERVAL if runs else _RETRY_INTERVAL)
        for run in runs:
            self._state.terminated(run.container, run.process.returncode, self._last_output(run.container))
        self._state.phase = "Failed" if any(run.process.returncode for run in runs) else "Succeeded"
        self._report()

    @property
    def _restarts(self) -> bool:
        return bool(self._spec.get("restartPolicy", "Always") == "Always")

    def _observe(self, run: _Run) -> None:
        """Report that a process has become ready, or has ended, in which case it is restarted."""
        status = run.process.poll()
        if status is None:
            if not run.ready and accepts(run.port):
                run.ready = True
                self._state.running(run.container, ready=True)
                self._report()
        elif self._restarts:
            self._state.terminated(run.container, status, self._last_output(run.container))
            message = f"back-off restarting failed container {run.container['name']}"
            self._wait_with_reason(run.container, _CRASHED, message)
            run.process, run.ready = self._start(run.container, run.port), False
            self._state.running(run.container, ready=False)
            self._report()

    def _start_serving(self, container: Object, stack: ExitStack) -> _Run:
        """Start a process whose gRPC port is forwarded from the address of the pod."""
        run = _Run(container, free_port())
        run.process = self._start(container, run.port)
        stack.callback(lambda: _kill(run.process))
        serves = str(run.port) in " ".join(local_command(container, run.port))
        if serves:
            stack.enter_context(PortForward(self._state.address, GRPC_PORT, run.port))
        run.ready = not serves
        self._state.running(container, ready=run.ready)
        return run

    def _start(self, container: Object, port: int) -> subprocess.Popen[bytes]:
        log = self.log(container["name"])
        assert log is not None
        termination_log = log.with_suffix(".termination")
        termination_log.write_bytes(b"")
        host, _, api_port = self._control_plane.url.removeprefix("https://").rpartition(":")
        api = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": api_port}
        return start(
            local_command(container, port),
            [*self._volumes.mounts(container), Mount(termination_log, TERMINATION_LOG)],
            root=self._directory / "root",
            log=log,
            env=environment(container, api),
            directory=container.get("workingDir", "/"),
        )

    def _report_simulated(self, container: Object) -> None:
        """Report a program that is not run here as running, or as failing if it has a simulated fault."""
        faults = [str(each.get("value")) for each in container.get("env", []) if each["name"] == FAULT]
        if not faults or faults == ["NotReady"]:
            return self._state.running(container, ready=not faults)
        if faults == [_CRASHED]:
            self._state.terminated(container, 1, "simulated failure")
        message = f"back-off 10s restarting failed container={container['name']} pod={self.name}_{self.namespace}"
        self._state.waiting(container, faults[0], message)
        return self._record_event("BackOff", message)

    def _pull(self, container: Object) -> None:
        """Return once the image of a container can be pulled."""
        image = container["image"]
        if not is_local(image):
            return
        while cause := pull_error(image, credentials_of(self._manifest, self._client), self._authorities):
            if self._state.reason(container) is None:
                self._state.waiting(container, "ErrImagePull", cause)
                self._record_event("Failed", f'Failed to pull image "{image}": {cause}')
            else:
                self._state.waiting(container, "ImagePullBackOff", f'Back-off pulling image "{image}": {cause}')
                self._record_event("BackOff", f'Back-off pulling image "{image}"')
            self._report()
            self._sleep()

    def _wait_with_reason(self, container: Object, reason: str, message: str) -> None:
        self._state.waiting(container, reason, message)
        self._record_event("BackOff", message)
        self._report()
        self._sleep()

    def _last_output(self, container: Object) -> str:
        log = self.log(container["name"])
        assert log is not None
        message = log.with_suffix(".termination").read_text(errors="replace")
        if not message and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            message = log.read_text(errors="replace")
        return message[-2048:]

    def _report(self) -> None:
        path = f"{pod_path(self._manifest)}/status"
        with contextlib.suppress(requests.HTTPError):  # deleted
            self._client.patch(
                path, {"metadata": {"uid": self._manifest["metadata"]["uid"]}, "status": self._state.status()}
            )

    def _record_event(self, reason: str, message: str) -> None:
        keys = ("name", "namespace", "uid")
        time_of_event = now()
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{self.name}.{uuid.uuid4().hex[:16]}", "namespace": self.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                **{key: self._manifest["metadata"][key] for key in keys},
            },
            "reason": reason,
            "message": message,
            "type": "Warning",
            "source": {"component": "kubelet", "host": "node"},
            "firstTimestamp": time_of_event,
            "lastTimestamp": time_of_event,
            "count": 1,
        }
        with contextlib.suppress(requests.HTTPError):  # the namespace is being deleted
            self._client.post(f"/api/v1/namespaces/{self.namespace}/events", event)

    def _sleep(self, seconds: float = _RETRY_INTERVAL) -> None:
        if self._stopping.wait(seconds):
            raise _StoppedError


@dataclass
class _Run:
    """A process of a container, which is ready when ``port`` accepts connections."""

    container: Object
    port: int
    process: subprocess.Popen[bytes] = field(init=False)
    ready: bool = False


class _StoppedError(Exception):
    """The pod is being deleted."""


def pod_path(manifest: Object) -> str:
    """Return the path of a pod in the API."""
    return f"/api/v1/namespaces/{manifest['metadata']['namespace']}/pods/{manifest['metadata']['name']}"


def _kill(process: subprocess.Popen[Any]) -> None:
    """End the processes of a container."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + 5
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
