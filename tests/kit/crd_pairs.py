"""Random CustomResourceDefinitions and changed copies of them, for comparisons with OLM v1."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

Schema = dict[str, Any]
NAMES = ("size", "mode", "image", "paused", "ports", "labels", "storage", "template")
TYPES = ("string", "integer", "number", "boolean", "object", "array")
VERSIONS = ("v1alpha1", "v1beta1", "v1", "v2", "next")
VALUES: dict[str, Callable[[random.Random], object]] = {
    "default": lambda rng: rng.choice((0, 1, True, False, "", "a", 1.5, 2.0, [], [1, "b"], {}, {"a": {"b": 1}}, "<&>")),
    "description": lambda rng: rng.choice(("", "text", "other\ntext")),
    "enum": lambda rng: rng.sample(("a", "b", 1, 1.5, True, "é"), rng.randint(0, 4)),
    "exclusiveMinimum": lambda rng: rng.random() < 0.5,
    "externalDocs": lambda rng: {"url": rng.choice(("https://a", "https://b"))},
    "format": lambda rng: rng.choice(("", "int32", "int64", "date-time")),
    "maxItems": lambda rng: rng.randint(0, 5),
    "maxLength": lambda rng: rng.randint(0, 5),
    "maxProperties": lambda rng: rng.randint(0, 5),
    "maximum": lambda rng: rng.choice((-1, 0, 1, 2.0, 2.5, 1e21)),
    "minItems": lambda rng: rng.randint(0, 5),
    "minLength": lambda rng: rng.randint(0, 5),
    "minProperties": lambda rng: rng.randint(0, 5),
    "minimum": lambda rng: rng.choice((-1, 0, 1, 2.0, 2.5, 1e-7)),
    "multipleOf": lambda rng: rng.choice((1, 2, 0.5)),
    "nullable": lambda rng: rng.random() < 0.5,
    "pattern": lambda rng: rng.choice(("", "^a$", "^b*$")),
    "required": lambda rng: rng.sample(NAMES, rng.randint(0, 2)),
    "title": lambda rng: rng.choice(("", "A", "B")),
    "type": lambda rng: rng.choice(TYPES),
    "uniqueItems": lambda rng: rng.random() < 0.5,
    "x-kubernetes-int-or-string": lambda rng: rng.random() < 0.5,
    "x-kubernetes-list-map-keys": lambda rng: rng.sample(NAMES, rng.randint(0, 2)),
    "x-kubernetes-list-type": lambda rng: rng.choice(("atomic", "set", "map")),
    "x-kubernetes-preserve-unknown-fields": lambda rng: rng.random() < 0.5,
    "x-kubernetes-validations": lambda rng: [{"rule": rng.choice(("self > 0", "self < 9")), "message": "no"}],
    "unknown": lambda rng: rng.random(),
}
"""Random values of the keywords that contain no schemas."""


def random_pair(rng: random.Random) -> tuple[Schema, Schema]:
    """Return a definition and a changed copy of it."""
    names = rng.sample(VERSIONS, rng.randint(1, 3))
    schema = random_schema(rng, 3)
    versions = [random_version(rng, name, changed(rng, schema, rng.randint(0, 2))) for name in names]
    old: Schema = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "demos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Demo", "plural": "demos"},
            "versions": versions,
        },
        "status": {"storedVersions": rng.sample(names, rng.randint(0, len(names)))},
    }
    new = copy.deepcopy(old)
    _change_definition(rng, new["spec"])
    for version in new["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"] = changed(rng, version["schema"]["openAPIV3Schema"], rng.randint(0, 3))
    return old, new


def random_version(rng: random.Random, name: str, schema: Schema) -> Schema:
    """Return a version with a schema."""
    return {"name": name, "served": rng.random() < 0.8, "storage": False, "schema": {"openAPIV3Schema": schema}}


def _change_definition(rng: random.Random, spec: Schema) -> None:
    """Change the definition around its schemas, now and then."""
    versions: list[Schema] = spec["versions"]
    if rng.random() < 0.1:
        spec["scope"] = "Cluster"
    if rng.random() < 0.1:
        spec["conversion"] = {"strategy": rng.choice(("None", "Webhook"))}
    if rng.random() < 0.15 and len(versions) > 1:
        versions.pop(rng.randrange(len(versions)))
    if rng.random() < 0.15:
        unused = sorted(set(VERSIONS) - {version["name"] for version in versions})
        versions.append(random_version(rng, rng.choice(unused), random_schema(rng, 2)))
    if rng.random() < 0.15:
        rng.choice(versions)["served"] = rng.random() < 0.5


def random_schema(rng: random.Random, depth: int) -> Schema:
    """Return a schema with up to this depth of schemas in it."""
    schema: Schema = {name: VALUES[name](rng) for name in rng.sample(sorted(VALUES), rng.randint(0, 4))}
    schema["type"] = rng.choice(TYPES)
    if depth and rng.random() < 0.7:
        add_schemas(rng, schema, depth)
    return schema


def add_schemas(rng: random.Random, schema: Schema, depth: int) -> None:
    """Add a keyword with schemas."""
    keyword = rng.choice(
        ("properties",) * 4
        + ("items", "additionalProperties", "not", "allOf", "anyOf", "oneOf", "patternProperties", "dependencies")
        + ("definitions", "additionalItems")
    )
    if keyword in ("properties", "patternProperties", "definitions", "dependencies"):
        names = rng.sample(NAMES, rng.randint(1, 3))
        schema[keyword] = {name: random_schema(rng, depth - 1) for name in names}
    elif keyword in ("allOf", "anyOf", "oneOf"):
        schema[keyword] = [random_schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    elif keyword.startswith("additional") and rng.random() < 0.3:
        schema[keyword] = rng.random() < 0.5
    else:
        schema[keyword] = random_schema(rng, depth - 1)


def changed(rng: random.Random, schema: Schema, count: int) -> Schema:
    """Return a copy of a schema with some random changes."""
    result = copy.deepcopy(schema)
    for _ in range(count):
        target = rng.choice(list(schemas(result)))
        if rng.random() < 0.2:
            add_schemas(rng, target, 2)
        elif rng.random() < 0.3 and target:
            target.pop(rng.choice(sorted(target)))
        elif rng.random() < 0.2 and target.get("properties"):
            target["properties"].pop(rng.choice(sorted(target["properties"])))
        else:
            name = rng.choice(sorted(VALUES))
            target[name] = VALUES[name](rng)
    return result


def schemas(schema: Schema) -> Iterator[Schema]:
    """Yield a schema and all schemas in it."""
    yield schema
    for keyword, value in schema.items():
        if keyword in ("properties", "patternProperties", "definitions", "dependencies"):
            members = list(value.values())
        else:
            members = value if keyword in ("allOf", "anyOf", "oneOf") else [value]
        if keyword not in VALUES:
            for member in members:
                if isinstance(member, dict):
                    yield from schemas(member)
