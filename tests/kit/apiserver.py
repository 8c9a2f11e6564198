"""A Kubernetes API server as far as ConfigMaps go: get, create and update, with its errors, who may do what, and TLS.

Answers are those that the API conventions and the OpenAPI document of ``core/v1`` describe: an object with
``resourceVersion`` and ``uid``, or a ``Status`` that says why not.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import tempfile
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml

from kit.certificates import certificate_authority, client_certificate, server_certificate
from kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Mapping

ConfigMap = dict[str, Any]

MAX_DATA = 1 << 20
MAX_REQUEST = 3 << 20
_PATH = re.compile(r"/api/v1/namespaces/([^/]+)/configmaps(?:/([^/?]+))?")
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_VERBS = {"GET": "get", "POST": "create", "PUT": "update"}


class Refused(Exception):
    """A request that fails, with the ``Status`` to answer."""

    def __init__(self, code: int, reason: str, message: str, name: str = "", **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
            "details": {"name": name, "kind": "configmaps", **details},
        }


@dataclass(frozen=True)
class Request:
    """A request that was understood: who asks for what."""

    user: str
    verb: str
    namespace: str
    name: str


class ApiServer:
    """Serves ConfigMaps by https while the context lasts.

    ``rights`` has the verbs (``get``, ``create``, ``update``) of each user: ``tester`` is known by his token or his
    client certificate, whose name is ``client``; others are nobody. ``before_update`` runs before each update is looked
    at, and may change what is there.
    """

    token = "secret-token"

    def __init__(self, *, namespaces: tuple[str, ...] = ("default",)) -> None:
        self.namespaces = set(namespaces)
        self.rights: dict[str, set[str]] = {name: set(_VERBS.values()) for name in ("tester", "client")}
        self.config_maps: dict[tuple[str, str], ConfigMap] = {}
        self.requests: list[Request] = []
        self.before_update = lambda: None
        self._version = 100
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="opmkit-apiserver-")
        path = Path(self._directory.name)
        self._authority = certificate_authority(path, "Kubernetes CA")
        server = server_certificate(path, self._authority)
        self._client = client_certificate(path, self._authority)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(server.certificate, server.key)
        context.load_verify_locations(self._authority.certificate)
        context.verify_mode = ssl.CERT_OPTIONAL
        self._web = WebServer(_handler(self), context).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._web.__exit__()
        self._directory.cleanup()

    @property
    def host(self) -> str:
        return self._web.host

    @property
    def ca_file(self) -> Path:
        return self._authority.certificate

    def kubeconfig(self, path: Path, *, auth: str = "token", **cluster: Any) -> Path:
        """Write a kubeconfig to ``path``: who asks shows a ``token``, a ``certificate``, or nothing."""
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

    def put(self, namespace: str, name: str, data: Mapping[str, str] | None = None, **metadata: Any) -> ConfigMap:
        """Let a ConfigMap be there, as if another client had created or updated it."""
        metadata = {"name": name, "namespace": namespace, **metadata}
        return self._store({"metadata": metadata, "data": dict(data or {})})

    def get(self, namespace: str, name: str) -> ConfigMap:
        """The ConfigMap that is there; KeyError if there is none."""
        return self.config_maps[namespace, name]

    def answer(self, method: str, path: str, token: str, certificate: Any, body: bytes) -> tuple[int, ConfigMap]:
        """The status and object for a request."""
        try:
            request = self._understood(method, path, self._user(token, certificate))
            with self._lock:
                self.requests.append(request)
                match request.verb:
                    case "get":
                        return 200, self._found(request)
                    case "create":
                        return 201, self._create(request, _decoded(body))
                    case _:
                        return 200, self._update(request, _decoded(body))
        except Refused as refused:
            return refused.code, refused.status

    def _user(self, token: str, certificate: Any) -> str:
        if token == f"Bearer {self.token}":
            return "tester"
        if certificate:
            return str(dict(pair for part in certificate["subject"] for pair in part)["commonName"])
        raise Refused(401, "Unauthorized", "Unauthorized")

    def _understood(self, method: str, path: str, user: str) -> Request:
        match = _PATH.fullmatch(path.partition("?")[0])
        verb = _VERBS.get(method, "")
        if not match or not verb or (verb == "create") == bool(match[2]):
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        request = Request(user, verb, match[1], match[2] or "")
        if verb not in self.rights.get(user, set()):
            what = f'cannot {verb} resource "configmaps" in API group "" in the namespace "{request.namespace}"'
            named = f' "{request.name}"' if request.name else ""
            message = f'configmaps{named} is forbidden: User "{user}" {what}'
            raise Refused(403, "Forbidden", message, request.name)
        return request

    def _found(self, request: Request) -> ConfigMap:
        found = self.config_maps.get((request.namespace, request.name))
        if found is None:
            raise Refused(404, "NotFound", f'configmaps "{request.name}" not found', request.name)
        return found

    def _create(self, request: Request, given: ConfigMap) -> ConfigMap:
        metadata = given.setdefault("metadata", {})
        metadata.setdefault("namespace", request.namespace)
        name = metadata.setdefault("name", f"{metadata.get('generateName', '')}{uuid.uuid4().hex[:5]}")
        if request.namespace not in self.namespaces:
            raise Refused(404, "NotFound", f'namespaces "{request.namespace}" not found', request.namespace)
        if (request.namespace, name) in self.config_maps:
            raise Refused(409, "AlreadyExists", f'configmaps "{name}" already exists', name)
        return self._store(_valid(given))

    def _update(self, request: Request, given: ConfigMap) -> ConfigMap:
        self.before_update()
        there = self._found(request)
        _valid(given)
        version = given["metadata"].get("resourceVersion")
        if version and version != there["metadata"]["resourceVersion"]:
            problem = "the object has been modified; please apply your changes to the latest version and try again"
            message = f'Operation cannot be fulfilled on configmaps "{request.name}": {problem}'
            raise Refused(409, "Conflict", message, request.name)
        if there.get("immutable") and (there.get("data"), there.get("binaryData")) != (
            given.get("data"),
            given.get("binaryData"),
        ):
            raise _invalid(request.name, "data: Forbidden: field is immutable when `immutable` is set")
        return self._store(given)

    def _store(self, config_map: ConfigMap) -> ConfigMap:
        self._version += 1
        metadata = config_map["metadata"]
        key = (metadata["namespace"], metadata["name"])
        before = self.config_maps.get(key, {}).get("metadata", {})
        metadata |= {
            "uid": before.get("uid") or str(uuid.uuid4()),
            "creationTimestamp": before.get("creationTimestamp") or "2020-01-01T00:00:00Z",
            "resourceVersion": str(self._version),
        }
        kept = {name: value for name, value in config_map.items() if value}
        self.config_maps[key] = {**kept, "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}
        return self.config_maps[key]


def _decoded(body: bytes) -> ConfigMap:
    if len(body) > MAX_REQUEST:
        raise Refused(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_REQUEST}")
    try:
        value: ConfigMap = json.loads(body)
    except ValueError as error:
        raise Refused(400, "BadRequest", f"the object provided is unrecognized: {error}") from error
    return value


def _valid(config_map: ConfigMap) -> ConfigMap:
    """The ConfigMap, if it is one that a server stores."""
    name = config_map["metadata"]["name"]
    data: dict[str, str] = config_map.get("data") or {}
    binary = {key: base64.b64decode(value) for key, value in (config_map.get("binaryData") or {}).items()}
    for section, keys in (("data", data), ("binaryData", binary)):
        for key in keys:
            if not _KEY.fullmatch(key) or key == "." or key.startswith(".."):
                rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
                raise _invalid(name, f'{section}[{key}]: Invalid value: "{key}": {rule}')
    for key in sorted(data.keys() & binary.keys()):
        raise _invalid(name, f'data[{key}]: Invalid value: "{key}": duplicate of key present in binaryData')
    if sum(len(value.encode()) for value in data.values()) + sum(map(len, binary.values())) > MAX_DATA:
        raise _invalid(name, f": Too long: must have at most {MAX_DATA} bytes")
    return config_map


def _invalid(name: str, problem: str) -> Refused:
    return Refused(422, "Invalid", f'ConfigMap "{name}" is invalid: {problem}', name, kind="ConfigMap")


def _handler(server: ApiServer) -> type[QuietHandler]:
    class Handler(QuietHandler):
        def _reply(self) -> None:
            certificate = self.connection.getpeercert()  # type: ignore[attr-defined]
            token = self.headers.get("Authorization") or ""
            status, value = server.answer(self.command, self.path, token, certificate, self.request_body())
            self.answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _reply  # noqa: N815 (http.server names them)

    return Handler
