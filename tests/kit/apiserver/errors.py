"""Errors of requests, with their ``Status`` objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class ApiError(Exception):
    """The error of a request, with the ``Status`` of the response."""

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.headers: dict[str, str] = {}
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


def details(plural: str, name: str = "", group: str = "") -> dict[str, object]:
    """Return the details of a ``Status`` about an object or a resource."""
    fields = {"name": name, "group": group, "kind": plural}
    return {key: value for key, value in fields.items() if value}


def not_found(plural: str, name: str, group: str = "") -> ApiError:
    full = f"{plural}.{group}" if group else plural
    return ApiError(404, "NotFound", f'{full} "{name}" not found', details(plural, name, group))


def invalid(kind: str, name: str, field: str, reason: str, problem: str, group: str = "") -> ApiError:
    cause = {"reason": f"FieldValue{reason}", "message": problem, "field": field}
    full = f"{kind}.{group}" if group else kind
    message = f'{full} "{name}" is invalid: {field}: {problem}'
    return ApiError(422, "Invalid", message, {**details(kind, name, group), "causes": [cause]})


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)
