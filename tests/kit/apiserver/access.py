"""Authorization, and injected faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.kit.apiserver.errors import ApiError, details

if TYPE_CHECKING:
    from tests.kit.apiserver.requests import Request

ALL_VERBS = frozenset({"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"})


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


class Access:
    """The rights of users, and the faults of requests."""

    def __init__(self) -> None:
        self.rights: dict[str, set[str]] = {name: set(ALL_VERBS) for name in ("tester", "client")}
        self.denied: set[tuple[str, str, str]] = set()
        """Verbs, resources and namespaces; "" stands for all namespaces."""
        self.faults: list[Fault] = []

    def check(self, request: Request) -> None:
        """Raise the error of an injected fault or of a missing permission."""
        for fault in self.faults:
            wanted = ((fault.verb, request.verb), (fault.resource, request.resource), (fault.name, request.name))
            if fault.times and all(expected in ("", given) for expected, given in wanted):
                fault.times -= 1
                if not fault.status:
                    raise ConnectionClosed
                error = ApiError(fault.status, "", fault.message or "injected fault", {"name": "x"})
                error.headers = fault.headers
                raise error
        namespace, verb = request.namespace, request.verb
        denied = {(verb, request.resource, namespace), (verb, request.resource, "")} & self.denied
        if verb not in self.rights.get(request.user, set()) or denied:
            where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
            action = f'cannot {verb} resource "{request.resource}" in API group "{request.type.group}" {where}'
            full = f"{request.resource}.{request.type.group}" if request.type.group else request.resource
            named = f' "{request.name}"' if request.name else ""
            message = f'{full}{named} is forbidden: User "{request.user}" {action}'
            raise ApiError(403, "Forbidden", message, details(request.resource, request.name, request.type.group))
