"""Objects in memory, with versions, watches, finalizers, owners and namespaces."""

from __future__ import annotations

import copy
import re
import threading
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.kit.apiserver.config_maps import check_config_map, check_immutable, check_types
from tests.kit.apiserver.errors import ApiError, bad_request, details, invalid, not_found
from tests.kit.apiserver.fields import Managers, applied, merged, record_change

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.apiserver.resources import Resources, ResourceType

Object = dict[str, Any]
Key = tuple[str, str, str, str]
"""Group, plural, namespace and name."""

_TIME = "2020-01-01T00:00:00Z"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_NAME.pattern}')"
)


@dataclass(frozen=True)
class Change:
    """An entry of the log that watches read."""

    version: int
    type: str
    key: Key
    object: Object


class Store:
    """The objects of a server. ``changed`` is the lock, and is notified of changes."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self.changed = threading.Condition(threading.RLock())
        self.objects: dict[Key, Object] = {}
        self.log: list[Change] = []
        self.version = 100
        self.first_version = 100
        """The oldest version that watches can start from."""
        self.reactions: list[tuple[str, Callable[[Object], object]]] = []
        """Kinds, and what to call with an object of the kind after it was created or changed."""
        self.before_update: Callable[[], object] = lambda: None
        self._managers: dict[Key, Managers] = {}

    def get(self, kind: ResourceType, namespace: str, name: str) -> Object:
        """Return an object, which must not be modified; raise ApiError if it does not exist."""
        found = self.objects.get(key_of(kind, namespace, name))
        if found is None:
            raise not_found(kind.plural, name, kind.group)
        return found

    def create(
        self, kind: ResourceType, namespace: str, given: Object, manager: str, *, applying: bool = False
    ) -> Object:
        metadata = given["metadata"]
        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        name = metadata.get("name", "")
        with self.changed:
            if kind.namespaced:
                self._check_namespace(namespace, kind, name)
            _check(kind, given, name)
            key = key_of(kind, namespace, name)
            if key in self.objects:
                message = f'{kind.plural} "{name}" already exists'
                raise ApiError(409, "AlreadyExists", message, details(kind.plural, name, kind.group))
            new = {key: value for key, value in given.items() if key != "status" or not kind.has_status}
            managers = self._managers.setdefault(key, {})
            if applying:
                applied({}, new, managers, manager, force=False)
            else:
                record_change(managers, manager, {}, new)
            return self._commit(kind, key, new)

    def update(
        self, kind: ResourceType, namespace: str, name: str, given: Object, manager: str, subresource: str = ""
    ) -> Object:
        with self.changed:
            self.before_update()
            current = self.get(kind, namespace, name)
            if given["metadata"].get("name", "") != name:
                problem = (
                    f"the name of the object ({given['metadata'].get('name', '')}) does not match the name on the URL"
                )
                raise bad_request(f"{problem} ({name})")
            version = given["metadata"].get("resourceVersion")
            if version and version != current["metadata"]["resourceVersion"]:
                problem = "the object has been modified; please apply your changes to the latest version and try again"
                full = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
                message = f'Operation cannot be fulfilled on {full} "{name}": {problem}'
                raise ApiError(409, "Conflict", message, details(kind.plural, name, kind.group))
            return self._change(kind, current, given, manager, subresource)

    def patch(
        self, kind: ResourceType, namespace: str, name: str, patch: Object, manager: str, subresource: str = ""
    ) -> Object:
        """Merge a patch into an object."""
        with self.changed:
            current = self.get(kind, namespace, name)
            return self._change(kind, current, merged(current, patch), manager, subresource)

    def apply(
        self, kind: ResourceType, namespace: str, name: str, given: Object, manager: str, *, force: bool
    ) -> tuple[Object, bool]:
        """Apply fields of an object, and return it and whether it was created."""
        if given["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        with self.changed:
            key = key_of(kind, namespace, name)
            current = self.objects.get(key)
            if current is None:
                given["metadata"]["name"] = name
                return self.create(kind, namespace, given, manager, applying=True), True
            managers = self._managers.setdefault(key, {})
            new = applied(current, given, managers, manager, force=force)
            _check(kind, new, name)
            new["status"] = current.get("status")
            return self._commit(kind, key, new), False

    def delete(self, kind: ResourceType, namespace: str, name: str, propagation: str = "Background") -> Object:
        """Delete an object, or mark it as deleted if it has finalizers or is a namespace with content."""
        with self.changed:
            current = copy.deepcopy(self.get(kind, namespace, name))
            key = key_of(kind, namespace, name)
            if kind.kind == "Namespace":
                return self._terminate(kind, current)
            if current["metadata"].get("finalizers"):
                current["metadata"].setdefault("deletionTimestamp", _TIME)
                return self._commit(kind, key, current)
            self._remove(kind, key, propagation)
            return current

    def put(self, kind: ResourceType, obj: Object) -> Object:
        """Create or replace an object with its status, without checks."""
        with self.changed:
            metadata = obj.setdefault("metadata", {})
            if kind.namespaced:
                metadata.setdefault("namespace", "default")
            return self._commit(kind, key_of(kind, metadata.get("namespace", ""), metadata["name"]), copy.deepcopy(obj))

    def compact(self) -> None:
        """Forget former versions, so that watches that start from one fail with 410."""
        with self.changed:
            self.log.clear()
            self.version += 1
            self.first_version = self.version

    def _change(self, kind: ResourceType, current: Object, given: Object, manager: str, subresource: str) -> Object:
        name, namespace = current["metadata"]["name"], current["metadata"].get("namespace", "")
        new = dict(given)
        if subresource == "status":
            new = {**current, "status": given.get("status")}
        elif kind.has_status:
            new["status"] = current.get("status")
        _check(kind, new, name)
        if kind.kind == "ConfigMap":
            check_immutable(current, new, name)
        key = key_of(kind, namespace, name)
        record_change(self._managers.setdefault(key, {}), manager, current, new)
        return self._commit(kind, key, new)

    def _commit(self, kind: ResourceType, key: Key, new: Object) -> Object:
        """Store an object, notify watches and run reactions; remove it if its last finalizer is gone."""
        before = self.objects.get(key)
        old: Object = before["metadata"] if before else {}
        metadata = {
            **new["metadata"],
            "name": key[3],
            **({"namespace": key[2]} if key[2] else {}),
            "uid": old.get("uid") or str(uuid.uuid4()),
            "creationTimestamp": old.get("creationTimestamp") or _TIME,
        }
        managers = sorted(manager for manager, paths in self._managers.get(key, {}).items() if paths)
        if managers:  # an object without fields has none
            metadata["managedFields"] = [{"manager": name, "operation": kind} for name, kind in managers]
        if kind.has_status:
            same = before is not None and before.get("spec") == new.get("spec")
            metadata["generation"] = old.get("generation", 0) + (0 if same else 1)
        if old.get("deletionTimestamp"):
            metadata["deletionTimestamp"] = old["deletionTimestamp"]
        fields = {name: value for name, value in new.items() if value or name == "spec"}
        stored = {**fields, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        metadata["resourceVersion"] = old.get("resourceVersion", "")
        if before is not None and stored == before:
            return before
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        self.objects[key] = stored
        self._record("MODIFIED" if before else "ADDED", key, stored)
        self._react(kind, stored)
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers") and kind.kind != "Namespace":
            self._remove(kind, key)
        return self.objects.get(key, stored)

    def _record(self, change: str, key: Key, obj: Object) -> None:
        self.log.append(Change(self.version, change, key, obj))
        self.changed.notify_all()

    def _react(self, kind: ResourceType, stored: Object) -> None:
        if kind.kind == "CustomResourceDefinition":
            self.resources.add_definition(stored)
        for name, reaction in self.reactions:
            if name == kind.kind:
                reaction(copy.deepcopy(stored))

    def _remove(self, kind: ResourceType, key: Key, propagation: str = "Background") -> None:
        self.version += 1
        obj = copy.deepcopy(self.objects.pop(key))
        self._managers.pop(key, None)
        obj["metadata"]["resourceVersion"] = str(self.version)
        self._record("DELETED", key, obj)
        if kind.kind == "CustomResourceDefinition":
            self._delete_all(lambda other: other[:2] == (obj["spec"]["group"], obj["spec"]["names"]["plural"]))
            self.resources.remove_definition(obj)
        if propagation != "Orphan":
            uid = obj["metadata"]["uid"]
            owned = {other for other, each in self.objects.items() if uid in _owners(each)}
            self._delete_all(owned.__contains__)
        for name in [other[3] for other in self.objects if other[:2] == ("", "namespaces")]:
            self._finish_namespace(name)

    def _delete_all(self, selected: Callable[[Key], bool]) -> None:
        for key in [key for key in self.objects if selected(key)]:
            if key in self.objects:
                self.delete(self.resources.of(key[0], key[1]), key[2], key[3])

    def _terminate(self, kind: ResourceType, namespace: Object) -> Object:
        name = namespace["metadata"]["name"]
        namespace["metadata"]["deletionTimestamp"] = _TIME
        namespace["status"] = {"phase": "Terminating"}
        stored = self._commit(kind, key_of(kind, "", name), namespace)
        self._delete_all(lambda key: key[2] == name)
        self._finish_namespace(name)
        return stored

    def _finish_namespace(self, name: str) -> None:
        """Remove a namespace that is being deleted and is empty, or record why it is not."""
        kind = self.resources.of("", "namespaces")
        key = key_of(kind, "", name)
        namespace = copy.deepcopy(self.objects.get(key))
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return
        left = [other for other in self.objects if other[2] == name]
        if not left:
            self._remove(kind, key)
            return
        finalizers = sorted({each for other in left for each in self.objects[other]["metadata"].get("finalizers", [])})
        counts = ", ".join(f"{each} in 1 resource instances" for each in finalizers)
        message = f"Some content in the namespace has finalizers remaining: {counts}"
        condition = {"type": "NamespaceFinalizersRemaining", "status": "True", "message": message}
        namespace["status"]["conditions"] = [{**condition, "reason": "SomeFinalizersRemain"}]
        self._commit(kind, key, namespace)

    def _check_namespace(self, namespace: str, kind: ResourceType, name: str) -> None:
        found = self.objects.get(("", "namespaces", "", namespace))
        if found is None:
            raise not_found("namespaces", namespace)
        if found["metadata"].get("deletionTimestamp"):
            problem = f"unable to create new content in namespace {namespace} because it is being terminated"
            message = f'{kind.plural} "{name}" is forbidden: {problem}'
            raise ApiError(403, "Forbidden", message, details(kind.plural, name, kind.group))


def key_of(kind: ResourceType, namespace: str, name: str) -> Key:
    return kind.group, kind.plural, namespace if kind.namespaced else "", name


def _owners(obj: Object) -> set[str]:
    return {str(owner.get("uid")) for owner in obj["metadata"].get("ownerReferences") or []}


def _check(kind: ResourceType, obj: Object, name: str) -> None:
    """Raise ApiError if the name or the content is invalid."""
    if not name:
        problem = "Required value: name or generateName is required"
        raise invalid(kind.kind, "", "metadata.name", "Required", problem, kind.group)
    if not _NAME.fullmatch(name) and "rbac" not in kind.group:
        problem = f'Invalid value: "{name}": {_NAME_RULE}'
        raise invalid(kind.kind, name, "metadata.name", "Invalid", problem, kind.group)
    if kind.kind == "ConfigMap":
        check_types(obj)
        check_config_map(obj, name)
