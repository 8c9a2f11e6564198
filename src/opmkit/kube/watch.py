"""Watches that continue after lost connections and expired versions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from opmkit.core import interrupts
from opmkit.kube.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.kube.api import KubeApi
    from opmkit.kube.resources import Object, Resource

_MAX_SECONDS = 300
"""Maximum duration of one request; some proxies cut longer ones."""
PAUSE = 1.0
"""Seconds between attempts to reach a server."""
_EXPIRED = 410
_TRANSIENT = frozenset({0, 429, 500, 502, 503, 504})
_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class Watch:
    """A watch of the objects that match selectors."""

    def __init__(
        self, api: KubeApi, resource: Resource, namespace: str, labels: Mapping[str, str], fields: Mapping[str, str]
    ) -> None:
        """Describe a watch; nothing is sent."""
        self._api = api
        self._resource = resource
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._objects: dict[tuple[str, str], Object] = {}
        self._version = ""

    def events(self, deadline: float) -> Iterator[tuple[str, Object]]:
        """Yield the types and objects of changes until ``deadline``; the first are the existing objects.

        Raises:
            ClusterError: The server rejects the first request, or a later one for another reason than load.
        """
        yield from self._listed()
        while (left := deadline - time.monotonic()) > 0:
            started = time.monotonic()
            try:
                if not self._version:
                    yield from self._listed()
                for change, obj in self._received(max(1, min(int(left) + 1, _MAX_SECONDS))):
                    if time.monotonic() >= deadline:
                        return
                    yield change, obj
            except ClusterError as error:
                if error.status == _EXPIRED:
                    self._version = ""
                elif error.status not in _TRANSIENT:
                    raise
            if time.monotonic() - started < PAUSE:
                interrupts.sleep(min(PAUSE, max(0.0, deadline - time.monotonic())))

    def _listed(self) -> Iterator[tuple[str, Object]]:
        """List the objects and yield the differences from those known."""
        objects, version = self._api.list_objects(self._resource, self._namespace, self._labels, self._fields)
        found = {_key(obj): obj for obj in objects}
        for key in [key for key in self._objects if key not in found]:
            yield "DELETED", self._objects.pop(key)
        for key, obj in found.items():
            before = self._objects.get(key)
            self._objects[key] = obj
            if before is None or _version(before) != _version(obj):
                yield ("MODIFIED" if before else "ADDED"), obj
        self._version = version

    def _received(self, seconds: int) -> Iterator[tuple[str, Object]]:
        """Watch with one request."""
        for change, obj in self._api.watch(
            self._resource, self._namespace, self._labels, self._fields, self._version, seconds
        ):
            self._version = _version(obj) or self._version
            if change not in _CHANGES:
                continue
            if change == "DELETED":
                self._objects.pop(_key(obj), None)
            else:
                self._objects[_key(obj)] = obj
            yield change, obj


def _key(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _version(obj: Object) -> str:
    return str(obj["metadata"].get("resourceVersion") or "")
