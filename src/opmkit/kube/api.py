"""Adapter for the client library: requests about objects of any resource, in JSON types."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx2
import msgspec
from lightkube import Client
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import Cluster as LightkubeCluster
from lightkube.config.models import Context, User
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_global_resource, create_namespaced_resource
from lightkube.types import CascadeType, OnErrorAction, OnErrorResult, PatchType

from opmkit.kube.errors import ClusterError
from opmkit.kube.resources import ALL_NAMESPACES, FIELD_MANAGER
from opmkit.kube.transport import ClusterTransport

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.kube.connection import ClusterConnection
    from opmkit.kube.resources import Object, Resource

_PAGE_SIZE = 250
_MAX_LOG_LINES = 5000
_EXPIRED = 410


class KubeApi:
    """Requests to one API server. Errors are ClusterErrors with the message of the server."""

    def __init__(self, connection: ClusterConnection) -> None:
        """Create a client; nothing is sent."""
        self._transport = ClusterTransport(connection)
        url = connection.server.url
        # TLS and credentials are up to the transport
        config = SingleConfig("opm", Context(cluster="opm"), LightkubeCluster(server=url, insecure=True), User())
        self._client = Client(config, transport=self._transport, field_manager=FIELD_MANAGER, trust_env=False)
        self._http = httpx2.Client(base_url=url, transport=self._transport, trust_env=False)

    def get(self, resource: Resource, name: str, namespace: str) -> Object:
        """Return an object."""
        with self._decoding():
            return _checked(self._client.get(_type(resource), _segment(name), **_in(resource, namespace)), resource)

    def list_objects(
        self, resource: Resource, namespace: str, labels: Mapping[str, str], fields: Mapping[str, str]
    ) -> tuple[list[Object], str]:
        """Return the matching objects and the version of the list. Pages are not used again after they expired."""
        try:
            return self._list(resource, namespace, labels, fields, _PAGE_SIZE)
        except ClusterError as error:
            if error.status != _EXPIRED:
                raise
            return self._list(resource, namespace, labels, fields, 0)

    def _list(
        self, resource: Resource, namespace: str, labels: Mapping[str, str], fields: Mapping[str, str], limit: int
    ) -> tuple[list[Object], str]:
        with self._decoding():
            found = self._client.list(
                _type(resource),
                **_in(resource, namespace),
                chunk_size=limit,
                labels=dict(labels),
                fields=dict(fields),
            )
            kind = {"apiVersion": resource.api_version, "kind": resource.kind}  # items of lists lack them
            objects = [_checked({**kind, **each}, resource) for each in found]
            return objects, found.resourceVersion

    def create(self, resource: Resource, obj: Object, namespace: str) -> Object:
        """Create an object and return it."""
        with self._decoding():
            return _checked(self._client.create(_type(resource)(obj), **_in(resource, namespace)), resource)

    def replace(self, resource: Resource, obj: Object, name: str, namespace: str) -> Object:
        """Replace an object and return it."""
        with self._decoding():
            changed = self._client.replace(_type(resource)(obj), _segment(name), **_in(resource, namespace))
            return _checked(changed, resource)

    def apply(self, resource: Resource, obj: Object, name: str, namespace: str, *, force: bool) -> Object:
        """Apply the fields of an object on the server, and return the object."""
        with self._decoding():
            return _checked(
                self._client.patch(
                    _type(resource),
                    _segment(name),
                    obj,
                    **_in(resource, namespace),
                    patch_type=PatchType.APPLY,
                    force=force,
                ),
                resource,
            )

    def patch(self, resource: Resource, name: str, patch: Object, namespace: str, subresource: str) -> Object:
        """Merge ``patch`` into an object or its subresource ``status`` or ``scale``, and return the result."""
        kind = _type(resource)
        target = {"": kind, "status": kind.Status, "scale": kind.Scale}[subresource]
        with self._decoding():
            changed: Any = self._client.patch(
                target, _segment(name), patch, **_in(resource, namespace), patch_type=PatchType.MERGE
            )
            return changed.to_dict() if subresource == "scale" else _checked(changed, resource)

    def delete(self, resource: Resource, name: str, namespace: str, propagation: str) -> None:
        """Delete an object."""
        cascade = CascadeType(propagation)
        with self._decoding():
            self._client.delete(_type(resource), _segment(name), **_in(resource, namespace), cascade=cascade)

    def watch(
        self,
        resource: Resource,
        namespace: str,
        labels: Mapping[str, str],
        fields: Mapping[str, str],
        version: str,
        seconds: int,
    ) -> Iterator[tuple[str, Object]]:
        """Yield the types and objects of the changes after ``version``, until the server or the network ends that.

        Raises:
            ClusterError: With status 410 if the server has forgotten the version.
        """
        failures: list[Exception] = []

        def stop(error: Exception, _: int) -> OnErrorResult:
            failures.append(error)
            return OnErrorResult(OnErrorAction.STOP)

        with self._decoding():
            for change, obj in self._client.watch(
                _type(resource),
                **_in(resource, namespace),
                labels=dict(labels),
                fields=dict(fields),
                server_timeout=seconds,
                resource_version=version,
                on_error=stop,
            ):
                yield str(change), _checked(obj, resource)
        for failure in failures:
            if isinstance(failure, ApiError):
                raise ClusterError(str(failure), status=failure.status.code or 0, reason=failure.status.reason or "")

    def logs(self, pod: str, namespace: str, container: str) -> str:
        """Return the last lines of the log of a container."""
        with self._decoding():
            lines = self._client.log(
                _segment(pod), namespace=_segment(namespace), container=container or None, tail_lines=_MAX_LOG_LINES
            )
            return "".join(lines)

    def get_path(self, path: str) -> Object:
        """Return the JSON object at a path, such as ``/api/v1``."""
        with self._decoding():
            found = msgspec.json.decode(self._http.get(path).content)
            if not isinstance(found, dict):
                raise TypeError("not a JSON object")
            return found

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        """Translate the errors of the client library into ClusterError; the transport raises those of the server."""
        try:
            yield
        except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            self._transport.reject(str(error).splitlines()[0] if str(error) else type(error).__name__)
        except httpx2.HTTPError as error:
            self._transport.reject(str(error))


@cache
def _type(resource: Resource) -> Any:
    """Return the client library's type for the objects of a resource."""
    create = create_namespaced_resource if resource.namespaced else create_global_resource
    return create(resource.group, resource.version, resource.kind, resource.plural)


def _in(resource: Resource, namespace: str) -> dict[str, Any]:
    if not resource.namespaced:
        return {}
    return {"namespace": namespace if namespace == ALL_NAMESPACES else _segment(namespace)}


def _segment(name: str) -> str:
    """Return a name as a segment of a path.

    Raises:
        ClusterError: No object can have the name, and the path would be another one.
    """
    if name in ("", ".", ".."):
        raise ClusterError(f"invalid name of a Kubernetes object: {name!r}")
    return quote(name, safe="")


def _checked(value: Any, resource: Resource) -> Object:
    """Return an object of a response; raise ValueError if it is something else."""
    names = (resource.api_version, resource.kind)
    if not isinstance(value, dict) or (value.get("apiVersion"), value.get("kind")) != names:
        raise ValueError(f"not a {resource.kind}")
    if not isinstance(value.get("metadata"), dict):
        raise ValueError(f"{resource.kind} without metadata")
    return dict(value)
