"""Status of simulated pods."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.kit.cluster.client import Object


def now() -> str:
    """Return the time as in objects of the API."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class PodState:
    """The states of the containers of a pod, which determine its status."""

    def __init__(self, spec: Object, address: str) -> None:
        self.address = address
        self.phase = "Pending"
        self.initialized = not spec.get("initContainers")
        self._spec, self._start = spec, now()
        self._statuses = {
            each["name"]: _initial_status(each) for each in (*spec.get("initContainers", []), *spec["containers"])
        }

    def reason(self, container: Object) -> str | None:
        """Return the reason for which a container has failed to start, None if it has not failed."""
        waiting = self._statuses[container["name"]]["state"].get("waiting", {})
        return waiting.get("reason") if "message" in waiting else None

    def waiting(self, container: Object, reason: str, message: str) -> None:
        status = self._statuses[container["name"]]
        if "terminated" in status["state"]:
            status["lastState"] = status["state"]
            status["restartCount"] += 1
        status |= {"state": {"waiting": {"reason": reason, "message": message}}, "ready": False}

    def running(self, container: Object, *, ready: bool) -> None:
        self._statuses[container["name"]] |= {"state": {"running": {"startedAt": now()}}, "ready": ready}

    def terminated(self, container: Object, exit_code: int, message: str) -> None:
        ended = {
            "exitCode": exit_code if exit_code >= 0 else 128 - exit_code,
            "reason": "Error" if exit_code else "Completed",
            "message": message,
            "startedAt": self._start,
            "finishedAt": now(),
        }
        self._statuses[container["name"]] |= {"state": {"terminated": ended}, "ready": exit_code == 0}

    def status(self) -> Object:
        """Return the status of the pod."""
        containers = [self._statuses[each["name"]] for each in self._spec["containers"]]
        ready = self.phase == "Running" and all(each["ready"] for each in containers)
        status: dict[str, Any] = {
            "phase": self.phase,
            "conditions": [
                _condition("PodScheduled", True),
                _condition("Initialized", self.initialized),
                _condition("ContainersReady", ready),
                _condition("Ready", ready),
            ],
            "hostIP": "127.0.0.1",
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "startTime": self._start,
            "containerStatuses": containers,
        }
        if initial := self._spec.get("initContainers"):
            status["initContainerStatuses"] = [self._statuses[each["name"]] for each in initial]
        return status


def _initial_status(container: Object) -> dict[str, Any]:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"waiting": {"reason": "ContainerCreating"}},
    }


def _condition(name: str, value: bool) -> Object:
    return {"type": name, "status": str(value), "lastTransitionTime": now()}
