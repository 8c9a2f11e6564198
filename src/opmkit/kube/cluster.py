"""Operations on the objects of a cluster, among them watches that continue after lost connections."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from opmkit.core import interrupts
from opmkit.core.hints import Hint
from opmkit.kube.api import POD, Object, Resource, find_known
from opmkit.kube.connection import ClusterConnection, Server, User
from opmkit.kube.errors import UNKNOWN_RESOURCE, ClusterError
from opmkit.kube.hint_terms import ClusterSetting
from opmkit.kube.kubeconfig import default_kubeconfig, load_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.kube.api import KubeApi, Object


_NONE: Mapping[str, str] = {}


class Event(NamedTuple):
    """A change of an object.

    Attributes:
        type: ``ADDED`` (also for objects that existed before), ``MODIFIED`` or ``DELETED``.
        object: The object after the change.
    """

    type: str
    object: Object


class Cluster:
    """Client for a Kubernetes cluster.

    Objects are plain JSON types. All methods raise ClusterError if the cluster cannot be reached or rejects a request.
    In namespaced resources, the namespace "" is the default one.

    Attributes:
        host: URL of the API server.
        namespace: Default namespace.
    """

    def __init__(self, connection: ClusterConnection, namespace: str = "") -> None:
        """Create a client; no request is sent."""
        self.host = connection.server.url
        self.namespace = namespace or connection.namespace
        self._connection = connection
        self._opened: KubeApi | None = None
        self._discovered: dict[tuple[str, str], Resource] = {}

    @classmethod
    def connect(cls, kubeconfig: str = "", *, context: str = "", namespace: str = "") -> Cluster:
        """Return a client for a context of a kubeconfig, or for the cluster of this pod. No request is sent.

        Args:
            kubeconfig: Files separated as in ``KUBECONFIG``, or "" for ``KUBECONFIG``, ``~/.kube/config`` or the
                service account of this pod, whichever is found first.
            context: Name of the context, or "" for the current one.
            namespace: Default namespace, or "" for the one of the context.

        Raises:
            ClusterError: The kubeconfig does not exist or is invalid, or this is not a pod.
        """
        paths = kubeconfig or default_kubeconfig()
        return cls(load_kubeconfig(paths, context) if paths else load_service_account(), namespace)

    @classmethod
    def of_this_pod(cls) -> Cluster:
        """Return a client with the service account of this pod; raises ClusterError if this is not a pod."""
        return cls(load_service_account())

    @property
    def _api(self) -> KubeApi:
        if self._opened is None:
            from opmkit.kube.api import KubeApi  # takes long to import

            self._opened = KubeApi(self._connection)
        return self._opened

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """Return an object; raises ClusterError with status 404 if it does not exist."""
        with _explaining("get", resource):
            return self._api.get(resource, name, namespace or self.namespace)

    def find(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """Return an object, None if it or its resource does not exist."""
        try:
            return self.get(resource, name, namespace)
        except ClusterError as error:
            if error.status != 404:
                raise
            return None

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> list[Object]:
        """Return the objects with all given labels and fields, in a namespace or in ``ALL_NAMESPACES``."""
        with _explaining("list", resource):
            return self._api.list_objects(resource, namespace or self.namespace, labels or _NONE, fields or _NONE)[0]

    def create(self, obj: Object) -> Object:
        """Create an object and return it as stored; its namespace is the default one if it names none."""
        resource = self._resource_of(obj)
        with _explaining("create", resource):
            return self._api.create(resource, obj, self._namespace_of(obj))

    def apply(self, obj: Object, *, force: bool = True) -> Object:
        """Create an object or change the fields given, with server-side apply, and return it as stored.

        Args:
            obj: Fields that a former call set and this one lacks are removed.
            force: Whether to take over fields that others have set; otherwise this is a conflict (status 409).
        """
        resource = self._resource_of(obj)
        with _explaining("patch", resource):
            return self._api.apply(resource, obj, _name_of(obj), self._namespace_of(obj), force=force)

    def replace(self, obj: Object) -> Object:
        """Replace an object and return it as stored; status 409 if it is not based on the stored version."""
        resource = self._resource_of(obj)
        with _explaining("update", resource):
            return self._api.replace(resource, obj, _name_of(obj), self._namespace_of(obj))

    def patch(
        self, resource: Resource, name: str, merge_patch: Object, namespace: str = "", *, subresource: str = ""
    ) -> Object:
        """Merge a patch (RFC 7386) into an object, or into its subresource ``status``; return it."""
        with _explaining("patch", resource, subresource):
            return self._api.patch(resource, name, merge_patch, namespace or self.namespace, subresource)

    def delete(self, resource: Resource, name: str, namespace: str = "", *, propagation: str = "Background") -> bool:
        """Delete an object and return whether it existed. It still exists while it has finalizers.

        Args:
            propagation: Deletion of dependent objects: ``Background``, ``Foreground`` or ``Orphan``.
        """
        try:
            with _explaining("delete", resource):
                self._api.delete(resource, name, namespace or self.namespace, propagation)
        except ClusterError as error:
            if error.status != 404:
                raise
            return False
        return True

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        name: str = "",
        deadline: float,
    ) -> Iterator[Event]:
        """Yield the existing objects and then all changes. Lost connections are resumed.

        Args:
            name: Only the object with this name.
            deadline: Time at which the iterator ends, on the clock of ``time.monotonic()``.
        """

        selected = {**(fields or _NONE), **({"metadata.name": name} if name else {})}
        watch = Watch(self._api, resource, namespace or self.namespace, labels or _NONE, selected)
        with _explaining("watch", resource):
            for change, obj in watch.events(deadline):
                yield Event(change, obj)

    def logs(self, pod: str, namespace: str = "", *, container: str = "") -> str:
        """Return the end of the log of a container, by default of the only one of the pod."""
        with _explaining("get", POD, "log"):
            return self._api.logs(pod, namespace or self.namespace, container)

    def resource_for(self, api_version: str, kind: str) -> Resource:
        """Return the resource of a kind, asking the cluster unless it is well known.

        Raises:
            ClusterError: With status 404 if the cluster does not have the kind.
        """
        known = find_known(api_version, kind) or self._discovered.get((api_version, kind))
        if known is None:
            self._discover(api_version)
            known = self._discovered.get((api_version, kind))
        if known is None:
            raise ClusterError(
                f"the cluster does not have the kind {kind} in {api_version}",
                hint="install the CustomResourceDefinition first",
                status=404,
                reason=UNKNOWN_RESOURCE,
            )
        return known

    def _discover(self, api_version: str) -> None:
        """Record the resources of an API version, if the cluster has it."""
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            found = self._api.get_path(path)
        except ClusterError as error:
            if error.status != 404:
                raise
            return
        entries: Any = found.get("resources")
        for entry in entries if isinstance(entries, list) else ():
            plural, kind = (entry.get("name"), entry.get("kind")) if isinstance(entry, dict) else (None, None)
            if isinstance(plural, str) and isinstance(kind, str) and "/" not in plural:
                namespaced = entry.get("namespaced") is True
                self._discovered[api_version, kind] = Resource(group, version, kind, plural, namespaced)

    def _resource_of(self, obj: Object) -> Resource:
        api_version, kind = obj.get("apiVersion"), obj.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str) or not isinstance(obj.get("metadata"), dict):
            raise ClusterError("not a Kubernetes object: apiVersion, kind or metadata is missing")
        return self.resource_for(api_version, kind)

    def _namespace_of(self, obj: Object) -> str:
        namespace = obj["metadata"].get("namespace") or self.namespace
        if not isinstance(namespace, str):
            raise ClusterError(f"{obj['kind']}: metadata.namespace: not a string")
        return namespace


def _name_of(obj: Object) -> str:
    name = obj["metadata"].get("name")
    if not isinstance(name, str):
        raise ClusterError(f"{obj['kind']}: metadata.name: not a string")
    return name


@contextmanager
def _explaining(verb: str, resource: Resource, subresource: str = "") -> Iterator[None]:
    """Have errors about permissions and unknown resources name the verb and the resource."""
    try:
        yield
    except ClusterError as error:
        target = f"{resource.plural}/{subresource}" if subresource else resource.plural
        if error.status == 403:
            message = error.message
            if target not in message or verb not in message:
                message = f"cannot {verb} {resource.full_name}: {message}"
            raise _with(error, message, _grant(resource)) from error
        if error.reason == UNKNOWN_RESOURCE and resource.api_version not in error.message.split():
            message = f"the cluster does not have the resource {resource.full_name} in version {resource.version}"
            raise _with(error, message, "check that its CustomResourceDefinition is installed") from error
        raise


def _with(error: ClusterError, message: str, hint: str) -> ClusterError:
    return ClusterError(message, hint=hint, status=error.status, reason=error.reason)


def _grant(resource: Resource) -> str:
    objects = "Role and a RoleBinding" if resource.namespaced else "ClusterRole and a ClusterRoleBinding"
    return f"grant the user or service account the permission with a {objects}"


_DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load_service_account() -> ClusterConnection:
    """Return the cluster and the service account of this pod.

    Raises:
        ClusterError: This is not a pod, or one without a service account.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise _not_in_a_pod("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    token, authorities = _DIRECTORY / "token", _DIRECTORY / "ca.crt"
    try:
        if not token.read_bytes().strip():
            raise _not_in_a_pod(f"{token}: empty file")
        trusted = authorities.read_text("ascii")
    except OSError as error:
        raise _not_in_a_pod(f"{error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise _not_in_a_pod(f"{authorities}: not in PEM format") from error
    try:
        namespace = (_DIRECTORY / "namespace").read_text().strip()
    except (OSError, ValueError):
        namespace = ""
    address = f"[{host}]" if ":" in host else host
    server = Server(f"https://{address}:{port}", authorities=trusted)
    return ClusterConnection(server, User(token_file=token), namespace or "default")


def _not_in_a_pod(cause: str) -> ClusterError:
    return ClusterError(
        f"no kubeconfig given, and not running in a pod with a service account: {cause}",
        hint=Hint("pass a kubeconfig with {}", ClusterSetting.KUBECONFIG),
    )


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
