"""Our own rules for the APIs that an operator owns: their entries, descriptors and examples."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from opmkit.bundle.field_path import format_path
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.lenient import items, mapping, members, text
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.crd_view import Crd, known_crds
from opmkit.bundle.validation.csv_view import OWNED_CRDS, Csv, csv_check
from opmkit.bundle.validation.examples import Examples
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.csv_view import Entry

VALIDATOR = "opmkit"

_PARTS = {"specDescriptors": "spec", "statusDescriptors": "status"}
_STEP = re.compile(r"\.?(?:([^.\[\]]+)|\[(?:\d+|\*)?\])")
_KEPT = "x-kubernetes-preserve-unknown-fields"
_EITHER = ("allOf", "anyOf", "oneOf")


@rule(
    "CSV-OWNED-DUPLICATE",
    VALIDATOR,
    Severity.WARNING,
    "an API is listed twice",
    hint="Keep one entry for each API, under owned if the operator brings its CRD.",
    bad="""owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]
required: [{name: demos.demo.example.com, version: v1, kind: Demo}]""",
    good="owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def owned_duplicate(csv: Csv) -> Iterator[Finding]:
    """What is owned need not be required; of two entries for one API, consoles show one."""
    seen: set[tuple[str, str, str]] = set()
    for side in ("owned", "required"):
        for path, entry in csv.entries((*OWNED_CRDS[:-1], side)):
            name, version, kind = (entry.get(field, "") for field in ("name", "version", "kind"))
            if (name, version, kind) in seen:
                yield Finding(
                    f"{name}, version {version}, kind {kind}, is listed before already", path=path, subject=name
                )
            seen.add((name, version, kind))


@rule(
    "CSV-EXAMPLES-DUPLICATE",
    VALIDATOR,
    Severity.WARNING,
    "two examples are of the same object",
    hint="Give each example of an API another metadata.name, or keep one.",
    bad="""alm-examples: '[{"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "a"}},
  {"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "a"}}]'""",
    good="""alm-examples: '[{"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "a"}},
  {"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "b"}}]'""",
    compat=OPMKIT_ONLY,
)
@csv_check
def examples_duplicate(csv: Csv) -> Iterator[Finding]:
    """Who creates all examples gets an error at the second."""
    examples = Examples.of(csv)
    seen: set[tuple[object, str, str]] = set()
    for api, example in examples.objects:
        metadata = mapping(example.get("metadata"))
        name = text(metadata.get("name"))
        key = (api, text(metadata.get("namespace")), name)
        if name and key in seen:
            yield Finding(f"there is an example {name!r} of {api} already", path=examples.path, subject=name)
        seen.add(key)


def _descriptors(csv: Csv) -> Iterator[tuple[str, Mapping[str, Any], Entry]]:
    """The descriptors of owned CRDs: the part of objects that one is of, the entry of its CRD, its path, and itself."""
    for path, entry in csv.entries(OWNED_CRDS):
        for kind, part in _PARTS.items():
            for one in members(entry.get(kind), (*path, kind)):
                yield part, entry, one


@rule(
    "CSV-DESCRIPTOR-DUPLICATE",
    VALIDATOR,
    Severity.WARNING,
    "two descriptors are of the same field",
    hint="Keep one descriptor for each path, with all of its x-descriptors.",
    bad="specDescriptors: [{path: size, displayName: Size}, {path: size, displayName: Count}]",
    good="specDescriptors: [{path: size, displayName: Size}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def descriptor_duplicate(csv: Csv) -> Iterator[Finding]:
    """Consoles show a field once, and which of the two descriptors holds is left to them."""
    seen: set[tuple[int, str, str]] = set()
    for part, entry, (path, descriptor) in _descriptors(csv):
        field = descriptor.get("path", "")
        if (id(entry), part, field) in seen:
            yield Finding(f"there is a descriptor of {part}.{field} already", path=path, subject=field)
        seen.add((id(entry), part, field))


@rule(
    "CSV-DESCRIPTOR-PATH",
    VALIDATOR,
    Severity.WARNING,
    "a descriptor is of a field that the CRD does not have",
    hint="Write the path from spec or status on, without that word: pod.resources, users[0].name.",
    bad="specDescriptors: [{path: spec.size}]",
    good="specDescriptors: [{path: size}]",
    compat=OPMKIT_ONLY,
)
def descriptor_path(bundle: BundleView) -> Iterator[Finding]:
    """Consoles find the field to show by this path in the schema of the CRD, and show nothing if it leads nowhere."""
    csv = Csv.from_bundle(bundle)
    if csv is None or bundle.csv is None:
        return
    schemas = dict(_schemas(bundle))
    for part, entry, (path, descriptor) in _descriptors(csv):
        schema = schemas.get((entry.get("name", ""), entry.get("version", "")))
        field = descriptor.get("path", "")
        if schema is not None and not csv.decoded.has_mismatch(*path, "path") and not _leads(schema, f"{part}.{field}"):
            where = f"{part}.{field}" if field else "an empty path"
            message = f"{format_path(path)} is of {where}, which the CRD {entry['name']} does not have"
            yield Finding(message, bundle.csv.path, (*path, "path"), subject=field)


def _schemas(bundle: BundleView) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    """The schemas of the CRDs, by name and version."""
    for manifest in known_crds(bundle):
        crd = Crd.from_manifest(manifest)
        if crd.preserves_unknown_fields:
            continue
        for version in crd.versions:
            own = version.at("schema", "openAPIV3Schema")
            schema = own if own.present else crd.spec.at("validation", "openAPIV3Schema")
            if mapping(schema.value):
                yield (manifest.object_name, version.child("name").text), mapping(schema.value)


def _leads(schema: Mapping[str, Any], path: str) -> bool:
    """Whether a schema knows, or leaves open, what a path leads to. Lists may be entered without an index."""
    steps = list(_STEP.finditer(path))
    if sum(len(step.group()) for step in steps) != len(path) or path.endswith("."):
        return "'" in path or '"' in path  # quoted names are not looked at
    for step in steps:
        name = step.group(1)
        while name and schema.get("type") == "array":
            schema = mapping(schema.get("items"))
        inner = _member(schema, name) if name else schema.get("items")
        if inner is None:
            return False
        schema = mapping(inner)
        if not schema:
            return True
    return True


def _member(schema: Mapping[str, Any], name: str) -> object:
    """The schema of a member, {} where any is allowed, None if there is no such member."""
    properties, others = mapping(schema.get("properties")), schema.get("additionalProperties")
    if name in properties:
        return properties[name] or {}
    if others not in (None, False):
        return others if isinstance(others, dict) else {}
    open_ended = schema.get(_KEPT) or any(items(schema.get(word)) for word in _EITHER)
    return {} if open_ended or not schema else None
