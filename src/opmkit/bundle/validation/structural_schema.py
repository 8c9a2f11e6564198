"""What keeps the schema of a custom resource from being structural, and what else an API server refuses in it.

After the section "Specifying a structural schema" of the Kubernetes documentation, and what its API server makes of it
(k8s.io/apiextensions-apiserver). Expressions (CEL) are not compiled, and regular expressions only looked at for what
Go's can't do.
"""

from __future__ import annotations

import re
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from opmkit.bundle.finding import Finding
from opmkit.bundle.lenient import items, mapping, text
from opmkit.bundle.validation.schema_defaults import default_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.field_path import FieldPath

    Schema: TypeAlias = Mapping[str, Any]

TYPES = ("array", "boolean", "integer", "number", "object", "string")
_MAX_SCHEMAS = 100_000
_MAX_PROBLEMS = 1_000
_MAX_DEPTH = 100
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_META = ("apiVersion", "kind", "metadata")
_PRESERVE, _EMBEDDED = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"
_INT_OR_STRING, _VALIDATIONS = "x-kubernetes-int-or-string", "x-kubernetes-validations"
_LIST_TYPE, _LIST_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
_MAP_TYPE = "x-kubernetes-map-type"
_UNSUPPORTED = ("id", "$schema", "$ref", "definitions", "dependencies", "patternProperties", "additionalItems")
_NOT_NESTED = (
    *("type", "additionalProperties", "default", "title", "description", "nullable"),
    *(_PRESERVE, _EMBEDDED, _INT_OR_STRING, _LIST_KEYS, _LIST_TYPE, _MAP_TYPE, _VALIDATIONS),
)
_RESTRICTIONS = (
    *("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems"),
    *("minItems", "uniqueItems", "multipleOf", "required"),
)
_AT_STATUS_ROOT = frozenset(
    (*_RESTRICTIONS, "description", "type", "format", "title", "items", "properties", "externalDocs", "example")
).union((_PRESERVE, _VALIDATIONS))
_KEYWORDS = _AT_STATUS_ROOT.union(
    _JUNCTORS, _NOT_NESTED, _UNSUPPORTED, ("not", "enum", "maxProperties", "minProperties")
)
_BEYOND_RE2 = re.compile(r"\\[1-9]|\(\?(?:[=!>]|<[=!])")
_CLASS_OR_ESCAPE = re.compile(r"\\[^1-9]|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]", re.DOTALL)


class Aspect(StrEnum):
    """Rules that report problems of a schema."""

    TYPE = "CRD-STRUCTURAL-TYPE"
    UNSUPPORTED = "CRD-STRUCTURAL-UNSUPPORTED"
    NESTED = "CRD-STRUCTURAL-NESTED"
    INCOMPLETE = "CRD-STRUCTURAL-INCOMPLETE"
    METADATA = "CRD-STRUCTURAL-METADATA"
    EXTENSION = "CRD-STRUCTURAL-EXTENSION"
    PATTERN = "CRD-STRUCTURAL-PATTERN"
    DEFAULT = "CRD-STRUCTURAL-DEFAULT"


class _Level(Enum):
    ROOT = "the root of the schema"
    ITEM = "the items of an array"
    FIELD = "a field"


def schema_findings(schema: object, *, has_status: bool) -> list[Finding]:
    """All problems of a schema; ``has_status`` tells that its resource has the status subresource."""
    walk = _Walk()
    root = mapping(schema)
    walk.structural(root, (), _Level.ROOT)
    walk.completeness(root, root, ())
    if has_status:
        walk.status_root(root)
    return walk.findings


class _Walk:
    """Goes through a schema, as deep and as far as any real one reaches."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._count = 0

    def _say(self, aspect: Aspect, path: FieldPath, told: str) -> None:
        self.findings.append(Finding(told, path=path, rule=aspect))

    def _enough(self, path: FieldPath) -> bool:
        """Whether to go no further."""
        self._count += 1
        too_many = self._count > _MAX_SCHEMAS or len(self.findings) > _MAX_PROBLEMS
        return too_many or len(path) > 2 * _MAX_DEPTH

    def structural(self, schema: Schema, path: FieldPath, level: _Level, *, defaults: bool = True) -> None:
        """Look at a schema that stands where values are described, outside of allOf and the like.

        ``defaults`` tells whether it may give some. Those within additionalProperties are never set, nor looked at.
        """
        if self._enough(path):
            return
        self._type(schema, path, level)
        self._anywhere(schema, path)
        self._metadata(schema, path, level)
        if schema.get("default") is not None and not defaults:
            self._say(Aspect.DEFAULT, (*path, "default"), "must not be set for the metadata of the object itself")
        elif "additionalProperties" not in path and (told := default_problem(schema)):
            self._say(Aspect.DEFAULT, (*path, "default"), told)
        self._junctors(schema, path)
        for name, each in mapping(schema.get("properties")).items():
            allowed = defaults and not (level is _Level.ROOT and name in _META)
            self.structural(mapping(each), (*path, "properties", name), _Level.FIELD, defaults=allowed)
        if isinstance(schema.get("items"), dict):
            self.structural(schema["items"], (*path, "items"), _Level.ITEM, defaults=defaults)
        if isinstance(schema.get("additionalProperties"), dict):
            below = (*path, "additionalProperties")
            self.structural(schema["additionalProperties"], below, _Level.FIELD, defaults=defaults)

    def _type(self, schema: Schema, path: FieldPath, level: _Level) -> None:
        kind, embedded = text(schema.get("type")), schema.get(_EMBEDDED) is True
        place = (*path, "type")
        if kind and kind not in TYPES:
            self._say(Aspect.TYPE, place, f"is {kind!r}, none of {', '.join(TYPES)}")
        elif embedded and kind != "object":
            self._say(Aspect.TYPE, place, f"must be object beside {_EMBEDDED}")
        elif not kind and schema.get(_INT_OR_STRING) is not True and schema.get(_PRESERVE) is not True:
            self._say(Aspect.TYPE, place, f"is missing for {level.value}")
        elif kind and level is _Level.ROOT and kind != "object":
            self._say(Aspect.TYPE, place, f"is {kind!r}, but must be object for {level.value}")
        if kind == "array" and not isinstance(schema.get("items"), dict) and not items(schema.get("items")):
            self._say(Aspect.TYPE, (*path, "items"), "is missing for an array")
        if level is _Level.ROOT:
            if "additionalProperties" in schema and schema["additionalProperties"] is not None:
                told = "must not be used at the root of the schema"
                self._say(Aspect.UNSUPPORTED, (*path, "additionalProperties"), told)
            if schema.get("nullable") is True:
                self._say(Aspect.UNSUPPORTED, (*path, "nullable"), "must not be true at the root of the schema")

    def _anywhere(self, schema: Schema, path: FieldPath) -> None:
        """Look at what holds for every schema, wherever it stands."""
        for keyword in _UNSUPPORTED:
            value = schema.get(keyword)
            if value or (value is not None and keyword in ("$ref", "additionalItems", "dependencies")):
                self._say(Aspect.UNSUPPORTED, (*path, keyword), "is not supported in the schema of a custom resource")
        if schema.get("uniqueItems") is True:
            self._say(Aspect.UNSUPPORTED, (*path, "uniqueItems"), "must not be true; make the list a set instead")
        if items(schema.get("items")):
            self._say(Aspect.UNSUPPORTED, (*path, "items"), "must be one schema, not a list")
        others = schema.get("additionalProperties")
        if schema.get("properties") and (others is False or isinstance(others, dict)):
            self._say(Aspect.UNSUPPORTED, (*path, "additionalProperties"), "and properties exclude each other")
        if pattern := text(schema.get("pattern")):
            self._pattern(pattern, (*path, "pattern"))
        for below, told in _extension_problems(schema):
            self._say(Aspect.EXTENSION, (*path, *below), told)

    def _pattern(self, pattern: str, path: FieldPath) -> None:
        if match := _BEYOND_RE2.search(_CLASS_OR_ESCAPE.sub("", pattern)):
            told = f"has {match.group()!r}, which the regular expressions of Go do not know"
            self._say(Aspect.PATTERN, path, told)

    def _metadata(self, schema: Schema, path: FieldPath, level: _Level) -> None:
        """Look at apiVersion, kind and metadata of whole objects: the resource itself, and those within."""
        if level is not _Level.ROOT and schema.get(_EMBEDDED) is not True:
            return
        properties = mapping(schema.get("properties"))
        for name, wanted in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
            kind = text(mapping(properties.get(name)).get("type"))
            if name in properties and kind != wanted:
                self._say(Aspect.METADATA, (*path, "properties", name, "type"), f"must be {wanted}")
        metadata = mapping(properties.get("metadata"))
        if level is _Level.ROOT and not _only_names(metadata):
            told = "must say nothing but what name and generateName are to be like"
            self._say(Aspect.METADATA, (*path, "properties", "metadata"), told)

    def _junctors(self, schema: Schema, path: FieldPath) -> None:
        """Look into not, allOf, anyOf and oneOf, past the two ways to say that a value is an integer or a string."""
        for below, clause in _clauses(schema):
            if below[0] == "anyOf" and _is_int_or_string(schema):
                continue
            self._nested(clause, (*path, *below), skip_any_of=below == ("allOf", 0) and _is_int_or_string(clause))

    def _nested(self, schema: Schema, path: FieldPath, *, skip_any_of: bool = False) -> None:
        """Look at a schema within allOf and the like, which may restrict values, but not describe them."""
        if self._enough(path):
            return
        for keyword in _NOT_NESTED:
            value = schema.get(keyword)
            if value or (value is not None and keyword in ("additionalProperties", "default", _LIST_TYPE, _MAP_TYPE)):
                self._say(Aspect.NESTED, (*path, keyword), "must not stand within allOf, anyOf, oneOf or not")
        self._anywhere(schema, path)
        for below, clause in _clauses(schema):
            if not (skip_any_of and below[0] == "anyOf"):
                self._nested(clause, (*path, *below))
        for name, each in mapping(schema.get("properties")).items():
            if name == "metadata":
                told = "must not be restricted within allOf, anyOf, oneOf or not"
                self._say(Aspect.METADATA, (*path, "properties", name), told)
            self._nested(mapping(each), (*path, "properties", name))
        if isinstance(schema.get("items"), dict):
            self._nested(schema["items"], (*path, "items"))

    def completeness(self, nested: Schema, outer: Schema, path: FieldPath) -> None:
        """Look whether the fields that allOf and the like restrict are described outside of them."""
        if self._enough(path):
            return
        for below, clause in _clauses(nested):
            self._described(clause, outer, (*path, *below))

    def _described(self, clause: Schema, outer: Schema, path: FieldPath) -> None:
        self.completeness(clause, outer, path)
        if isinstance(clause.get("items"), dict):
            if isinstance(outer.get("items"), dict):
                self._described(clause["items"], outer["items"], (*path, "items"))
            else:
                self._say(Aspect.INCOMPLETE, (*path, "items"), "restricts items that are described nowhere else")
        described = mapping(outer.get("properties"))
        for name, each in mapping(clause.get("properties")).items():
            below = (*path, "properties", name)
            if name in described:
                self._described(mapping(each), mapping(described[name]), below)
            else:
                self._say(Aspect.INCOMPLETE, below, "restricts a field that is described nowhere else")

    def status_root(self, schema: Schema) -> None:
        """Look at what the root may not have beside the status subresource."""
        for keyword in _said(schema) - _AT_STATUS_ROOT:
            told = "must not stand at the root of the schema of a resource with the status subresource"
            self._say(Aspect.UNSUPPORTED, (keyword,), told)


def _said(schema: Schema) -> set[str]:
    """The keywords that say something."""
    return {
        keyword
        for keyword, value in schema.items()
        if keyword in _KEYWORDS and value is not None and value is not False and value not in ("", [], {})
        if keyword != "items" or isinstance(value, dict | list)
    }


def _is_int_or_string(schema: Schema) -> bool:
    """Whether anyOf says that a value is an integer or a string, and nothing more."""
    clauses = [mapping(each) for each in items(schema.get("anyOf"))]
    told = [(_said(each), each.get("type")) for each in clauses]
    return told == [({"type"}, "integer"), ({"type"}, "string")]


def _clauses(schema: Schema) -> Iterator[tuple[FieldPath, Schema]]:
    if isinstance(schema.get("not"), dict):
        yield ("not",), schema["not"]
    for keyword in _JUNCTORS:
        for number, each in enumerate(items(schema.get(keyword))):
            yield (keyword, number), mapping(each)


def _only_names(metadata: Schema) -> bool:
    """Whether the schema of metadata restricts name and generateName at most."""
    names = set(mapping(metadata.get("properties")))
    return _said(metadata) <= {"type", "properties", "default"} and names <= {"name", "generateName"}


def _extension_problems(schema: Schema) -> Iterator[tuple[FieldPath, str]]:
    if schema.get(_PRESERVE) is False:
        yield (_PRESERVE,), "must be true where it is set"
    if schema.get(_INT_OR_STRING) is True:
        for other in (_PRESERVE, _EMBEDDED):
            if schema.get(other) is True:
                yield (other,), f"must not be true beside {_INT_OR_STRING}"
    if schema.get(_EMBEDDED) is True:
        if schema.get("additionalProperties") is not None:
            yield ("additionalProperties",), f"must not stand beside {_EMBEDDED}"
        if schema.get(_PRESERVE) is not True and not schema.get("properties"):
            yield ("properties",), f"must say which fields there are, unless {_PRESERVE} is true"
    if _MAP_TYPE in schema and schema[_MAP_TYPE] is not None:
        yield from _map_problems(schema)
    yield from _list_problems(schema)
    yield from _validation_problems(schema)


def _map_problems(schema: Schema) -> Iterator[tuple[FieldPath, str]]:
    if schema.get("type") != "object":
        yield ("type",), f"must be object beside {_MAP_TYPE}"
    if schema[_MAP_TYPE] not in ("atomic", "granular"):
        yield (_MAP_TYPE,), f"is {schema[_MAP_TYPE]!r}, neither atomic nor granular"


def _list_problems(schema: Schema) -> Iterator[tuple[FieldPath, str]]:
    kind, keys = schema.get(_LIST_TYPE), items(schema.get(_LIST_KEYS))
    if kind is None:
        if keys:
            yield (_LIST_KEYS,), f"needs {_LIST_TYPE}: map"
        return
    if schema.get("type") != "array":
        yield ("type",), f"must be array beside {_LIST_TYPE}"
    if kind not in ("atomic", "set", "map"):
        yield (_LIST_TYPE,), f"is {kind!r}, none of atomic, map and set"
    elif keys and kind != "map":
        yield (_LIST_TYPE,), f"is {kind!r}, but {_LIST_KEYS} needs map"
    item = mapping(schema.get("items"))
    if kind in ("set", "map") and item.get("nullable") is True:
        yield ("items", "nullable"), f"must not be true for a list of the type {kind}"
    if kind == "set":
        yield from _set_problems(schema, item)
    elif kind == "map":
        yield from _keyed_problems(schema, item, keys)


def _set_problems(schema: Schema, item: Schema) -> Iterator[tuple[FieldPath, str]]:
    if schema.get("type") != "array":
        return
    if item.get("type") == "array" and item.get(_LIST_TYPE) not in (None, "atomic"):
        yield ("items", _LIST_TYPE), "must be atomic in a set"
    if item.get("type") == "object" and item.get(_MAP_TYPE) != "atomic":
        yield ("items", _MAP_TYPE), "must be atomic in a set"


def _keyed_problems(schema: Schema, item: Schema, keys: list[Any]) -> Iterator[tuple[FieldPath, str]]:
    """What is wrong with a list whose items are told apart by the values of key fields."""
    if not keys:
        yield (_LIST_KEYS,), "must name the keys of a list of the type map"
    if not isinstance(schema.get("items"), dict):
        yield ("items",), "must be a schema in a list of the type map"
        return
    if item.get("type") != "object":
        yield ("items", "type"), "must be object in a list of the type map"
        return
    properties = mapping(item.get("properties"))
    required = {name for name in items(item.get("required")) if isinstance(name, str)}
    seen: set[str] = set()
    for number, key in enumerate(map(text, keys)):
        described = mapping(properties.get(key))
        place = ("items", "properties", key)
        if key not in properties:
            yield (_LIST_KEYS, number), f"is {key!r}, which is no field of the items"
        elif described.get("type") in ("array", "object"):
            yield (*place, "type"), f"is {described['type']!r}, which no key can have"
        if key in seen:
            yield (_LIST_KEYS, number), f"is {key!r}, which is in the list before"
        seen.add(key)
        if key in properties and key not in required and described.get("default") is None:
            yield place, "is a key of the list, so it must be required or have a default"
        if described.get("nullable") is True:
            yield (*place, "nullable"), "must not be true for a key of the list"


def _validation_problems(schema: Schema) -> Iterator[tuple[FieldPath, str]]:
    for number, each in enumerate(items(schema.get(_VALIDATIONS))):
        expression, message = text(mapping(each).get("rule")).strip(), text(mapping(each).get("message"))
        place: FieldPath = (_VALIDATIONS, number)
        if not expression:
            yield (*place, "rule"), "is empty"
        elif message and not message.strip():
            yield (*place, "message"), "is blank"
        elif re.search(r"[\r\n]", message.strip()):
            yield (*place, "message"), "has a line break"
        elif re.search(r"[\r\n]", expression) and not message.strip():
            yield (*place, "message"), "is missing, but the rule has a line break"
