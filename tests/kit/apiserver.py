"""Kubernetes API server for ConfigMaps: get, create and update with authorization, validation and TLS.

Responses follow the API conventions and the OpenAPI document of ``core/v1``: an object with ``resourceVersion`` and
``uid``, or a ``Status`` with the error. They were compared with those of kube-apiserver 1.31.
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

from tests.kit.certificates import certificate_authority, client_certificate, server_certificate
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ConfigMap = dict[str, Any]

MAX_DATA = 1 << 20
MAX_ANNOTATIONS = 256 << 10
MAX_REQUEST = 3 << 20
_PATH = re.compile(r"/api/v1/namespaces/([^/]+)/configmaps(?:/([^/?]+))?")
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    f"or 'key-name', regex used for validation is '{_KEY.pattern}')"
)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_NAME.pattern}')"
)
_VERBS = {"GET": "get", "POST": "create", "PUT": "update"}


class ApiError(Exception):
    """The error of a request, with the ``Status`` of the response."""

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status: dict[str, object] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
            **({} if details is None else {"details": details}),
        }


def _named(name: str, kind: str = "configmaps") -> dict[str, object]:
    return {"name": name, "kind": kind} if name else {"kind": kind}


def _invalid(name: str, field: str, reason: str, problem: str) -> ApiError:
    cause = {"reason": f"FieldValue{reason}", "message": problem, "field": field}
    message = f'ConfigMap "{name}" is invalid: {field}: {problem}'
    return ApiError(422, "Invalid", message, {**_named(name, "ConfigMap"), "causes": [cause]})


@dataclass(frozen=True)
class Request:
    """An authenticated and authorized request."""

    user: str
    verb: str
    namespace: str
    name: str


class ApiServer:
    """A server of ConfigMaps with HTTPS, as a context manager.

    ``rights`` maps users to their verbs (``get``, ``create``, ``update``): ``tester`` authenticates with the token,
    ``client`` with the client certificate. ``before_update`` is called before each update and may change ConfigMaps.
    """

    token = "secret-token"

    def __init__(self, *, namespaces: tuple[str, ...] = ("default",)) -> None:
        self.namespaces = set(namespaces)
        self.rights: dict[str, set[str]] = {name: set(_VERBS.values()) for name in ("tester", "client")}
        self.config_maps: dict[tuple[str, str], ConfigMap] = {}
        self.requests: list[Request] = []
        self.before_update: Callable[[], object] = lambda: None
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

    def put(self, namespace: str, name: str, data: Mapping[str, str] | None = None, **metadata: Any) -> ConfigMap:
        """Create or update a ConfigMap, as another client would."""
        metadata = {"name": name, "namespace": namespace, **metadata}
        return self._store({"metadata": metadata, "data": dict(data or {})})

    def get(self, namespace: str, name: str) -> ConfigMap:
        """Return a ConfigMap; raise KeyError if it does not exist."""
        return self.config_maps[namespace, name]

    def answer(self, method: str, path: str, token: str, certificate: Any, body: bytes) -> tuple[int, ConfigMap]:
        """Return the HTTP status and the object of a response."""
        try:
            request = self._authorize(method, path, self._user(token, certificate))
            with self._lock:
                self.requests.append(request)
                match request.verb:
                    case "get":
                        return 200, self._find(request)
                    case "create":
                        return 201, self._create(request, _decoded(body, request.namespace))
                    case _:
                        return 200, self._update(request, _decoded(body, request.namespace))
        except ApiError as error:
            return error.code, error.status

    def _user(self, token: str, certificate: Any) -> str:
        scheme, _, secret = token.partition(" ")
        if (scheme.lower(), secret) == ("bearer", self.token):
            return "tester"
        if certificate:
            return str(dict(pair for part in certificate["subject"] for pair in part)["commonName"])
        raise ApiError(401, "Unauthorized", "Unauthorized")

    def _authorize(self, method: str, path: str, user: str) -> Request:
        match = _PATH.fullmatch(path.partition("?")[0])
        verb = _VERBS.get(method, "")
        if not match or not verb or (verb == "create") == bool(match[2]):
            raise ApiError(404, "NotFound", "the server could not find the requested resource", {})
        request = Request(user, verb, match[1], match[2] or "")
        if verb not in self.rights.get(user, set()):
            action = f'cannot {verb} resource "configmaps" in API group "" in the namespace "{request.namespace}"'
            named = f' "{request.name}"' if request.name else ""
            message = f'configmaps{named} is forbidden: User "{user}" {action}'
            raise ApiError(403, "Forbidden", message, _named(request.name))
        return request

    def _find(self, request: Request) -> ConfigMap:
        found = self.config_maps.get((request.namespace, request.name))
        if found is None:
            raise ApiError(404, "NotFound", f'configmaps "{request.name}" not found', _named(request.name))
        return found

    def _create(self, request: Request, given: ConfigMap) -> ConfigMap:
        metadata = given["metadata"]
        if metadata.get("generateName"):
            metadata.setdefault("name", metadata["generateName"] + uuid.uuid4().hex[:5])
        name = metadata.get("name", "")
        if request.namespace not in self.namespaces:
            message = f'namespaces "{request.namespace}" not found'
            raise ApiError(404, "NotFound", message, _named(request.namespace, "namespaces"))
        _check(given, name)
        if (request.namespace, name) in self.config_maps:
            raise ApiError(409, "AlreadyExists", f'configmaps "{name}" already exists', _named(name))
        return self._store(given)

    def _update(self, request: Request, given: ConfigMap) -> ConfigMap:
        self.before_update()
        current = self._find(request)
        name = given["metadata"].get("name", "")
        if name != request.name:
            problem = f"the name of the object ({name}) does not match the name on the URL ({request.name})"
            raise ApiError(400, "BadRequest", problem)
        version = given["metadata"].get("resourceVersion")
        if version and version != current["metadata"]["resourceVersion"]:
            problem = "the object has been modified; please apply your changes to the latest version and try again"
            message = f'Operation cannot be fulfilled on configmaps "{name}": {problem}'
            raise ApiError(409, "Conflict", message, _named(name))
        _check(given, name)
        for field in ("immutable", "data", "binaryData") if current.get("immutable") else ():
            if (current.get(field) or None) != (given.get(field) or None):
                raise _invalid(name, field, "Forbidden", "Forbidden: field is immutable when `immutable` is set")
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
        fields = {name: value for name, value in config_map.items() if value}
        self.config_maps[key] = {**fields, "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}
        return self.config_maps[key]


def _decoded(body: bytes, namespace: str) -> ConfigMap:
    if len(body) > MAX_REQUEST:
        raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_REQUEST}")
    try:
        value: ConfigMap = json.loads(body)
        given = value.setdefault("metadata", {}).setdefault("namespace", namespace)
        values = (value.get("data") or {}).values()
        if not all(isinstance(text, str) for text in values):
            raise ValueError("cannot unmarshal number into Go struct field ConfigMap.data of type string")
        for text in (value.get("binaryData") or {}).values():
            base64.b64decode(text, validate=True)
    except ValueError as error:
        problem = f'ConfigMap in version "v1" cannot be handled as a ConfigMap: {error}'
        raise ApiError(400, "BadRequest", problem) from error
    if given != namespace:
        problem = "the namespace of the provided object does not match the namespace sent on the request"
        raise ApiError(400, "BadRequest", problem)
    return value


def _check(config_map: ConfigMap, name: str) -> None:
    """Raise ApiError if the API server rejects the ConfigMap."""
    if not name:
        raise _invalid("", "metadata.name", "Required", "Required value: name or generateName is required")
    if not _NAME.fullmatch(name):
        raise _invalid(name, "metadata.name", "Invalid", f'Invalid value: "{name}": {_NAME_RULE}')
    data: dict[str, str] = config_map.get("data") or {}
    binary = {key: base64.b64decode(value) for key, value in (config_map.get("binaryData") or {}).items()}
    for section, keys in (("data", data), ("binaryData", binary)):
        for key in keys:
            if problem := _key_error(key):
                raise _invalid(name, f"{section}[{key}]", "Invalid", f'Invalid value: "{key}": {problem}')
    for key in sorted(data.keys() & binary.keys()):
        problem = f'Invalid value: "{key}": duplicate of key present in binaryData'
        raise _invalid(name, f"data[{key}]", "Invalid", problem)
    annotations = config_map["metadata"].get("annotations") or {}
    if sum(len((key + text).encode()) for key, text in annotations.items()) > MAX_ANNOTATIONS:
        problem = f"Too long: must have at most {MAX_ANNOTATIONS} bytes"
        raise _invalid(name, "metadata.annotations", "TooLong", problem)
    if sum(len(value.encode()) for value in data.values()) + sum(map(len, binary.values())) > MAX_DATA:
        raise _invalid(name, "[]", "TooLong", f"Too long: must have at most {MAX_DATA} bytes")


def _key_error(key: str) -> str:
    """Return the error of a key in ``data``, "" if it is valid."""
    if len(key) > 253:
        return "must be no more than 253 characters"
    if not _KEY.fullmatch(key):
        return _KEY_RULE
    if key in (".", "..") or key.startswith(".."):
        return f"must not be '{key}'" if len(key) < 3 else "must not start with '..'"
    return ""


def _handler(server: ApiServer) -> type[QuietHandler]:
    class Handler(QuietHandler):
        def _reply(self) -> None:
            certificate = self.connection.getpeercert()
            token = self.headers.get("Authorization") or ""
            status, value = server.answer(self.command, self.path, token, certificate, self.request_body())
            self.answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _reply  # noqa: N815 (http.server)

    return Handler
