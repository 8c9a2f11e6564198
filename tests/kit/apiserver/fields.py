"""Changes of objects: merge patches, and server-side apply with the managers of fields. Lists are atomic."""

from __future__ import annotations

import copy
from typing import Any

from tests.kit.apiserver.errors import ApiError

Object = dict[str, Any]
Path = tuple[str, ...]
Managers = dict[tuple[str, str], set[Path]]
"""Fields by manager and operation, Apply or Update."""

_IDENTITY = {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid")}
_SYSTEM = {("metadata", key) for key in ("resourceVersion", "generation", "creationTimestamp", "managedFields")}


def merged(target: Any, patch: Any) -> Any:
    """Return a value with a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def record_change(managers: Managers, manager: str, before: Object, after: Object) -> None:
    """Make ``manager`` the only manager of the fields that it changed."""
    old, new = leaves(before), leaves(after)
    changed = {path for path in new.keys() | old.keys() if old.get(path) != new.get(path)}
    for paths in managers.values():
        paths -= changed
    managers.setdefault((manager, "Update"), set()).update(changed & new.keys())


def applied(current: Object, wanted: Object, managers: Managers, manager: str, *, force: bool) -> Object:
    """Return an object after ``manager`` applied fields, and update the managers.

    Raises:
        ApiError: other managers have set some of the fields to other values, and ``force`` is not given.
    """
    have, want = leaves(current), leaves(wanted)
    conflicts = [
        (other, path)
        for other, paths in managers.items()
        for path in sorted(paths & want.keys())
        if other != (manager, "Apply") and have.get(path) != want[path]
    ]
    if conflicts and not force:
        fields = "\n".join(
            f'conflict with "{other[0]}" using {other[1]}: .{".".join(path)}' for other, path in conflicts
        )
        raise ApiError(409, "Conflict", f"Apply failed with {len(conflicts)} conflicts: {fields}")
    result = copy.deepcopy(current)
    own = managers.setdefault((manager, "Apply"), set())
    others: set[Path] = set().union(*(paths for other, paths in managers.items() if paths is not own))
    for path in own - want.keys() - others:
        _remove(result, path)
    for other, path in conflicts:
        managers[other].discard(path)
    own.clear()
    own.update(want)
    overlaid: Object = _overlaid(result, wanted)
    return overlaid


def leaves(obj: Object) -> dict[Path, Any]:
    """Return the values of all fields that have managers; empty mappings and lists are values."""
    found: dict[Path, Any] = {}

    def collect(value: Any, path: Path) -> None:
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                collect(inner, (*path, key))
        elif path not in _IDENTITY | _SYSTEM and path[:1] != ("status",):
            found[path] = value

    collect(obj, ())
    return found


def _overlaid(target: Any, wanted: Any) -> Any:
    if not isinstance(wanted, dict) or not isinstance(target, dict):
        return copy.deepcopy(wanted)
    return {**target, **{key: _overlaid(target.get(key), value) for key, value in wanted.items()}}


def _remove(obj: Object, path: Path) -> None:
    *parents, last = path
    value: Any = obj
    for key in parents:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, dict):
        value.pop(last, None)
