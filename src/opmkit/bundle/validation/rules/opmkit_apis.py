"""Rules of the validator ``opmkit``: owned APIs, their descriptors and examples."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.crd_view import Crd, known_crds
from opmkit.bundle.validation.csv_view import METADATA, OWNED_CRDS, Csv, Examples, ExamplesMetadata, csv_check
from opmkit.bundle.validation.rule import rule
from opmkit.documents.fields import format_path
from opmkit.documents.lenient import items, mapping, members, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.csv_view import Entry
    from opmkit.documents.fields import FieldPath

VALIDATOR = "opmkit"

_METADATA_PATH: FieldPath = ("metadata", "annotations", METADATA)
_PARTS = {"specDescriptors": "spec", "statusDescriptors": "status"}
_STEP = re.compile(r"\.?(?:([^.\[\]]+)|\[(?:\d+|\*)?\])")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_JUNCTORS = ("allOf", "anyOf", "oneOf")


@rule(
    "CSV-OWNED-DUPLICATE",
    VALIDATOR,
    Severity.WARNING,
    "duplicate API",
    hint="Keep one entry for each API, in owned if the bundle contains its CRD.",
    bad="""owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]
required: [{name: demos.demo.example.com, version: v1, kind: Demo}]""",
    good="owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def owned_duplicate(csv: Csv) -> Iterator[Finding]:
    """Owned APIs do not need to be required, and consoles show only one of two entries for an API."""
    seen: set[tuple[str, str, str]] = set()
    for side in ("owned", "required"):
        for path, entry in csv.entries((*OWNED_CRDS[:-1], side)):
            name, version, kind = (entry.get(field, "") for field in ("name", "version", "kind"))
            if (name, version, kind) in seen:
                yield Finding(f"{name}, version {version}, kind {kind} is listed twice", path=path, subject=name)
            seen.add((name, version, kind))


@rule(
    "CSV-EXAMPLES-DUPLICATE",
    VALIDATOR,
    Severity.WARNING,
    "duplicate example",
    hint="Give each example of an API a different metadata.name, or keep only one.",
    bad="""alm-examples: '[{"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "a"}},
  {"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "a"}}]'""",
    good="""alm-examples: '[{"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "a"}},
  {"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "b"}}]'""",
    compat=OPMKIT_ONLY,
)
@csv_check
def examples_duplicate(csv: Csv) -> Iterator[Finding]:
    """Creating all examples fails at the second one."""
    examples = Examples.from_csv(csv)
    seen: set[tuple[object, str, str]] = set()
    for api, example in examples.objects:
        metadata = mapping(example.get("metadata"))
        name = text(metadata.get("name"))
        key = (api, text(metadata.get("namespace")), name)
        if name and key in seen:
            yield Finding(f"example {name!r} of {api} is listed twice", path=examples.path, subject=name)
        seen.add(key)


@rule(
    "CSV-EXAMPLES-METADATA",
    VALIDATOR,
    Severity.WARNING,
    "invalid annotation alm-examples-metadata",
    hint='Write a JSON object of examples by metadata.name: {"example": {"description": "A small demo."}}.',
    bad="""alm-examples-metadata: '[{"name": "example", "description": "A small demo."}]'""",
    good="""alm-examples-metadata: '{"example": {"description": "A small demo."}}'""",
    compat=OPMKIT_ONLY,
)
@csv_check
def examples_metadata(csv: Csv) -> Iterator[Finding]:
    """Consoles describe the examples of alm-examples with this annotation, and ignore it if it is invalid."""
    for problem in ExamplesMetadata.from_csv(csv).problems:
        yield Finding(f"invalid {METADATA}: {problem}", path=_METADATA_PATH, subject=METADATA)


@rule(
    "CSV-EXAMPLES-METADATA-UNKNOWN",
    VALIDATOR,
    Severity.WARNING,
    "description of an example that does not exist",
    hint="Write the metadata.name of an object in the annotation alm-examples, or remove the entry.",
    bad="""alm-examples: '[{"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "example"}}]'
alm-examples-metadata: '{"exampel": {"description": "A small demo."}}'""",
    good="""alm-examples: '[{"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "example"}}]'
alm-examples-metadata: '{"example": {"description": "A small demo."}}'""",
    compat=OPMKIT_ONLY,
)
@csv_check
def examples_metadata_unknown(csv: Csv) -> Iterator[Finding]:
    """Entries are matched by the name of the example."""
    examples = Examples.from_csv(csv)
    if examples.json_error or examples.problems:
        return
    known = {text(mapping(example.get("metadata")).get("name")) for _, example in examples.objects}
    for name in ExamplesMetadata.from_csv(csv).names:
        if name not in known:
            message = f"{METADATA} describes {name!r}, which is not the name of an example"
            yield Finding(message, path=_METADATA_PATH, subject=name)


def _descriptors(csv: Csv) -> Iterator[tuple[str, Mapping[str, Any], Entry]]:
    """Yield the descriptors of owned CRDs: ``spec`` or ``status``, the entry of the CRD, and path and descriptor."""
    for path, entry in csv.entries(OWNED_CRDS):
        for kind, part in _PARTS.items():
            for descriptor in members(entry.get(kind), (*path, kind)):
                yield part, entry, descriptor


@rule(
    "CSV-DESCRIPTOR-DUPLICATE",
    VALIDATOR,
    Severity.WARNING,
    "duplicate descriptor",
    hint="Keep one descriptor for each path, with all x-descriptors.",
    bad="specDescriptors: [{path: size, displayName: Size}, {path: size, displayName: Count}]",
    good="specDescriptors: [{path: size, displayName: Size}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def descriptor_duplicate(csv: Csv) -> Iterator[Finding]:
    """Consoles show each field once, and which of the descriptors they use is undefined."""
    seen: set[tuple[int, str, str]] = set()
    for part, entry, (path, descriptor) in _descriptors(csv):
        field = descriptor.get("path", "")
        if (id(entry), part, field) in seen:
            yield Finding(f"descriptor of {part}.{field} is listed twice", path=path, subject=field)
        seen.add((id(entry), part, field))


@rule(
    "CSV-DESCRIPTOR-PATH",
    VALIDATOR,
    Severity.WARNING,
    "a descriptor of a field that does not exist in the CRD",
    hint="Write the path relative to spec or status: pod.resources, users[0].name.",
    bad="specDescriptors: [{path: spec.size}]",
    good="specDescriptors: [{path: size}]",
    compat=OPMKIT_ONLY,
)
def descriptor_path(bundle: BundleView) -> Iterator[Finding]:
    """Consoles look up the field by this path in the schema of the CRD and show nothing if it does not exist."""
    csv = Csv.from_bundle(bundle)
    if csv is None or bundle.csv is None:
        return
    schemas = dict(_schemas(bundle))
    for part, entry, (path, descriptor) in _descriptors(csv):
        schema = schemas.get((entry.get("name", ""), entry.get("version", "")))
        if schema is None or csv.decoded.has_mismatch(*path, "path"):
            continue
        field = descriptor.get("path", "")
        if not _has_path(schema, f"{part}.{field}"):
            target = f"{part}.{field}" if field else "an empty path"
            message = f"{format_path(path)} is of {target}, which does not exist in CRD {entry['name']}"
            yield Finding(message, bundle.csv.path, (*path, "path"), subject=field)


def _schemas(bundle: BundleView) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    """Yield the schemas of the CRDs by name and version."""
    for manifest in known_crds(bundle):
        crd = Crd.from_manifest(manifest)
        if crd.preserves_unknown_fields:
            continue
        for version in crd.versions:
            own = version.at("schema", "openAPIV3Schema")
            schema = own if own.present else crd.spec.at("validation", "openAPIV3Schema")
            if mapping(schema.value):
                yield (manifest.object_name, version.child("name").text), mapping(schema.value)


def _has_path(schema: Mapping[str, Any], path: str) -> bool:
    """Return True if the schema specifies or allows the value at a path, in which indexes of lists are optional."""
    steps = list(_STEP.finditer(path))
    if sum(len(step.group()) for step in steps) != len(path) or path.endswith("."):
        return "'" in path or '"' in path  # quoted names are not checked
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
    """Return the schema of a member, {} if it allows any value, None if there is no such member."""
    properties, others = mapping(schema.get("properties")), schema.get("additionalProperties")
    if name in properties:
        return properties[name] or {}
    if others not in (None, False):
        return others if isinstance(others, dict) else {}
    open_ended = schema.get(_PRESERVE) or any(items(schema.get(word)) for word in _JUNCTORS)
    return {} if open_ended or not schema else None
