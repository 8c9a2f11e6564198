"""Requests about objects of any resource of the Kubernetes API, in JSON types."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
from msgspec import Struct

from opmkit.kube.errors import ClusterError
from opmkit.kube.transport import MAX_LIST, ClusterTransport

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.kube.connection import ClusterConnection


Object = dict[str, Any]
"""A Kubernetes object in JSON types."""
ALL_NAMESPACES = "*"
FIELD_MANAGER = "opm"
"""Manager of the fields that this client writes."""


class Resource(Struct, frozen=True):
    """A type of objects in the Kubernetes API.

    Attributes:
        group: API group, or "" for the core group.
        plural: Name of the resource in paths, such as ``configmaps``.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """Name of the resource with its group, such as ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_RBAC = "rbac.authorization.k8s.io"
_OLM = "operators.coreos.com"

POD = Resource("", "v1", "Pod", "pods")
CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps")
SECRET = Resource("", "v1", "Secret", "secrets")
SERVICE = Resource("", "v1", "Service", "services")
SERVICE_ACCOUNT = Resource("", "v1", "ServiceAccount", "serviceaccounts")
EVENT = Resource("", "v1", "Event", "events")
NAMESPACE = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
DEPLOYMENT = Resource("apps", "v1", "Deployment", "deployments")
JOB = Resource("batch", "v1", "Job", "jobs")
NETWORK_POLICY = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
ROLE = Resource(_RBAC, "v1", "Role", "roles")
ROLE_BINDING = Resource(_RBAC, "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = Resource(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING = Resource(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
CRD = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
API_SERVICE = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False)

CATALOG_SOURCE = Resource(_OLM, "v1alpha1", "CatalogSource", "catalogsources")
SUBSCRIPTION = Resource(_OLM, "v1alpha1", "Subscription", "subscriptions")
INSTALL_PLAN = Resource(_OLM, "v1alpha1", "InstallPlan", "installplans")
CSV = Resource(_OLM, "v1alpha1", "ClusterServiceVersion", "clusterserviceversions")
OPERATOR_GROUP = Resource(_OLM, "v1", "OperatorGroup", "operatorgroups")
OLM_CONFIG = Resource(_OLM, "v1", "OLMConfig", "olmconfigs", namespaced=False)
OPERATOR = Resource(_OLM, "v1", "Operator", "operators", namespaced=False)
PACKAGE_MANIFEST = Resource("packages.operators.coreos.com", "v1", "PackageManifest", "packagemanifests")

_KNOWN = {(value.api_version, value.kind): value for value in list(globals().values()) if isinstance(value, Resource)}


def find_known(api_version: str, kind: str) -> Resource | None:
    """Return the resource of a kind if it is one of this module."""
    return _KNOWN.get((api_version, kind))


_JSON, _MERGE_PATCH = "application/json", "application/merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"
_WRITER = {"fieldManager": FIELD_MANAGER}
_PAGE_SIZE = 250
_MAX_PAGES = 4000
"""Pages of a list, which have a million objects if they are full."""
_MAX_VALUES = 4_000_000
"""Values in a list with all its pages. Decoded, small values take up to 20 times their size in a response."""
_MAX_LOG_LINES = 5000
_EXPIRED = 410


class KubeApi:
    """Requests to one API server. Errors are ClusterErrors with the message of the server."""

    def __init__(self, connection: ClusterConnection) -> None:
        """Create a client; nothing is sent."""
        self._transport = ClusterTransport(connection)

    def get(self, resource: Resource, name: str, namespace: str) -> Object:
        """Return an object."""
        with self._decoding():
            return _checked(self._request("GET", _path(resource, namespace, name), {}), resource)

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
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}  # items of lists lack them
        parameters = {"limit": str(limit), **_selectors(labels, fields)}
        objects: list[Object] = []
        seen: set[str] = set()
        size = values = 0
        with self._decoding():
            for _ in range(_MAX_PAGES):
                content = self._transport.send("GET", _path(resource, namespace), parameters)
                size += len(content)
                if size > MAX_LIST:
                    raise ValueError(f"list of {resource.full_name} larger than {MAX_LIST} bytes")
                values += content.count(b",") + content.count(b"{") + content.count(b"[")  # or more, before decoding
                if values > _MAX_VALUES:
                    raise ValueError(f"list of {resource.full_name} with more than {_MAX_VALUES} values")
                page = _decoded(content)
                items, metadata = page.get("items"), page.get("metadata")
                if not isinstance(items, list | None) or not all(isinstance(each, dict) for each in items or ()):
                    raise ValueError(f"list of {resource.full_name} with an item that is not an object")
                if not isinstance(metadata, dict):
                    raise ValueError(f"list of {resource.full_name} without metadata")
                objects += [_checked({**kind, **each}, resource) for each in items or ()]
                token = metadata.get("continue")
                if not token:
                    return objects, _text(metadata.get("resourceVersion"))
                if token in seen:
                    raise ValueError(f"list of {resource.full_name} continues with an earlier page")
                seen.add(_text(token))
                parameters["continue"] = token
            raise ValueError(f"list of {resource.full_name} has more than {_MAX_PAGES} pages")

    def create(self, resource: Resource, obj: Object, namespace: str) -> Object:
        """Create an object and return it."""
        with self._decoding():
            return _checked(self._request("POST", _path(resource, namespace), _WRITER, obj), resource)

    def replace(self, resource: Resource, obj: Object, name: str, namespace: str) -> Object:
        """Replace an object and return it."""
        with self._decoding():
            return _checked(self._request("PUT", _path(resource, namespace, name), _WRITER, obj), resource)

    def apply(self, resource: Resource, obj: Object, name: str, namespace: str, *, force: bool) -> Object:
        """Apply the fields of an object on the server, and return the object."""
        parameters = {**_WRITER, **({"force": "true"} if force else {})}
        with self._decoding():
            path = _path(resource, namespace, name)
            return _checked(self._request("PATCH", path, parameters, obj, _APPLY_PATCH), resource)

    def patch(self, resource: Resource, name: str, patch: Object, namespace: str, subresource: str) -> Object:
        """Merge ``patch`` into an object or its subresource ``status``, and return the result."""
        with self._decoding():
            path = _path(resource, namespace, name, subresource)
            return _checked(self._request("PATCH", path, _WRITER, patch, _MERGE_PATCH), resource)

    def delete(self, resource: Resource, name: str, namespace: str, propagation: str) -> None:
        """Delete an object."""
        with self._decoding():
            path = _path(resource, namespace, name)
            self._transport.send("DELETE", path, {"propagationPolicy": propagation})

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
        parameters = {"watch": "true", "resourceVersion": version, **_selectors(labels, fields)}
        with self._decoding():
            for line in self._transport.watch(_path(resource, namespace), parameters, seconds):
                event = orjson.loads(line)
                if event["type"] == "ERROR":
                    raise _watch_error(event["object"])
                yield _text(event["type"]), _checked(event["object"], resource)

    def logs(self, pod: str, namespace: str, container: str) -> str:
        """Return the last lines of the log of a container."""
        parameters = {"tailLines": str(_MAX_LOG_LINES), **({"container": container} if container else {})}
        with self._decoding():
            content = self._transport.send("GET", _path(POD, namespace, pod, "log"), parameters, truncate=True)
            return "".join(f"{line}\n" for line in content.decode(errors="replace").splitlines())

    def get_path(self, path: str) -> Object:
        """Return the JSON object at a path, such as ``/api/v1``."""
        with self._decoding():
            return self._request("GET", path, {})

    def _request(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str],
        obj: Object | None = None,
        media_type: str = _JSON,
    ) -> Object:
        """Send a request and return the JSON object of the response."""
        body = None if obj is None else orjson.dumps(obj)
        return _decoded(self._transport.send(method, path, parameters, body, media_type))

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        """Report what is wrong with a response; the transport raises the errors of the server."""
        try:
            yield
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            self._transport.reject(str(error).splitlines()[0] if str(error) else type(error).__name__)


def _decoded(content: bytes) -> Object:
    """Return the JSON object of a response; raise ValueError or TypeError if it is something else."""
    found = orjson.loads(content)
    if not isinstance(found, dict):
        raise TypeError("not a JSON object")
    return found


def _path(resource: Resource, namespace: str, name: str | None = None, subresource: str = "") -> str:
    """Return the path of an object, or of the objects in a namespace.

    Raises:
        ClusterError: No object can have the name, and the path would be another one.
    """
    parts = ["apis", resource.group, resource.version] if resource.group else ["api", resource.version]
    if resource.namespaced and namespace != ALL_NAMESPACES:
        parts += ["namespaces", _segment(namespace)]
    parts += [resource.plural, *([] if name is None else [_segment(name)]), *([subresource] if subresource else [])]
    return "/" + "/".join(parts)


def _segment(name: str) -> str:
    if name in ("", ".", ".."):
        raise ClusterError(f"invalid name of a Kubernetes object: {name!r}")
    return quote(name, safe="")


def _selectors(labels: Mapping[str, str], fields: Mapping[str, str]) -> dict[str, str]:
    selectors = {"labelSelector": labels, "fieldSelector": fields}
    return {name: ",".join(f"{key}={value}" for key, value in each.items()) for name, each in selectors.items() if each}


def _watch_error(status: Object) -> ClusterError:
    code, reason = status.get("code") or 0, status.get("reason") or ""
    if not isinstance(code, int) or not isinstance(reason, str):
        raise TypeError("not a Status")
    return ClusterError(str(status.get("message")), status=code, reason=reason)


def _text(value: Any) -> str:
    """Return a string that is not empty; raise ValueError if the value is something else."""
    if not isinstance(value, str) or not value:
        raise ValueError("not a string")
    return value


def _checked(value: Any, resource: Resource) -> Object:
    """Return an object of a response; raise ValueError if it is something else."""
    names = (resource.api_version, resource.kind)
    if not isinstance(value, dict) or (value.get("apiVersion"), value.get("kind")) != names:
        raise ValueError(f"not a {resource.kind}")
    if not isinstance(value.get("metadata"), dict):
        raise ValueError(f"{resource.kind} without metadata")
    return value
