"""ClusterServiceVersions as rules see them: decoded into their API types, with their example objects."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import orjson
from msgspec import Struct

from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.loading import decode_csv
from opmkit.bundle.validation.object_metadata import Gvk, crd_group
from opmkit.documents.json_value import replace_lone_surrogates
from opmkit.documents.lenient import mapping, members, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import NoReturn

    from opmkit.bundle.api_types.decode import Decoded, DecodeMode
    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.rule import Check
    from opmkit.documents.content import Content
    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue

    Entry: TypeAlias = tuple[FieldPath, Mapping[str, Any]]
    """A mapping in a list of the ClusterServiceVersion, with its path."""


OWNED_CRDS: FieldPath = ("spec", "customresourcedefinitions", "owned")
OWNED_SERVICES: FieldPath = ("spec", "apiservicedefinitions", "owned")
DEPLOYMENTS: FieldPath = ("spec", "install", "spec", "deployments")
RELATED_IMAGES: FieldPath = ("spec", "relatedImages")
POD: FieldPath = ("spec", "template", "spec")
"""The path of the pod in a deployment."""


class Csv(Struct, frozen=True):
    """A ClusterServiceVersion. Values have the type of their field; those of the wrong type are absent.

    ``mode`` is the mode in which it was decoded, None for the default of the compatibility mode.
    """

    content: Content
    decoded: Decoded
    compat: Compat
    mode: DecodeMode | None = None

    @classmethod
    def from_bundle(cls, bundle: BundleView) -> Csv | None:
        """Return the first ClusterServiceVersion of a bundle, or None.

        The Go validators stop at a value of the wrong type, so in their compatibility modes the result is None too.
        """
        if cls not in bundle.memo:
            bundle.memo[cls] = cls._decode(bundle)
        return cast("Csv | None", bundle.memo[cls])

    @classmethod
    def _decode(cls, bundle: BundleView) -> Csv | None:
        if bundle.csv is None:
            return None
        content, mode = bundle.csv.content, bundle.csv_decode_mode
        decoded = decode_csv(content, bundle.compat, mode)
        if decoded.mismatches and bundle.compat is not Compat.OPMKIT:
            return None
        return cls(content, decoded, bundle.compat, None if decoded.same_in_all_modes else mode)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata."""
        return mapping(self.decoded.value.get("metadata"))

    @property
    def name(self) -> str:
        """Its name, or "" if it has none."""
        return str(self.metadata.get("name", ""))

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return mapping(self.metadata.get("annotations"))

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its spec."""
        return mapping(self.decoded.value.get("spec"))

    def is_unset(self, *path: str) -> bool:
        """Return True if the value at a path is absent or zero, and not of the wrong type."""
        ends = range(1, len(path) + 1)
        return self.at(path) is None and not any(self.decoded.has_mismatch(*path[:end]) for end in ends)

    def is_well_typed(self, path: FieldPath) -> bool:
        """Return True if no value at, above or below a path has the wrong type."""
        return not any(path[: len(at)] == at[: len(path)] for at in (one.path for one in self.decoded.mismatches))

    def at(self, path: FieldPath) -> Any:
        """Return the value at a path of field names, None if it is absent."""
        value: Any = self.decoded.value
        for step in path:
            value = mapping(value).get(cast("str", step))
        return value

    def entries(self, path: FieldPath) -> Iterator[Entry]:
        """Return the mappings in the list at a path, with their paths."""
        return members(self.at(path), path)

    @property
    def pods(self) -> Iterator[tuple[str, FieldPath, Mapping[str, Any]]]:
        """The name of each deployment, and the path and value of its pod spec."""
        for path, deployment in self.entries(DEPLOYMENTS):
            pod: object = deployment
            for step in POD:
                pod = mapping(pod).get(str(step))
            yield deployment.get("name", ""), (*path, *POD), mapping(pod)

    @property
    def owned_crds(self) -> Iterator[tuple[FieldPath, Gvk | None, str]]:
        """The path, API and name of each owned CRD; the API is None if the name has no group."""
        for path, entry in self.entries(OWNED_CRDS):
            name = entry.get("name", "")
            group = crd_group(name)
            api = None if group is None else Gvk(group, entry.get("version", ""), entry.get("kind", ""))
            yield path, api, name

    @property
    def owned_services(self) -> Iterator[tuple[FieldPath, Gvk]]:
        """The path and API of each owned API service."""
        for path, entry in self.entries(OWNED_SERVICES):
            yield path, Gvk(*(entry.get(name, "") for name in ("group", "version", "kind")))


def csv_check(check_csv: Callable[[Csv], Iterable[Finding]]) -> Check:
    """Turn a check of a ClusterServiceVersion into a check of the bundle. Results are stored with the content.

    The result must depend only on the content and the compatibility mode. ``file`` of the findings is set here.
    """

    @wraps(check_csv)
    def check(bundle: BundleView) -> Iterator[Finding]:
        csv = Csv.from_bundle(bundle)
        if csv is None or bundle.csv is None:
            return
        key = (check_csv, bundle.compat, csv.mode)
        findings = csv.content.memo.get(key)
        if findings is None:
            findings = csv.content.memo[key] = tuple(check_csv(csv))
        for finding in cast("tuple[Finding, ...]", findings):
            yield replace(finding, file=bundle.csv.path)

    return cast("Check", check)


METADATA = "alm-examples-metadata"
"""Annotation with descriptions of the examples."""
ANNOTATIONS = ("alm-examples", "olm.examples")
"""Annotations with examples; the first one that exists is used."""


class Examples(Struct, frozen=True):
    """The example objects in an annotation.

    Attributes:
        annotation: Name of the annotation, or "" if there is none.
        json_error: Why the annotation is not JSON.
        problems: Why the JSON is not a list of objects.
        objects: The objects with their APIs, if they are valid.
    """

    annotation: str = ""
    json_error: str = ""
    problems: tuple[str, ...] = ()
    objects: tuple[tuple[Gvk, Mapping[str, Any]], ...] = ()

    @classmethod
    def from_csv(cls, csv: Csv) -> Examples:
        """Return the examples of a ClusterServiceVersion. Cached per content."""
        memo, key = csv.content.memo, (cls, csv.compat)
        if key not in memo:
            memo[key] = _read(csv.annotations)
        return cast("Examples", memo[key])

    @property
    def valid(self) -> bool:
        """Whether the annotation exists and is valid; it can be an empty list."""
        return bool(self.annotation) and not self.json_error and not self.problems

    @property
    def path(self) -> FieldPath:
        """Path of the annotation."""
        return "metadata", "annotations", self.annotation


class ExamplesMetadata(Struct, frozen=True):
    """The annotation with descriptions of examples.

    Attributes:
        names: Names of the described examples.
        problems: Why it is invalid.
    """

    names: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @classmethod
    def from_csv(cls, csv: Csv) -> ExamplesMetadata:
        """Return the descriptions in a ClusterServiceVersion. Cached per content."""
        memo, key = csv.content.memo, (cls, csv.compat)
        if key not in memo:
            memo[key] = _read_metadata(csv.annotations.get(METADATA))
        return cast("ExamplesMetadata", memo[key])


def _read_metadata(annotation: str | None) -> ExamplesMetadata:
    if annotation is None:
        return ExamplesMetadata()
    try:
        value = _decode(annotation)
    except ValueError as error:
        return ExamplesMetadata(problems=(str(error),))
    if not isinstance(value, dict):
        return ExamplesMetadata(problems=("it is not an object",))
    return ExamplesMetadata(tuple(value), tuple(_metadata_problems(value)))


def _metadata_problems(value: Mapping[str, JsonValue]) -> Iterator[str]:
    for name, entry in value.items():
        if not isinstance(entry, dict):
            yield f"the value of {name!r} is not an object"
        elif not isinstance(entry.get("description", ""), str):
            yield f"the description of {name!r} is not a string"


def _read(annotations: Mapping[str, str]) -> Examples:
    name = next((name for name in ANNOTATIONS if name in annotations), "")
    if not name:
        return Examples()
    try:
        value = _decode(annotations[name]) if annotations[name] else None
    except ValueError as error:
        return Examples(name, json_error=str(error))
    if value is None:
        return Examples(name)
    if not isinstance(value, list):
        return Examples(name, problems=("they are not a list",))
    problems = tuple(_problems(value))
    if problems:
        return Examples(name, problems=problems)
    apis = (Gvk.parse(text(mapping(item).get("apiVersion")), text(mapping(item).get("kind"))) for item in value)
    return Examples(name, objects=tuple((api, mapping(item)) for api, item in zip(apis, value, strict=True) if api))


def _problems(examples: list[JsonValue]) -> Iterator[str]:
    """Yield why items are not objects of an API."""
    for number, item in enumerate(examples, 1):
        kind, version = text(mapping(item).get("kind")), text(mapping(item).get("apiVersion"))
        if not isinstance(item, dict):
            yield f"number {number} is not an object"
        elif not kind:
            yield f"number {number} has no kind"
        elif Gvk.parse(version, kind) is None:
            yield f"number {number} has the apiVersion {version!r}, which has more than one slash"


def _decode(raw: str) -> JsonValue:
    """Decode JSON strictly; raise ValueError with the location of an error."""
    try:
        return cast("JsonValue", orjson.loads(raw))
    except orjson.JSONDecodeError:
        pass  # it could be an escaped lone surrogate, which Go accepts
    try:
        return replace_lone_surrogates(json.loads(raw, parse_constant=_reject_constant))
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("too deeply nested") from error


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
