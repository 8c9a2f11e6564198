"""The API server, and what tests can do to its cluster."""

from __future__ import annotations

import atexit
import base64
import copy
import json
import shutil
import ssl
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml

from tests.kit.apiserver.access import Access, ConnectionClosed, Fault
from tests.kit.apiserver.errors import ApiError
from tests.kit.apiserver.requests import Request, answer, parse
from tests.kit.apiserver.resources import Resources
from tests.kit.apiserver.store import Object, Store, key_of
from tests.kit.apiserver.watches import watched
from tests.kit.certificates import Certificate, certificate_authority, client_certificate, server_certificate
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class ApiServer:
    """An API server with HTTPS, as a context manager.

    ``rights`` maps users to their verbs: ``tester`` authenticates with the token, ``client`` with the client
    certificate. ``before_update`` is called before each update and may change objects. ``namespaces`` exist in
    addition to ``default``. With ``olm``, the resources of OLM exist without its CRDs.
    """

    token = "secret-token"

    def __init__(self, *, namespaces: tuple[str, ...] = (), olm: bool = False) -> None:
        self.store = Store(Resources(olm=olm))
        self.access = Access()
        self.requests: list[Request] = []
        self.pod_logs: dict[tuple[str, str], str] = {}
        """Logs of pods by namespace and name."""
        self.generation = 0
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
    def rights(self) -> dict[str, set[str]]:
        return self.access.rights

    @rights.setter
    def rights(self, rights: dict[str, set[str]]) -> None:
        self.access.rights = rights

    @property
    def before_update(self) -> Callable[[], object]:
        return self.store.before_update

    @before_update.setter
    def before_update(self, function: Callable[[], object]) -> None:
        self.store.before_update = function

    def deny(self, verb: str, resource: str, namespace: str = "") -> None:
        """Answer 403 to a verb on a resource (plural name), in all namespaces or in one."""
        self.access.denied.add((verb, resource, namespace))

    def allow(self, verb: str, resource: str, namespace: str = "") -> None:
        """Undo ``deny`` with the same arguments."""
        self.access.denied.discard((verb, resource, namespace))

    def fail(
        self, verb: str = "", resource: str = "", name: str = "", *, times: int = 1, status: int = 0,
        message: str = "", headers: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Let the next ``times`` matching requests fail with a status, or with 0 by a closed connection."""
        self.access.faults.append(Fault(verb, resource, name, times, status, message, headers or {}))

    def drop_watches(self) -> None:
        """Close the connections of all watches."""
        with self.store.changed:
            self.generation += 1
            self.store.changed.notify_all()

    def user_of(self, token: str, certificate: Any) -> str:
        """Return the user with a token or a client certificate; raise ApiError."""
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


def _handler(server: ApiServer) -> type[QuietHandler]:
    class Handler(QuietHandler):
        def _reply(self) -> None:
            body = self.request_body()
            token = self.headers.get("Authorization") or ""
            try:
                user = server.user_of(token, self.connection.getpeercert())
                request = parse(server.store.resources, self.command, self.path, user)
                if not isinstance(request, Request):
                    self._send(200, request)
                    return
                request = replace(
                    request, headers={name.lower(): value for name, value in self.headers.items()}, body=body
                )
                server.requests.append(request)
                server.access.check(request)
                if request.verb == "watch":
                    self._stream(request)
                elif request.subresource == "log":
                    server.store.get(request.type, request.namespace, request.name)
                    text = server.pod_logs.get((request.namespace, request.name), "")
                    self.answer(200, text.encode(), {"Content-Type": "text/plain"})
                else:
                    self._send(*answer(server.store, request))
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
            generation = server.generation
            for event in watched(server.store, request, lambda: generation != server.generation):
                self.wfile.write(json.dumps(event).encode() + b"\n")
                self.wfile.flush()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _reply  # noqa: N815 (http.server)

    return Handler
