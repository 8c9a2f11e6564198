"""Safety of upgrades of CustomResourceDefinitions, as OLM checks it before it replaces one on a cluster.

OLM v1 runs the preflight check of operator-controller, which compares two definitions with crdify: each of its checks
blocks the upgrade, except those of descriptions and of added enum values. OLM v0 refuses to drop a stored version, and
to replace a schema with one that existing objects violate. Nothing here raises for invalid definitions.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson
from msgspec import Struct

from opmkit.bundle.api_types.decode import DecodeMode, Tables, decode_struct, field_types
from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.compat import OlmVersion
from opmkit.documents.json_value import UINT64, encode
from opmkit.documents.lenient import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from opmkit.documents.fields import FieldPath

    Schema: TypeAlias = Mapping[str, Any]
    Values: TypeAlias = Mapping[str, Any]
    """The keywords of a schema without those of its fields and items, as API servers store them."""

V1: Final = "apiextensions.k8s.io/v1"
_SCHEMA: Final = "JSONSchemaProps"
_MAX_SCHEMAS = 100_000
_MAX_DEPTH = 100
_MAX_PAIRS = 500
_LEAVES_PER_SCHEMA = 4
_MAX_DETAILS = 3
_MAX_SHOWN = 80
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_OTHERS = ("additionalProperties", "additionalItems")
_NAMED = ("patternProperties", "definitions", "dependencies")
_ANNOTATIONS = ("description", "title", "example", "externalDocs")
_POINTERS = frozenset(("$ref", "minimum", "maximum", "multipleOf", "x-kubernetes-preserve-unknown-fields")).union(
    ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    ("x-kubernetes-list-type", "x-kubernetes-map-type", "reason", "optionalOldSelf"),
)
"""Keywords whose values are pointers to scalars in Go."""
_INCOMPARABLE = "incomparable"
_KUBE_VERSION = re.compile(r"v(\d{1,18})(?:(alpha|beta)(\d{1,18}))?", re.ASCII)

_SCOPE, _FIELD, _STORED, _SIZE, _UNHANDLED = (
    *("scope", "existingFieldRemoval", "storedVersionRemoval"),
    *("size", "unhandled"),
)


class CrdChange(Struct, frozen=True):
    """A change of a CustomResourceDefinition that makes an upgrade unsafe.

    Attributes:
        check: Name of crdify's check, such as ``required``; ``size`` if the definition is too large to compare.
        message: The change, without its location.
        versions: The version, or two served versions as ``v1beta1 -> v1``, or "" for the whole definition.
        path: Path of the property as crdify prints it, such as ``^.spec.replicas``, or "".
        steps: Path from the schema of the version to the property.
        olm: The OLM that checks for it.
        severity: An error if it blocks the upgrade, a warning if that depends on the objects on the cluster.
    """

    check: str
    message: str
    versions: str = ""
    path: str = ""
    steps: FieldPath = ()
    olm: OlmVersion = OlmVersion.V1
    severity: Severity = Severity.ERROR

    @property
    def location(self) -> str:
        """The version and the path, such as ``v1: ^.spec.replicas``."""
        return ": ".join(part for part in (self.versions, self.path) if part)

    def __str__(self) -> str:
        """Return the change in one line, with its location if it has one."""
        return ": ".join(filter(None, (self.location, self.message)))


class _Version(Struct, frozen=True):
    name: str
    served: bool
    storage: bool
    schema: Schema


@dataclass(frozen=True, slots=True)
class _Difference:
    """A difference of two schemas that a check finds.

    ``before`` and ``after`` are the relevant values in JSON, or "". ``dropped`` is True if the keyword is removed.
    ``steps`` is the path in the schema.
    """

    check: str
    path: str
    before: str = ""
    after: str = ""
    dropped: bool = field(default=False, compare=False)
    steps: FieldPath = field(default=(), compare=False)


def stored_versions(crd: Schema) -> tuple[str, ...]:
    """Return the versions in which a cluster can have stored objects: of the status, and those marked for storage."""
    listed = [text(name) for name in items(mapping(crd.get("status")).get("storedVersions"))]
    marked = [version.name for version in _versions(crd) if version.storage]
    return tuple(dict.fromkeys(name for name in (*listed, *marked) if name))


def olm_v1_changes(old: Schema, new: Schema, stored: Collection[str] | None = None) -> list[CrdChange]:
    """Return the changes because of which OLM v1 refuses to replace a CustomResourceDefinition.

    Args:
        old: The definition on the cluster.
        new: The definition of the bundle; OLM v1 compares those of ``apiextensions.k8s.io/v1`` only.
        stored: The versions in which objects are stored; by default those in the status of ``old``.
    """
    if new.get("apiVersion") != V1:
        return []
    if stored is None:
        stored = [text(name) for name in items(mapping(old.get("status")).get("storedVersions"))]
    changes = [*_scope_changes(old, new, OlmVersion.V1), *_dropped_versions(stored, new, OlmVersion.V1)]
    changes += [
        CrdChange(difference.check, _message(difference), name, difference.path, difference.steps)
        for name, before, after in _same_versions(old, new)
        for difference in _Comparison().run(before.schema, after.schema)
    ]
    if text(mapping(_spec(new).get("conversion")).get("strategy")) == "Webhook":
        return changes
    known = {pair: set(differences) for pair, differences in _served_differences(old)}
    return changes + [
        CrdChange(difference.check, _message(difference), pair, difference.path, difference.steps)
        for pair, differences in _served_differences(new)
        for difference in differences
        if difference not in known.get(pair, ()) or _has_unstable_text(difference)
    ]


def olm_v0_changes(old: Schema, new: Schema, stored: Collection[str] | None = None) -> list[CrdChange]:
    """Return the changes because of which OLM v0 fails to replace a definition, or does so for some objects.

    Errors are stored versions that the new definition drops, and another scope, which API servers reject. Warnings are
    restrictions of a version that is still served: OLM refuses the upgrade if an object on the cluster violates them.

    Args:
        old: The definition on the cluster.
        new: The definition of the bundle.
        stored: The versions in which objects are stored; by default `stored_versions` of ``old``.
    """
    dropped = _dropped_versions(stored_versions(old) if stored is None else stored, new, OlmVersion.V0)
    return [*_scope_changes(old, new, OlmVersion.V0), *dropped] + [
        CrdChange(
            difference.check,
            f"{_message(difference)}: existing objects may violate this",
            name,
            difference.path,
            difference.steps,
            OlmVersion.V0,
            Severity.WARNING,
        )
        for name, before, after in _same_versions(old, new)
        if before.served and after.served
        for difference in _Comparison(removals=False).run(before.schema, after.schema)
        if _restricts(difference)
    ]


def _spec(crd: Schema) -> Schema:
    return mapping(crd.get("spec"))


def _versions(crd: Schema) -> list[_Version]:
    """Return the versions; in ``v1beta1``, the schema can be that of all of them, and a single one unlisted."""
    spec = _spec(crd)
    common = {} if crd.get("apiVersion") == V1 else mapping(spec.get("validation"))
    listed = [mapping(version) for version in items(spec.get("versions"))]
    if not listed and crd.get("apiVersion") != V1 and text(spec.get("version")):
        listed = [{"name": spec["version"], "served": True, "storage": True}]
    return [
        _Version(
            text(version.get("name")),
            version.get("served") is True,
            version.get("storage") is True,
            mapping(mapping(version.get("schema") or common).get("openAPIV3Schema")),
        )
        for version in listed
    ]


def _same_versions(old: Schema, new: Schema) -> Iterator[tuple[str, _Version, _Version]]:
    """Yield the versions that both definitions have."""
    later: dict[str, _Version] = {}
    for version in _versions(new):
        later.setdefault(version.name, version)
    for version in _versions(old):
        if version.name in later:
            yield version.name, version, later[version.name]


def _served_differences(crd: Schema) -> Iterator[tuple[str, list[_Difference]]]:
    """Yield the differences between any two served versions of a definition, from the less to the more stable one."""
    served = sorted((version for version in _versions(crd) if version.served), key=_maturity)
    comparison = _Comparison()
    for before, after in islice(combinations(served, 2), _MAX_PAIRS):
        differences = comparison.run(before.schema, after.schema)
        yield f"{before.name} -> {after.name}", [each for each in differences if each.check != _FIELD]


def _maturity(version: _Version) -> tuple[object, ...]:
    """Return a sort key: alpha, beta and stable versions by their numbers, after other names in reverse order."""
    match = _KUBE_VERSION.fullmatch(version.name)
    if not match:
        return 0, [-ord(character) for character in version.name]
    major, stage, minor = match.groups()
    return 1, ["alpha", "beta", None].index(stage), int(major), int(minor or 0)


def _scope_changes(old: Schema, new: Schema, olm: OlmVersion) -> Iterator[CrdChange]:
    before, after = text(_spec(old).get("scope")), text(_spec(new).get("scope"))
    if before != after:
        yield CrdChange(_SCOPE, f"scope changes from {_show(before)} to {_show(after)}", olm=olm)


def _dropped_versions(stored: Collection[str], new: Schema, olm: OlmVersion) -> Iterator[CrdChange]:
    names = {version.name for version in _versions(new)}
    for name in dict.fromkeys(stored):
        if name not in names:
            message = f"version {name} is removed, but objects may be stored in it"
            yield CrdChange(_STORED, message, olm=olm)


class _Comparison(Struct):
    """Compares schemas with all schemas in them, up to a limit of depth and size.

    ``removals`` is True to find differences of removed fields.
    """

    removals: bool = True
    _found: list[_Difference] = []
    _count: int = 0

    def run(self, old: Schema, new: Schema) -> list[_Difference]:
        """Return the differences of two schemas; the limit of size is that of all runs together."""
        self._found = []
        try:
            self._compare(old, new, "^", ())
        except RecursionError:
            return [_Difference(_SIZE, "^")]
        return self._found

    def _compare(self, old: Schema, new: Schema | None, path: str, steps: FieldPath) -> None:
        """Compare the schemas at a path; ``new`` is None if it is removed."""
        self._count += 1
        if self._count > _MAX_SCHEMAS or len(steps) > 2 * _MAX_DEPTH:
            if not self._found or self._found[-1].check != _SIZE:
                self._found.append(_Difference(_SIZE, path, steps=steps))
            return
        if new is None:
            self._found.append(_Difference(_FIELD, path, steps=steps))
        elif _is_same(old, new):
            return
        self._compare_keywords(_keywords(old), _keywords(new or {}), path, steps)
        remaining = {} if new is None else _children(new)
        for name, (below, child) in _children(old).items():
            counterpart = remaining[name][1] if name in remaining else None
            if counterpart is not None or self.removals:
                self._compare(child, counterpart, path + name, (*steps, *below))

    def _compare_keywords(self, before: Values, after: Values, path: str, steps: FieldPath) -> None:
        """Compare the keywords of two schemas without those in their fields and items."""
        old_leaves, new_leaves = _flatten(before), _flatten(after)
        self._count += (len(old_leaves) + len(new_leaves)) // _LEAVES_PER_SCHEMA
        if old_leaves == new_leaves:
            return
        for keyword in sorted({*before, *after}):
            if (check := _CHECKS.get(keyword)) and (found := check(before.get(keyword), after.get(keyword))):
                sides = _encode(found[0]), _encode(found[1])
                self._found.append(_Difference(keyword, path, *sides, dropped=keyword not in after, steps=steps))
        old_rest, new_rest = _flatten(_unchecked(before)), _flatten(_unchecked(after))
        if old_rest != new_rest:
            lost = {name: value for name, value in old_rest.items() if new_rest.get(name) != value}
            gained = {name: value for name, value in new_rest.items() if old_rest.get(name) != value}
            self._found.append(_Difference(_UNHANDLED, path, _encode(lost), _encode(gained), steps=steps))


def _is_same(old: Schema, new: Schema) -> bool:
    """Return whether two schemas are certainly equal, unlike `==` with regard to 1 and true."""
    if old != new:
        return False
    try:
        return orjson.dumps(old, option=orjson.OPT_SORT_KEYS) == orjson.dumps(new, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return False


def _children(schema: Schema) -> dict[str, tuple[FieldPath, Schema]]:
    """Return the schemas directly below a schema and their paths in it, by what crdify appends to its own path.

    If it appends the same for several, the last one counts.
    """
    children: dict[str, tuple[FieldPath, Schema]] = {}
    for keyword in ("items", *_JUNCTORS):
        for number, member in enumerate(items(schema.get(keyword))):
            children[f".{keyword}[{number}]"] = (keyword, number), mapping(member)
    children |= _single(schema, ("items", "not"))
    for name, member in _named(schema, "properties"):
        children[f".{name}" if name else "[]"] = ("properties", name), mapping(member)
    children |= _single(schema, _OTHERS)
    for keyword in _NAMED:
        for name, member in _named(schema, keyword):
            children[f".{keyword}[{name}]"] = (keyword, name), mapping(member)
    return children


def _single(schema: Schema, keywords: Iterable[str]) -> dict[str, tuple[FieldPath, Schema]]:
    """Return the schemas that are values of keywords, see `_children`."""
    present = (keyword for keyword in keywords if isinstance(schema.get(keyword), dict))
    return {f".{keyword}": ((keyword,), schema[keyword]) for keyword in present}


def _named(schema: Schema, keyword: str) -> Iterator[tuple[str, object]]:
    """Yield the members of a keyword with schemas by name; a dependency can also be a list of fields."""
    for name, member in mapping(schema.get(keyword)).items():
        if keyword != "dependencies" or isinstance(member, dict):
            yield name, member


def _unchecked(values: Values) -> Values:
    """Return the keywords without a check."""
    return {name: value for name, value in values.items() if name not in _CHECKS}


def _keywords(schema: Schema) -> Values:
    own = {name: value for name, value in schema.items() if name not in ("properties", "items")}
    return _without_empty(decode_struct(own, _SCHEMA, DecodeMode.OBJECT).value)


def _without_empty(schema: Schema) -> Values:
    """Return a decoded schema without empty lists and maps, which are the same as absent ones."""
    types = field_types(_SCHEMA, Tables.NEWEST)
    return {
        name: _nested(name, value)
        for name, value in schema.items()
        if value not in ([], {}) or types[name].kind not in ("[]", "{}")
    }


def _nested(keyword: str, value: Any) -> Any:
    if keyword in _JUNCTORS or (keyword == "items" and isinstance(value, list)):
        return [_without_empty(mapping(member)) for member in value]
    if keyword in ("properties", *_NAMED):
        return {name: _without_empty(member) if isinstance(member, dict) else member for name, member in value.items()}
    if keyword in ("not", "items", *_OTHERS) and isinstance(value, dict):
        return _without_empty(value)
    return value


def _flatten(values: Values) -> dict[str, str]:
    """Return the scalars and empty collections in the values of keywords as JSON, by path."""
    return {path: leaf for name, value in values.items() for path, leaf in _leaves(value, name)}


def _leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    members: Iterable[tuple[str, object]] = ()
    if isinstance(value, dict):
        members = ((f"{path}.{name}", member) for name, member in value.items())
    elif isinstance(value, list):
        members = ((f"{path}[{number}]", member) for number, member in enumerate(value))
    if not value or not isinstance(value, dict | list):
        yield path, _encode(value) or "null"
    for name, member in members:
        yield from _leaves(member, name)


def _encode(value: object) -> str:
    """Return a value as JSON that is equal for equal values only, or "" for None."""
    if value is None:
        return ""
    if isinstance(value, str | bool):  # most values: skip the copy
        return json.dumps(value)
    try:
        return encode(copy.deepcopy(value), UINT64).decode()  # type: ignore[arg-type]
    except ValueError:  # infinite, not a number or not Unicode, and so impossible in JSON
        return json.dumps(value, sort_keys=True)


_Check: TypeAlias = Callable[[Any, Any], "tuple[object, object] | None"]
"""Returns what a keyword loses and gains, given its values in two schemas, or None if the change is safe."""


def _changed(before: Any, after: Any) -> tuple[object, object] | None:
    return (before, after) if _encode(before) != _encode(after) else None


def _raised(before: Any, after: Any) -> tuple[object, object] | None:
    return (before, after) if after is not None and (before is None or after > before) else None


def _lowered(before: Any, after: Any) -> tuple[object, object] | None:
    return (before, after) if after is not None and (before is None or after < before) else None


def _added(before: Any, after: Any) -> tuple[object, object] | None:
    added = sorted({text(name) for name in after or ()} - {text(name) for name in before or ()})
    return (None, added) if added else None


def _enum(before: Any, after: Any) -> tuple[object, object] | None:
    """Compare enums, which may be extended but not introduced."""
    old, new = _by_json(before or ()), _by_json(after or ())
    if not old and new:
        return None, [new[key] for key in sorted(new)]
    removed = [old[key] for key in sorted(old) if key not in new]
    return (removed, None) if removed else None


def _one_of(before: Any, after: Any) -> tuple[object, object] | None:
    """Compare alternatives without their descriptions; their order is irrelevant."""
    old, new = (
        _by_json({name: value for name, value in schema.items() if name not in _ANNOTATIONS} for schema in side or ())
        for side in (before, after)
    )
    removed = [old[key] for key in sorted(old) if key not in new]
    if _has_address([*old.values()]):
        removed.append(_INCOMPARABLE)
    added = [new[key] for key in sorted(new) if key not in old]
    if removed:
        return removed, None
    return (None, added) if added else None


def _has_address(value: object, *, in_map: bool = False) -> bool:
    """Return whether crdify compares a value of oneOf by its address in memory, and so finds it changed.

    It compares texts, in which the limits of fields (schemas that are values of a map) are pointers.
    """
    if isinstance(value, list):
        return any(_has_address(member, in_map=in_map) for member in value)
    if not isinstance(value, dict):
        return False
    if in_map and not _POINTERS.isdisjoint(value):
        return True
    for keyword, member in value.items():
        if keyword in ("properties", *_NAMED):
            found = _has_address(list(mapping(member).values()), in_map=keyword != "dependencies")
        elif keyword in (*_JUNCTORS, "x-kubernetes-validations"):
            found = _has_address(member, in_map=in_map)
        else:
            found = keyword in ("not", "items", *_OTHERS) and _has_address(member)
        if found:
            return True
    return False


def _has_unstable_text(difference: _Difference) -> bool:
    """Return whether crdify describes a difference in other words each time."""
    clauses = _loads(difference.before) or _loads(difference.after)
    return difference.check == "oneOf" and (_INCOMPARABLE in clauses or _has_address(clauses))


def _by_json(values: Iterable[object]) -> dict[str, object]:
    return {_encode(value): value for value in values}


def _ignored(_before: Any, _after: Any) -> None:
    return None


_CHECKS: Final[Mapping[str, _Check]] = {
    "description": _ignored,
    "enum": _enum,
    "required": _added,
    "oneOf": _one_of,
    **dict.fromkeys(("default", "type", "pattern", "nullable"), _changed),
    **dict.fromkeys(("minimum", "minItems", "minLength", "minProperties"), _raised),
    **dict.fromkeys(("maximum", "maxItems", "maxLength", "maxProperties"), _lowered),
}
"""The checks of properties by keyword; changes of other keywords are unhandled."""


def _restricts(difference: _Difference) -> bool:
    """Return whether objects that the old schema allows can violate the new one, as OLM v0 validates them."""
    match difference.check:
        case "nullable":
            return not difference.after
        case "type":
            return not difference.dropped and (difference.before, difference.after) != ('"integer"', '"number"')
        case "enum" | "oneOf" | "pattern":
            return not difference.dropped and _loads(difference.before) != [_INCOMPARABLE]
        case check:
            return check not in ("default", _UNHANDLED, _FIELD)


def _message(difference: _Difference) -> str:
    """Return what a difference changes from what to what."""
    check = difference.check
    if check == _SIZE:
        return f"not compared: more than {_MAX_SCHEMAS} schemas, or {_MAX_DEPTH} levels of them"
    if check == _FIELD:
        return "the field is removed"
    before, after = _loads(difference.before), _loads(difference.after)
    if check == _UNHANDLED:
        return _unhandled_message(before, after)
    if check in ("enum", "oneOf") and difference.dropped and before != [_INCOMPARABLE]:
        return f"{check} is removed, and with it {_show(before)}"
    if check == "enum":
        return f"only {_show(after)} are allowed" if after else f"{_show(before)} are no longer allowed"
    if before == [_INCOMPARABLE]:
        return "the property changes, and OLM cannot compare oneOf because fields in it have limits such as minimum"
    if check == "oneOf" and before:
        return f"{_show([clause for clause in before if clause != _INCOMPARABLE])} are no longer alternatives of oneOf"
    if check == "required":
        return f"{_show(after)} are required" if len(after) > 1 else f"{_show(after)} is required"
    return _change(check, before, after)


def _unhandled_message(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the first changes of other keywords; the arguments are JSON by path."""
    names = list({**before, **after})
    details = [_change(name, _loads(before.get(name)), _loads(after.get(name))) for name in names[:_MAX_DETAILS]]
    more = len(names) - len(details)
    return "; ".join([*details, *([f"{more} more changes"] if more else [])])


def _loads(encoded: str | None) -> Any:
    return json.loads(encoded) if encoded else None


def _change(name: str, before: Any, after: Any) -> str:
    if before is None:
        return f"{name} {_show(after)} is added"
    if after is None:
        return f"{name} {_show(before)} is removed"
    return f"{name} changes from {_show(before)} to {_show(after)}"


def _show(value: Any) -> str:
    """Return a value for a message, truncated, the members of a list separated by commas."""
    if isinstance(value, list):
        shown = ", ".join(_show(member) for member in value[:_MAX_DETAILS])
        more = len(value) - _MAX_DETAILS
        return f"{shown} and {more} more" if more > 0 else shown
    written = json.dumps(value, ensure_ascii=False)
    return written if len(written) <= _MAX_SHOWN else f"{written[: _MAX_SHOWN - 3]}..."
