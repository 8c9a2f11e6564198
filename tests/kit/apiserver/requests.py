"""Requests: paths, verbs, bodies and responses."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from tests.kit.apiserver.errors import ApiError, bad_request
from tests.kit.apiserver.selectors import matches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kit.apiserver.resources import Resources, ResourceType
    from tests.kit.apiserver.store import Object, Store

MAX_REQUEST = 3 << 20
_PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]+))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
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


def parse(resources: Resources, method: str, target: str, user: str) -> Request | Object:
    """Return the request of a user, or the discovery document that is asked for; raise ApiError."""
    url = urlsplit(target)
    parameters = {name: values[-1] for name, values in parse_qs(url.query).items()}
    if method == "GET" and (document := resources.document(url.path)):
        return document
    match = _PATH.fullmatch(url.path)
    kind = match and resources.find(match["group"] or "", match["core"] or match["version"], match["plural"])
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


def answer(store: Store, request: Request) -> tuple[int, Object]:
    """Return the HTTP status and the object of a response to a request other than a watch or a log."""
    kind, namespace, name = request.type, request.namespace, request.name
    manager = request.parameters.get("fieldManager") or request.headers.get("user-agent", "").partition("/")[0]
    match request.verb:
        case "get":
            return 200, in_version(store.get(kind, namespace, name), kind)
        case "list":
            return 200, _listed(store, request)
        case "create":
            return 201, store.create(kind, namespace, _decoded(request), manager)
        case "update":
            return 200, store.update(kind, namespace, name, _decoded(request), manager, request.subresource)
        case "patch":
            return _patch(store, request, manager)
        case "delete":
            propagation = request.parameters.get("propagationPolicy", "Background")
            return 200, store.delete(kind, namespace, name, propagation)
        case _:
            for obj in selected(store, request):
                store.delete(kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}


def _listed(store: Store, request: Request) -> Object:
    with store.changed:
        objects, version = selected(store, request), store.version
    start, limit = int(request.parameters.get("continue", 0)), int(request.parameters.get("limit", 0))
    page = objects[start : start + limit] if limit else objects[start:]
    rest = len(objects) - start - len(page)
    more = {"continue": str(start + limit), "remainingItemCount": rest} if rest else {}
    items = [{key: value for key, value in obj.items() if key not in ("kind", "apiVersion")} for obj in page]
    names = {"kind": f"{request.type.kind}List", "apiVersion": request.type.api_version}
    return {**names, "metadata": {"resourceVersion": str(version), **more}, "items": items}


def selected(store: Store, request: Request) -> list[Object]:
    """Return the objects that a list or watch is about."""
    with store.changed:
        found = [obj for key, obj in sorted(store.objects.items()) if is_selected(request, key, obj)]
    return [in_version(obj, request.type) for obj in found]


def is_selected(request: Request, key: tuple[str, str, str, str], obj: Object) -> bool:
    """Return whether a list or watch is about an object."""
    return (
        key[:2] == (request.type.group, request.type.plural)
        and request.namespace in ("", key[2])
        and matches(obj, request.parameters.get("labelSelector", ""), request.parameters.get("fieldSelector", ""))
    )


def _patch(store: Store, request: Request, manager: str) -> tuple[int, Object]:
    kind, namespace, name = request.type, request.namespace, request.name
    content_type = request.headers.get("content-type", "").partition(";")[0]
    if content_type == _APPLY:
        force = request.parameters.get("force") == "true"
        given = _decoded(request)
        applied, created = store.apply(kind, namespace, name, given, manager, force=force)
        return (201 if created else 200), applied
    if content_type in _MERGES:
        patch = json.loads(request.body)
        return 200, store.patch(kind, namespace, name, patch, manager, request.subresource)
    raise ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {content_type}")


def _verb(method: str, name: str, parameters: Mapping[str, str]) -> str:
    """Return the verb of a request, "" if there is none."""
    if method == "GET":
        return "get" if name else "watch" if parameters.get("watch") in ("true", "1") else "list"
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    verb = _VERBS.get(method, "")
    return verb if bool(name) == (verb != "create") else ""


def in_version(obj: Object, kind: ResourceType) -> Object:
    """Return an object in the version of a resource."""
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
