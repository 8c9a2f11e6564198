"""Validation of structural schemas and their defaults, as API servers require them.

The rules follow "Specifying a structural schema" in the Kubernetes documentation and k8s.io/apiextensions-apiserver.
CEL expressions are not compiled, and regular expressions are only checked for syntax that RE2 lacks.
"""

from __future__ import annotations

import re
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from opmkit.bundle.finding import Finding
from opmkit.documents.lenient import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opmkit.documents.fields import FieldPath

    Schema: TypeAlias = Mapping[str, Any]


TYPES = ("array", "boolean", "integer", "number", "object", "string")
_MAX_SCHEMAS = 100_000
_MAX_PROBLEMS = 1_000
_MAX_DEPTH = 100
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_META = ("apiVersion", "kind", "metadata")
_META_TYPES = {"apiVersion": "string", "kind": "string", "metadata": "object"}
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
_LEAF_TYPES = frozenset(("boolean", "integer", "number", "object", "string"))
_LEAF_KEYWORDS = frozenset(
    ("type", "description", "title", "format", "required", "enum", "maximum", "minimum", "maxLength", "minLength")
).union(("maxItems", "minItems", "maxProperties", "minProperties", "nullable", "example"))
"""Keywords without a rule in fields and items, and without schemas in their values."""
_PLAIN_KEYWORDS = _LEAF_KEYWORDS.union(("properties", "items", "additionalProperties"))
_BEYOND_RE2 = re.compile(r"\\[1-9]|\(\?(?:[=!>]|<[=!])")
_CLASS_OR_ESCAPE = re.compile(r"\\[^1-9]|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]", re.DOTALL)


class SchemaRule(StrEnum):
    """The rules that report problems of a schema."""

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
    """Return the problems of a schema; ``has_status`` is True if the resource has the status subresource."""
    checker = _SchemaChecker()
    root = mapping(schema)
    checker.check_structural(root, (), _Level.ROOT)
    checker.check_completeness(root, root, ())
    if has_status:
        checker.check_status_root(root)
    return checker.findings


class _SchemaChecker:
    """Traverses a schema, up to a limit of depth and size, and collects findings."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._count = 0

    def _add(self, schema_rule: SchemaRule, path: FieldPath, problem: str) -> None:
        self.findings.append(Finding(problem, path=path, rule=schema_rule))

    def _limit_reached(self, path: FieldPath) -> bool:
        """Return True if a limit is reached."""
        self._count += 1
        too_many = self._count > _MAX_SCHEMAS or len(self.findings) > _MAX_PROBLEMS
        return too_many or len(path) > 2 * _MAX_DEPTH

    def check_structural(self, schema: Schema, path: FieldPath, level: _Level, *, defaults: bool = True) -> None:
        """Check a schema that specifies values, outside of logical junctors.

        ``defaults`` is True if it can have defaults. Those inside additionalProperties have no effect and are ignored.
        """
        if self._limit_reached(path):
            return
        if level is _Level.ROOT or not _is_plain(schema):  # most are plain
            self._check_restrictions(schema, path, level, defaults=defaults)
        for name, member in mapping(schema.get("properties")).items():
            if _is_leaf(member):  # most are: skip the call
                self._count += 1
                continue
            allowed = defaults and not (level is _Level.ROOT and name in _META)
            self.check_structural(mapping(member), (*path, "properties", name), _Level.FIELD, defaults=allowed)
        if isinstance(schema.get("items"), dict):
            self.check_structural(schema["items"], (*path, "items"), _Level.ITEM, defaults=defaults)
        if isinstance(schema.get("additionalProperties"), dict):
            others_path = (*path, "additionalProperties")
            self.check_structural(schema["additionalProperties"], others_path, _Level.FIELD, defaults=defaults)

    def _check_restrictions(self, schema: Schema, path: FieldPath, level: _Level, *, defaults: bool) -> None:
        """Check a schema without the schemas of its fields and items."""
        self._check_type(schema, path, level)
        self._check_keywords(schema, path)
        self._check_metadata(schema, path, level)
        if schema.get("default") is not None and not defaults:
            self._add(SchemaRule.DEFAULT, (*path, "default"), "must not be set for the metadata of the object itself")
        elif "additionalProperties" not in path and (problem := default_problem(schema)):
            self._add(SchemaRule.DEFAULT, (*path, "default"), problem)
        self._check_junctors(schema, path)

    def _check_type(self, schema: Schema, path: FieldPath, level: _Level) -> None:
        kind, embedded = text(schema.get("type")), schema.get(_EMBEDDED) is True
        type_path = (*path, "type")
        if kind and kind not in TYPES:
            self._add(SchemaRule.TYPE, type_path, f"is {kind!r}, not one of {', '.join(TYPES)}")
        elif embedded and kind != "object":
            self._add(SchemaRule.TYPE, type_path, f"must be object with {_EMBEDDED}")
        elif not kind and schema.get(_INT_OR_STRING) is not True and schema.get(_PRESERVE) is not True:
            self._add(SchemaRule.TYPE, type_path, f"is missing for {level.value}")
        elif kind and level is _Level.ROOT and kind != "object":
            self._add(SchemaRule.TYPE, type_path, f"is {kind!r}, but must be object for {level.value}")
        if kind == "array" and not isinstance(schema.get("items"), dict) and not items(schema.get("items")):
            self._add(SchemaRule.TYPE, (*path, "items"), "is missing for an array")
        if level is _Level.ROOT:
            if "additionalProperties" in schema and schema["additionalProperties"] is not None:
                problem = "must not be used at the root of the schema"
                self._add(SchemaRule.UNSUPPORTED, (*path, "additionalProperties"), problem)
            if schema.get("nullable") is True:
                self._add(SchemaRule.UNSUPPORTED, (*path, "nullable"), "must not be true at the root of the schema")

    def _check_keywords(self, schema: Schema, path: FieldPath) -> None:
        """Check the keywords that have the same rules in every schema."""
        for keyword in _UNSUPPORTED:
            value = schema.get(keyword)
            if value or (value is not None and keyword in ("$ref", "additionalItems", "dependencies")):
                self._add(SchemaRule.UNSUPPORTED, (*path, keyword), "is not supported for custom resources")
        if schema.get("uniqueItems") is True:
            self._add(SchemaRule.UNSUPPORTED, (*path, "uniqueItems"), "must not be true; make the list a set")
        if items(schema.get("items")):
            self._add(SchemaRule.UNSUPPORTED, (*path, "items"), "must be one schema, not a list")
        others = schema.get("additionalProperties")
        if schema.get("properties") and (others is False or isinstance(others, dict)):
            self._add(SchemaRule.UNSUPPORTED, (*path, "additionalProperties"), "cannot be combined with properties")
        if pattern := text(schema.get("pattern")):
            self._check_pattern(pattern, (*path, "pattern"))
        for steps, problem in _extension_problems(schema):
            self._add(SchemaRule.EXTENSION, (*path, *steps), problem)

    def _check_pattern(self, pattern: str, path: FieldPath) -> None:
        if match := _BEYOND_RE2.search(_CLASS_OR_ESCAPE.sub("", pattern)):
            problem = f"has {match.group()!r}, which Go's regular expressions do not support"
            self._add(SchemaRule.PATTERN, path, problem)

    def _check_metadata(self, schema: Schema, path: FieldPath, level: _Level) -> None:
        """Check apiVersion, kind and metadata of the resource itself and of embedded objects."""
        if level is not _Level.ROOT and schema.get(_EMBEDDED) is not True:
            return
        properties = mapping(schema.get("properties"))
        for name, wanted in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
            kind = text(mapping(properties.get(name)).get("type"))
            if name in properties and kind != wanted:
                self._add(SchemaRule.METADATA, (*path, "properties", name, "type"), f"must be {wanted}")
        metadata = mapping(properties.get("metadata"))
        if level is _Level.ROOT and not _only_names(metadata):
            problem = "must not restrict anything except name and generateName"
            self._add(SchemaRule.METADATA, (*path, "properties", "metadata"), problem)

    def _check_junctors(self, schema: Schema, path: FieldPath) -> None:
        """Check the schemas in not, allOf, anyOf and oneOf, except the two forms of int-or-string."""
        for steps, clause in _clauses(schema):
            if steps[0] == "anyOf" and _is_int_or_string(schema):
                continue
            self._check_nested(clause, (*path, *steps), skip_any_of=steps == ("allOf", 0) and _is_int_or_string(clause))

    def _check_nested(self, schema: Schema, path: FieldPath, *, skip_any_of: bool = False) -> None:
        """Check a schema inside logical junctors, which may restrict values but not specify them."""
        if self._limit_reached(path):
            return
        for keyword in _NOT_NESTED:
            value = schema.get(keyword)
            if value or (value is not None and keyword in ("additionalProperties", "default", _LIST_TYPE, _MAP_TYPE)):
                self._add(SchemaRule.NESTED, (*path, keyword), "must not be used inside allOf, anyOf, oneOf or not")
        self._check_keywords(schema, path)
        for steps, clause in _clauses(schema):
            if not (skip_any_of and steps[0] == "anyOf"):
                self._check_nested(clause, (*path, *steps))
        for name, member in mapping(schema.get("properties")).items():
            if name == "metadata":
                problem = "must not be restricted inside allOf, anyOf, oneOf or not"
                self._add(SchemaRule.METADATA, (*path, "properties", name), problem)
            self._check_nested(mapping(member), (*path, "properties", name))
        if isinstance(schema.get("items"), dict):
            self._check_nested(schema["items"], (*path, "items"))

    def check_completeness(self, nested: Schema, outer: Schema, path: FieldPath) -> None:
        """Check that the fields in logical junctors are also specified outside of them."""
        if self._limit_reached(path):
            return
        for steps, clause in _clauses(nested):
            self._check_specified(clause, outer, (*path, *steps))

    def _check_specified(self, clause: Schema, outer: Schema, path: FieldPath) -> None:
        self.check_completeness(clause, outer, path)
        if isinstance(clause.get("items"), dict):
            if isinstance(outer.get("items"), dict):
                self._check_specified(clause["items"], outer["items"], (*path, "items"))
            else:
                self._add(SchemaRule.INCOMPLETE, (*path, "items"), "restricts items that are not specified elsewhere")
        specified = mapping(outer.get("properties"))
        for name, member in mapping(clause.get("properties")).items():
            member_path = (*path, "properties", name)
            if name in specified:
                self._check_specified(mapping(member), mapping(specified[name]), member_path)
            else:
                self._add(SchemaRule.INCOMPLETE, member_path, "restricts a field that is not specified elsewhere")

    def check_status_root(self, schema: Schema) -> None:
        """Check the root of the schema of a resource with the status subresource."""
        for keyword in _used_keywords(schema) - _AT_STATUS_ROOT:
            problem = "must not be used at the root of the schema of a resource with the status subresource"
            self._add(SchemaRule.UNSUPPORTED, (keyword,), problem)


def _is_leaf(schema: object) -> bool:
    """Return True if a schema of a field has a valid type and no keywords with a rule or a schema."""
    return isinstance(schema, dict) and schema.keys() <= _LEAF_KEYWORDS and text(schema.get("type")) in _LEAF_TYPES


def _is_plain(schema: Schema) -> bool:
    """Return True if a schema of a field or item has a valid type and no keywords with a rule that it can break."""
    kind = text(schema.get("type"))
    if kind not in TYPES or not schema.keys() <= _PLAIN_KEYWORDS:
        return False
    if "additionalProperties" in schema and "properties" in schema:
        return False
    return isinstance(schema["items"], dict) if "items" in schema else kind != "array"


def _used_keywords(schema: Schema) -> set[str]:
    """Return the keywords with a value other than the default."""
    return {
        keyword
        for keyword, value in schema.items()
        if keyword in _KEYWORDS and value is not None and value is not False and value not in ("", [], {})
        if keyword != "items" or isinstance(value, dict | list)
    }


def _is_int_or_string(schema: Schema) -> bool:
    """Return True if anyOf allows exactly integers and strings."""
    clauses = [mapping(clause) for clause in items(schema.get("anyOf"))]
    types = [(_used_keywords(clause), clause.get("type")) for clause in clauses]
    return types == [({"type"}, "integer"), ({"type"}, "string")]


def _clauses(schema: Schema) -> Iterator[tuple[FieldPath, Schema]]:
    if isinstance(schema.get("not"), dict):
        yield ("not",), schema["not"]
    for keyword in _JUNCTORS:
        for number, clause in enumerate(items(schema.get(keyword))):
            yield (keyword, number), mapping(clause)


def _only_names(metadata: Schema) -> bool:
    """Return True if the schema of metadata restricts at most name and generateName."""
    names = set(mapping(metadata.get("properties")))
    return _used_keywords(metadata) <= {"type", "properties", "default"} and names <= {"name", "generateName"}


def _extension_problems(schema: Schema) -> Iterator[tuple[FieldPath, str]]:
    if schema.get(_PRESERVE) is False:
        yield (_PRESERVE,), "must be true if it is set"
    if schema.get(_INT_OR_STRING) is True:
        for other in (_PRESERVE, _EMBEDDED):
            if schema.get(other) is True:
                yield (other,), f"must not be true with {_INT_OR_STRING}"
    if schema.get(_EMBEDDED) is True:
        if schema.get("additionalProperties") is not None:
            yield ("additionalProperties",), f"must not be used with {_EMBEDDED}"
        if schema.get(_PRESERVE) is not True and not schema.get("properties"):
            yield ("properties",), f"must be specified unless {_PRESERVE} is true"
    if _MAP_TYPE in schema and schema[_MAP_TYPE] is not None:
        yield from _map_problems(schema)
    yield from _list_problems(schema)
    yield from _validation_problems(schema)


def _map_problems(schema: Schema) -> Iterator[tuple[FieldPath, str]]:
    if schema.get("type") != "object":
        yield ("type",), f"must be object with {_MAP_TYPE}"
    if schema[_MAP_TYPE] not in ("atomic", "granular"):
        yield (_MAP_TYPE,), f"is {schema[_MAP_TYPE]!r}, not atomic or granular"


def _list_problems(schema: Schema) -> Iterator[tuple[FieldPath, str]]:
    kind, keys = schema.get(_LIST_TYPE), items(schema.get(_LIST_KEYS))
    if kind is None:
        if keys:
            yield (_LIST_KEYS,), f"requires {_LIST_TYPE}: map"
        return
    if schema.get("type") != "array":
        yield ("type",), f"must be array with {_LIST_TYPE}"
    if kind not in ("atomic", "set", "map"):
        yield (_LIST_TYPE,), f"is {kind!r}, not one of atomic, map and set"
    elif keys and kind != "map":
        yield (_LIST_TYPE,), f"is {kind!r}, but {_LIST_KEYS} requires map"
    item = mapping(schema.get("items"))
    if kind in ("set", "map") and item.get("nullable") is True:
        yield ("items", "nullable"), f"must not be true for a list of type {kind}"
    if kind == "set":
        yield from _set_problems(schema, item)
    elif kind == "map":
        yield from _map_list_problems(schema, item, keys)


def _set_problems(schema: Schema, item: Schema) -> Iterator[tuple[FieldPath, str]]:
    if schema.get("type") != "array":
        return
    if item.get("type") == "array" and item.get(_LIST_TYPE) not in (None, "atomic"):
        yield ("items", _LIST_TYPE), "must be atomic in a set"
    if item.get("type") == "object" and item.get(_MAP_TYPE) != "atomic":
        yield ("items", _MAP_TYPE), "must be atomic in a set"


def _map_list_problems(schema: Schema, item: Schema, keys: list[Any]) -> Iterator[tuple[FieldPath, str]]:
    """Yield the problems of a list of type map, whose items are identified by key fields."""
    if not keys:
        yield (_LIST_KEYS,), "must name the keys of a list of type map"
    if not isinstance(schema.get("items"), dict):
        yield ("items",), "must be a schema in a list of type map"
        return
    if item.get("type") != "object":
        yield ("items", "type"), "must be object in a list of type map"
        return
    properties = mapping(item.get("properties"))
    required = {name for name in items(item.get("required")) if isinstance(name, str)}
    seen: set[str] = set()
    for number, key in enumerate(map(text, keys)):
        key_schema = mapping(properties.get(key))
        key_path = ("items", "properties", key)
        if key not in properties:
            yield (_LIST_KEYS, number), f"is {key!r}, which is not a field of the items"
        elif key_schema.get("type") in ("array", "object"):
            yield (*key_path, "type"), f"is {key_schema['type']!r}, which is not allowed for keys"
        if key in seen:
            yield (_LIST_KEYS, number), f"is {key!r}, which is listed twice"
        seen.add(key)
        if key in properties and key not in required and key_schema.get("default") is None:
            yield key_path, "is a key of the list, so it must be required or have a default"
        if key_schema.get("nullable") is True:
            yield (*key_path, "nullable"), "must not be true for a key of the list"


def _validation_problems(schema: Schema) -> Iterator[tuple[FieldPath, str]]:
    for number, validation in enumerate(items(schema.get(_VALIDATIONS))):
        expression, message = text(mapping(validation).get("rule")).strip(), text(mapping(validation).get("message"))
        path: FieldPath = (_VALIDATIONS, number)
        if not expression:
            yield (*path, "rule"), "is empty"
        elif message and not message.strip():
            yield (*path, "message"), "is blank"
        elif re.search(r"[\r\n]", message.strip()):
            yield (*path, "message"), "has a line break"
        elif re.search(r"[\r\n]", expression) and not message.strip():
            yield (*path, "message"), "is missing, but the rule has a line break"


_IS_TYPE: Mapping[str, Callable[[object], bool]] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and float(value).is_integer(),  # type: ignore[arg-type]
    "number": lambda value: _is_number(value),
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}
_MAX_VALUE_DEPTH = 50
_MAX_VALUES = 10_000


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def default_problem(schema: Mapping[str, Any]) -> str:
    """Return why the default of a schema is invalid, as a predicate; "" if it is valid or absent."""
    default = schema.get("default")
    return "" if default is None else _DefaultChecker().problem(default, schema, "", 0)


class _DefaultChecker:
    """Validates a value against a schema, up to a limit of depth and size.

    Fields are unknown if the API server prunes them: package pruning of k8s.io/apiextensions-apiserver.
    """

    def __init__(self) -> None:
        self._count = 0

    def problem(
        self, value: object, schema: Mapping[str, Any], location: str, depth: int, *, preserves: bool = False
    ) -> str:
        """Return the first problem of a value; ``location`` is its path in the default.

        ``preserves`` is True for the items of a list whose schema preserves unknown fields.
        """
        self._count += 1
        if depth > _MAX_VALUE_DEPTH or self._count > _MAX_VALUES or value is None:
            return ""
        if problem := _scalar_problem(value, schema):
            return f"has{f' at {location}' if location else ''} {problem}"
        preserves = preserves or schema.get(_PRESERVE) is True
        if isinstance(value, dict):
            return self._object_problem(value, schema, location, depth, preserves=preserves)
        if isinstance(value, list):
            item_schema = mapping(schema.get("items"))
            problems = (
                self.problem(item, item_schema, f"{location}[{number}]", depth + 1, preserves=preserves)
                for number, item in enumerate(value)
            )
            return next(filter(None, problems), "")
        return ""

    def _object_problem(
        self, value: dict[str, Any], schema: Mapping[str, Any], location: str, depth: int, *, preserves: bool
    ) -> str:
        missing = [name for name in items(schema.get("required")) if isinstance(name, str) and name not in value]
        if missing:
            return f"lacks the required field {f'{location}.{missing[0]}'.lstrip('.')}"
        properties, others = mapping(schema.get("properties")), schema.get("additionalProperties")
        is_embedded = schema.get(_EMBEDDED) is True
        for name, member in value.items():
            member_location = f"{location}.{name}".lstrip(".")
            member_schema = properties.get(name, others if isinstance(others, dict) else None)
            if is_embedded and name in _META:
                if not _IS_TYPE[_META_TYPES[name]](member):
                    return f"has at {member_location} a value that is not of type {_META_TYPES[name]}"
                continue
            if member_schema is None and preserves:
                continue  # with everything in it
            if member_schema is None and others in (None, False):
                return f"has the field {member_location}, which the schema does not specify"
            if problem := self.problem(member, mapping(member_schema), member_location, depth + 1):
                return problem
        return ""


def _scalar_problem(value: object, schema: Mapping[str, Any]) -> str:
    """Return how a value violates the type or the enum of a schema, or "" if it does not."""
    kind, allowed = text(schema.get("type")), items(schema.get("enum"))
    if schema.get("x-kubernetes-int-or-string") is True:
        is_valid = _IS_TYPE["integer"](value) or isinstance(value, str)
        return "" if is_valid else "a value that is not an integer or a string"
    if kind in _IS_TYPE and not _IS_TYPE[kind](value):
        return f"a value that is not of type {kind}"
    if allowed and not any(isinstance(item, bool) is isinstance(value, bool) and item == value for item in allowed):
        return "a value that is not in the enum"
    return ""
