"""Descriptions of owned CRDs in a ClusterServiceVersion, from the markers and comments of Go API types."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.author.project.base import display_name, plural
from opmkit.author.project.markers import CSV_MARKER, RESOURCE_MARKER
from opmkit.author.project.project_file import GroupVersionKind
from opmkit.bundle.errors import InvalidProject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from opmkit.author.project.go_source import GoField, GoPackage, GoType, TypeName
    from opmkit.documents.json_value import JsonValue

MAX_FIELDS = 100_000
"""Maximum number of fields, by path, below the spec or the status of a type."""

_KUBE_VERSION = re.compile(r"v(\d{1,9})(?:(alpha|beta)(\d{1,9}))?")
_STABILITY = {"alpha": 2, "beta": 1, None: 0}
_INLINED = ""


class CrdDescription(Struct, frozen=True):
    """An entry of ``spec.customresourcedefinitions.owned``, and its position: lower ones are first.

    ``warnings`` name what it lacks.
    """

    api: GroupVersionKind
    value: dict[str, JsonValue]
    order: float
    warnings: tuple[str, ...] = ()


def describe_apis(
    packages: Mapping[str, GoPackage], apis: Iterable[GroupVersionKind]
) -> dict[GroupVersionKind, CrdDescription | None]:
    """Return the description of each API, None if no package declares its type.

    Raises:
        InvalidProject: A marker of the type is invalid.
    """
    sources = {
        GroupVersionKind(package.group, package.version, name): (package, *source)
        for package in packages.values()
        if package.group
        for name, source in package.types.items()
    }
    return {api: _describe(api, packages, *sources[api]) if api in sources else None for api in apis}


def merge_owned(owned: Sequence[JsonValue], descriptions: Iterable[CrdDescription]) -> list[JsonValue]:
    """Return the owned CRDs with new descriptions: others retain their index as their order."""
    buckets: defaultdict[float, list[JsonValue]] = defaultdict(list)
    described = {description.api for description in descriptions}
    for description in sorted(descriptions, key=_description_key):
        buckets[description.order].append(description.value)
    for index, value in enumerate(owned):
        if not isinstance(value, dict) or _api_of(value) not in described:
            buckets[index].append(value)
    return [value for order in sorted(buckets) for value in buckets[order]]


def _api_of(value: Mapping[str, JsonValue]) -> GroupVersionKind:
    name, version, kind = (str(value.get(field) or "") for field in ("name", "version", "kind"))
    return GroupVersionKind(name.partition(".")[2] or name, version, kind)


def _description_key(description: CrdDescription) -> tuple[object, ...]:
    value = description.value
    return value["name"], value["kind"], _version_key(str(value["version"]))


def _version_key(version: str) -> tuple[int, int, int, int, str]:
    """Return a key that sorts v2, v1, v1beta1, v1alpha1, other."""
    match = _KUBE_VERSION.fullmatch(version)
    if not match:
        return 1, 0, 0, 0, version
    major, stability, minor = match.groups()
    return 0, _STABILITY[stability], -int(major), -int(minor or 0), ""


def _describe(
    api: GroupVersionKind, packages: Mapping[str, GoPackage], package: GoPackage, file: Path, declared: GoType
) -> CrdDescription:
    markers = [marker.values for marker in declared.markers if marker.name == CSV_MARKER]
    plurals = [marker.values.get("path") for marker in declared.markers if marker.name == RESOURCE_MARKER]
    names = [name for name in plurals if name] or [plural(api.kind.lower())]
    resources = [resource for values in markers for resource in values.get("resources", ())]
    lookup = _Lookup(package, packages)
    value = {
        "description": declared.doc,
        "displayName": _last(markers, "displayName", display_name(api.kind)),
        "kind": api.kind,
        "name": f"{names[-1]}.{api.group}",
        "resources": _resources(resources, file, declared),
        "specDescriptors": _descriptors("spec", lookup, file, declared),
        "statusDescriptors": _descriptors("status", lookup, file, declared),
        "version": api.version,
    }
    required = ("kind", "name", "version")
    order = _last([{"order": math.inf}, *markers], "order", math.inf)
    present = {key: item for key, item in value.items() if item or key in required}
    return CrdDescription(api, present, order, tuple(f"{api}: {problem}" for problem in lookup.ambiguous))


def _last(markers: Sequence[Mapping[str, Any]], name: str, default: Any) -> Any:
    """Return the last value of an argument that is not an empty string."""
    values = [values[name] for values in markers if values.get(name, "") != ""]
    return values[-1] if values else default


def _resources(resources: Iterable[Sequence[str]], file: Path, declared: GoType) -> list[JsonValue]:
    values = []
    for resource in resources:
        if len(resource) < 2:
            raise InvalidProject(
                f"{file}: type {declared.name}: invalid marker {CSV_MARKER}: {list(resource)} has no version",
                hint="write each resource as {kind,version,name}",
            )
        kind, version, name = (part.strip() for part in (*resource[:3], "")[:3])
        values.append({"kind": kind, "name": name if len(resource) == 3 else "", "version": version})
    values.sort(key=lambda value: (value["name"], value["kind"], _version_key(value["version"])))
    return [dict(value) for value in values]


class _Lookup:
    """The types that the fields of an API refer to, and the imports that are ambiguous."""

    def __init__(self, package: GoPackage, packages: Mapping[str, GoPackage]) -> None:
        self._package, self._packages = package, packages
        self.ambiguous: dict[str, None] = {}

    def find(self, file: Path, name: TypeName) -> tuple[tuple[str, str], tuple[Path, GoType]] | None:
        """Return import path and name of a type, and its declaration; None if it is not in the loaded packages."""
        path = self._package.import_path(file, name, self._packages)
        if not path:
            self._report(name)
        declared = self._packages[path].types.get(name.name) if path in self._packages else None
        return ((path, name.name), declared) if declared else None

    def _report(self, name: TypeName) -> None:
        """Remember an import whose package several files name, if that loses descriptors."""
        imports = self._package.imports(name, self._packages)
        found = [self._packages[path] for _, path in imports if path in self._packages]
        if any(package.types.get(name.name) and package.has_marker(CSV_MARKER) for package in found):
            importers = ", ".join(str(importer) for importer, _ in imports)
            self.ambiguous[
                f"{name.package}.{name.name} is ambiguous, so descriptors of its fields are missing: "
                f"{name.package} is imported by {importers}"
            ] = None


def _descriptors(kind: str, lookup: _Lookup, file: Path, declared: GoType) -> list[JsonValue]:
    """Return the spec or status descriptors of a type: of each marked field below its spec or status."""
    roots = [field for field in declared.fields if _tag_parts(field)[0] == kind]
    found = []
    for field, path in _fields_below(roots[0], lookup, file) if roots else ():
        markers = [m.values for m in field.markers if m.name == CSV_MARKER and m.values.get("type") == kind]
        if not markers or not path:
            continue
        names = [values["displayName"] for values in markers if values.get("displayName")]
        value = {
            "description": field.doc,
            "displayName": names[0] if names else display_name(field.name),
            "path": path,
            "x-descriptors": [descriptor for values in markers for descriptor in values.get("xDescriptors", ())],
        }
        order = _last(markers, "order", math.inf)
        found.append((order, path, {key: item for key, item in value.items() if item}))
    found.sort(key=lambda entry: entry[:2])
    return [value for _, _, value in found]


def _fields_below(root: GoField, lookup: _Lookup, file: Path) -> Iterator[tuple[GoField, str]]:
    """Yield the fields of the structs in the type of a field, and of those in their types, with their paths.

    The path is "" for embedded fields. As in operator-sdk, types are looked up in the package and the imports of the
    API, even those in structs of another package. Recursive types end at their first repetition.

    Raises:
        InvalidProject: There are more than MAX_FIELDS fields.
    """
    pending: list[tuple[GoField, Path, tuple[str, ...], frozenset[tuple[str, str]]]] = [(root, file, (), frozenset())]
    number = 0
    for field, source, segments, parents in pending:
        for reference in field.references:
            found = lookup.find(source, reference)
            if not found or found[0] in parents:
                continue
            identity, declared = found
            for member in declared[1].fields:
                segment = _segment(member)
                if segment is None:
                    continue
                number += 1
                if number > MAX_FIELDS:
                    raise InvalidProject(f"{file}: more than {MAX_FIELDS} fields below {root.name}")
                path = (*segments, segment)
                pending.append((member, declared[0], path, parents | {identity}))
                yield member, _format_path(path)


def _segment(field: GoField) -> str | None:
    """Return the part of a path that stands for a field, None if it is not serialized."""
    if not field.name:
        return _INLINED
    if field.name[0].islower():
        return None
    name, options = _tag_parts(field)
    if "inline" in options:
        return _INLINED
    if name == "-" and not options:
        return None
    return (name or field.name) + ("[0]" if field.is_list else "")


def _tag_parts(field: GoField) -> tuple[str, list[str]]:
    name, *options = field.tags.get("json", "").split(",")
    return name, options


def _format_path(segments: Sequence[str]) -> str:
    """Join the parts of a path; return "" if the last one is that of an embedded field."""
    if segments[-1] == _INLINED:
        return ""
    *parents, last = segments
    return ".".join([*filter(None, parents), last.removesuffix("[0]")])
