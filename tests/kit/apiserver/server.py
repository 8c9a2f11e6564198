"""The HTTP side of the API server: paths, authorization, injected faults, watches."""

from __future__ import annotations

import atexit
import base64
import copy
import json
import re
import shutil
import ssl
import tempfile
import time
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

from tests.kit.apiserver.errors import ApiError, bad_request, details
from tests.kit.apiserver.resources import Resources, ResourceType
from tests.kit.apiserver.selectors import matches
from tests.kit.apiserver.store import Object, Store, key_of
from tests.kit.certificates import Certificate, certificate_authority, client_certificate, server_certificate
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MAX_REQUEST = 3 << 20
_PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]+))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_ALL_VERBS = frozenset({"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"})
_APPLY, _MERGES = (
    "application/apply-patch+yaml",
    ("application/merge-patch+json", "application/strategic-merge-patch+json"),
)


@dataclass(frozen=True)
class Request:
    """An authenticated request."""

    user: str
    verb: str
    namespace: str
    name: str
    type: ResourceType
    subresource: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def resource(self) -> str:
        """The plural name of the resource."""
        return self.type.plural


@dataclass
class Fault:
    """A failure of the next ``times`` requests with the verb and resource; "" stands for all."""

    verb: str
    resource: str
    name: str
    times: int
    status: int
    message: str
    headers: dict[str, str]
    """A response with ``status``, or with 0 a closed connection."""


class ConnectionClosed(Exception):
    """The server closes the connection without a response."""


class ApiServer:
    """An API server with HTTPS, as a context manager.

    ``rights`` maps users to their verbs: ``tester`` authenticates with the token, ``client`` with the client
    certificate. ``before_update`` is called before each update and may change objects. ``namespaces`` exist in
    addition to ``default``. With ``olm``, the resources of OLM exist without its CRDs.
    """

    token = "secret-token"

    def __init__(self, *, namespaces: tuple[str, ...] = (), olm: bool = False) -> None:
        self.store = Store(Resources(olm=olm))
        self.rights: dict[str, set[str]] = {name: set(_ALL_VERBS) for name in ("tester", "client")}
        self.requests: list[Request] = []
        self.pod_logs: dict[tuple[str, str], str] = {}
        """Logs of pods by namespace and name."""
        self._denied: set[tuple[str, str, str]] = set()
        self._faults: list[Fault] = []
        self._generation = 0
        """Number of times that watches were dropped."""
        for name in ("default", *namespaces):
            self.put({"kind": "Namespace", "metadata": {"name": name}, "status": {"phase": "Active"}})

    def __enter__(self) -> Self:
        self._authority, server, self._client = _certificates()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(server.certificate, server.key)
        context.load_verify_locations(self._authority.certificate)
        context.verify_mode = ssl.CERT_OPTIONAL
        self._web = WebServer(_handler(self), context).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.drop_watches()
        self._web.__exit__()

    @property
    def host(self) -> str:
        return self._web.host

    @property
    def ca_file(self) -> Path:
        return self._authority.certificate

    def kubeconfig(self, path: Path, *, auth: str = "token", **cluster: Any) -> Path:
        """Write a kubeconfig that authenticates with a ``token``, a ``certificate``, or not at all."""
        users: dict[str, dict[str, str]] = {
            "token": {"token": self.token},
            "certificate": {"client-certificate": str(self._client.certificate), "client-key": str(self._client.key)},
        }
        trust = base64.b64encode(self.ca_file.read_bytes()).decode()
        settings = {"server": f"https://{self.host}", "certificate-authority-data": trust, **cluster}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": settings}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "users": [{"name": "test", "user": users.get(auth, {})}],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    # What tests do to the cluster, as other clients and controllers would

    def put(self, obj: Object) -> Object:
        """Create or replace an object with its status, without checks; ``apiVersion`` may be missing."""
        return self.store.put(self.store.resources.of_kind(obj["kind"], obj.get("apiVersion", "")), obj)

    def put_config_map(
        self, namespace: str, name: str, data: Mapping[str, str] | None = None, **metadata: Any
    ) -> Object:
        """Create or replace a ConfigMap."""
        content = {"metadata": {"name": name, "namespace": namespace, **metadata}, "data": dict(data or {})}
        return self.put({"kind": "ConfigMap", **content})

    def get(self, kind: str, name: str, namespace: str = "default") -> Object:
        """Return a copy of an object; raise KeyError if it does not exist."""
        return copy.deepcopy(self.store.objects[key_of(self.store.resources.of_kind(kind), namespace, name)])

    def objects(self, kind: str, namespace: str = "") -> list[Object]:
        """Return copies of the objects of a kind, in all namespaces or in one, sorted by name."""
        wanted = self.store.resources.of_kind(kind)
        with self.store.changed:
            found = [obj for key, obj in self.store.objects.items() if key[:2] == (wanted.group, wanted.plural)]
            found = [obj for obj in found if namespace in ("", obj["metadata"].get("namespace"))]
            return copy.deepcopy(sorted(found, key=lambda obj: str(obj["metadata"]["name"])))

    def set_status(self, kind: str, name: str, status: Mapping[str, Any], namespace: str = "default") -> None:
        """Replace the status of an object; the object may have been deleted."""
        with self.store.changed:
            try:
                self.put({**self.get(kind, name, namespace), "status": dict(status)})
            except KeyError:
                return

    def remove(self, kind: str, name: str, namespace: str = "default") -> None:
        self.store.delete(self.store.resources.of_kind(kind), namespace, name)

    def clear(self, kind: str) -> None:
        """Remove all objects of a kind."""
        for obj in self.objects(kind):
            self.remove(kind, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))

    def react(self, kind: str, reaction: Callable[[Object], object]) -> None:
        """Call a function with each object of a kind after it was created or changed, as a controller."""
        self.store.reactions.append((kind, reaction))

    @property
    def before_update(self) -> Callable[[], object]:
        return self.store.before_update

    @before_update.setter
    def before_update(self, function: Callable[[], object]) -> None:
        self.store.before_update = function

    def deny(self, verb: str, resource: str, namespace: str = "") -> None:
        """Answer 403 to a verb on a resource (plural name), in all namespaces or in one."""
        self._denied.add((verb, resource, namespace))

    def fail(
        self, verb: str = "", resource: str = "", name: str = "", *, times: int = 1, status: int = 0,
        message: str = "", headers: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Let the next ``times`` matching requests fail with a status, or with 0 by a closed connection."""
        self._faults.append(Fault(verb, resource, name, times, status, message, headers or {}))

    def drop_watches(self) -> None:
        """Close the connections of all watches."""
        with self.store.changed:
            self._generation += 1
            self.store.changed.notify_all()

    # Requests

    def parse(self, method: str, target: str, token: str, certificate: Any) -> Request | Object:
        """Return an authorized request, or the discovery document that is asked for; raise ApiError."""
        user = self._user(token, certificate)
        url = urlsplit(target)
        parameters = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if method == "GET" and (document := self.store.resources.document(url.path)):
            return document
        match = _PATH.fullmatch(url.path)
        kind = match and self.store.resources.find(
            match["group"] or "", match["core"] or match["version"], match["plural"]
        )
        verb = _verb(method, match["name"] or "", parameters) if match else ""
        if not match or not kind or not verb:
            raise ApiError(404, "NotFound", "the server could not find the requested resource", {})
        return Request(
            user,
            verb,
            unquote(match["namespace"] or ""),
            unquote(match["name"] or ""),
            kind,
            match["sub"] or "",
            parameters,
        )

    def check(self, request: Request) -> None:
        """Record a request; raise the error of an injected fault or of a missing permission."""
        self.requests.append(request)
        for fault in self._faults:
            wanted = ((fault.verb, request.verb), (fault.resource, request.resource), (fault.name, request.name))
            if fault.times and all(expected in ("", given) for expected, given in wanted):
                fault.times -= 1
                if not fault.status:
                    raise ConnectionClosed
                error = ApiError(fault.status, "", fault.message or "injected fault", {"name": "x"})
                error.headers = fault.headers
                raise error
        namespace, verb = request.namespace, request.verb
        denied = {(verb, request.resource, namespace), (verb, request.resource, "")} & self._denied
        if verb not in self.rights.get(request.user, set()) or denied:
            where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
            action = f'cannot {verb} resource "{request.resource}" in API group "{request.type.group}" {where}'
            full = f"{request.resource}.{request.type.group}" if request.type.group else request.resource
            named = f' "{request.name}"' if request.name else ""
            message = f'{full}{named} is forbidden: User "{request.user}" {action}'
            raise ApiError(403, "Forbidden", message, details(request.resource, request.name, request.type.group))

    def answer(self, request: Request) -> tuple[int, Object]:
        """Return the HTTP status and the object of a response to a request other than a watch or a log."""
        kind, namespace, name, store = request.type, request.namespace, request.name, self.store
        manager = request.parameters.get("fieldManager") or request.headers.get("user-agent", "").partition("/")[0]
        match request.verb:
            case "get":
                return 200, _in_version(store.get(kind, namespace, name), kind)
            case "list":
                return 200, self.listed(request)
            case "create":
                return 201, store.create(kind, namespace, _decoded(request), manager)
            case "update":
                return 200, store.update(kind, namespace, name, _decoded(request), manager, request.subresource)
            case "patch":
                return self._patch(request, manager)
            case "delete":
                propagation = request.parameters.get("propagationPolicy", "Background")
                return 200, store.delete(kind, namespace, name, propagation)
            case _:
                for obj in self._selected(request):
                    store.delete(kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
                return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def listed(self, request: Request) -> Object:
        with self.store.changed:
            objects, version = self._selected(request), self.store.version
        start, limit = int(request.parameters.get("continue", 0)), int(request.parameters.get("limit", 0))
        page = objects[start : start + limit] if limit else objects[start:]
        rest = len(objects) - start - len(page)
        more = {"continue": str(start + limit), "remainingItemCount": rest} if rest else {}
        items = [{key: value for key, value in obj.items() if key not in ("kind", "apiVersion")} for obj in page]
        names = {"kind": f"{request.type.kind}List", "apiVersion": request.type.api_version}
        return {**names, "metadata": {"resourceVersion": str(version), **more}, "items": items}

    def watched(self, request: Request) -> Iterator[Object]:
        """Yield the events of a watch until its time is over or watches are dropped."""
        store, generation = self.store, self._generation
        deadline = time.monotonic() + float(request.parameters.get("timeoutSeconds", 300))
        start = int(request.parameters.get("resourceVersion") or 0)
        if start and start < store.first_version:
            error = ApiError(410, "Expired", f"too old resource version: {start} ({store.first_version})")
            yield {"type": "ERROR", "object": error.status}
            return
        with store.changed:
            if not start:
                events = [("ADDED", obj) for obj in self._selected(request)]
                start = store.version
            else:
                events = []
        while True:
            for change, obj in events:
                yield {"type": change, "object": _in_version(obj, request.type)}
            with store.changed:
                while not (news := [each for each in store.log if each.version > start]):
                    left = deadline - time.monotonic()
                    if left <= 0 or generation != self._generation:
                        return
                    store.changed.wait(min(left, 1))
                start = news[-1].version
                events = [
                    (each.type, each.object) for each in news if self._is_selected(request, each.key, each.object)
                ]

    def _selected(self, request: Request) -> list[Object]:
        with self.store.changed:
            found = [obj for key, obj in sorted(self.store.objects.items()) if self._is_selected(request, key, obj)]
        return [_in_version(obj, request.type) for obj in found]

    def _is_selected(self, request: Request, key: tuple[str, str, str, str], obj: Object) -> bool:
        return (
            key[:2] == (request.type.group, request.type.plural)
            and request.namespace in ("", key[2])
            and matches(obj, request.parameters.get("labelSelector", ""), request.parameters.get("fieldSelector", ""))
        )

    def _patch(self, request: Request, manager: str) -> tuple[int, Object]:
        kind, namespace, name = request.type, request.namespace, request.name
        content_type = request.headers.get("content-type", "").partition(";")[0]
        if content_type == _APPLY:
            force = request.parameters.get("force") == "true"
            given = _decoded(request)
            applied, created = self.store.apply(kind, namespace, name, given, manager, force=force)
            return (201 if created else 200), applied
        if content_type in _MERGES:
            patch = json.loads(request.body)
            return 200, self.store.patch(kind, namespace, name, patch, manager, request.subresource)
        raise ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {content_type}")

    def _user(self, token: str, certificate: Any) -> str:
        scheme, _, secret = token.partition(" ")
        if (scheme.lower(), secret) == ("bearer", self.token):
            return "tester"
        if certificate:
            return str(dict(pair for part in certificate["subject"] for pair in part)["commonName"])
        raise ApiError(401, "Unauthorized", "Unauthorized")


@cache
def _certificates() -> tuple[Certificate, Certificate, Certificate]:
    """Return the certificates of an authority, a server and a client, made once in a process."""
    directory = Path(tempfile.mkdtemp(prefix="opmkit-apiserver-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    authority = certificate_authority(directory, "Kubernetes CA")
    return authority, server_certificate(directory, authority), client_certificate(directory, authority)


def _verb(method: str, name: str, parameters: Mapping[str, str]) -> str:
    """Return the verb of a request, "" if there is none."""
    if method == "GET":
        return "get" if name else "watch" if parameters.get("watch") in ("true", "1") else "list"
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    verb = _VERBS.get(method, "")
    return verb if bool(name) == (verb != "create") else ""


def _in_version(obj: Object, kind: ResourceType) -> Object:
    return {**obj, "apiVersion": kind.api_version}


def _decoded(request: Request) -> Object:
    """Return the object in a request with its namespace; raise ApiError if it is invalid."""
    if len(request.body) > MAX_REQUEST:
        raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_REQUEST}")
    kind = request.type
    try:
        value: Object = json.loads(request.body)
        metadata = value.setdefault("metadata", {})
    except (ValueError, AttributeError) as error:
        problem = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        raise bad_request(problem) from error
    if kind.namespaced and metadata.setdefault("namespace", request.namespace) != request.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if (value.get("kind"), value.get("apiVersion")) != (kind.kind, kind.api_version):
        raise bad_request(
            f"{value.get('kind')} in version {value.get('apiVersion')} cannot be handled as a {kind.kind}"
        )
    return value


def _handler(server: ApiServer) -> type[QuietHandler]:
    class Handler(QuietHandler):
        def _reply(self) -> None:
            body = self.request_body()
            token = self.headers.get("Authorization") or ""
            try:
                request = server.parse(self.command, self.path, token, self.connection.getpeercert())
                if not isinstance(request, Request):
                    self._send(200, request)
                    return
                request = replace(
                    request, headers={name.lower(): value for name, value in self.headers.items()}, body=body
                )
                server.check(request)
                if request.verb == "watch":
                    self._stream(request)
                elif request.subresource == "log":
                    server.store.get(request.type, request.namespace, request.name)
                    text = server.pod_logs.get((request.namespace, request.name), "")
                    self.answer(200, text.encode(), {"Content-Type": "text/plain"})
                else:
                    self._send(*server.answer(request))
            except ApiError as error:
                self._send(error.code, error.status, error.headers)
            except ConnectionClosed:
                self.close_connection = True

        def _send(self, status: int, value: Object, headers: dict[str, str] | None = None) -> None:
            self.answer(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

        def _stream(self, request: Request) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            for event in server.watched(request):
                self.wfile.write(json.dumps(event).encode() + b"\n")
                self.wfile.flush()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _reply  # noqa: N815 (http.server)

    return Handler
