"""Example objects in the annotations of a ClusterServiceVersion."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import orjson

from opmkit.bundle.validation.gvk import Gvk
from opmkit.documents.json_value import replace_lone_surrogates
from opmkit.documents.lenient import mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import NoReturn

    from opmkit.bundle.validation.csv_view import Csv
    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue

METADATA = "alm-examples-metadata"
"""Annotation with descriptions of the examples."""
ANNOTATIONS = ("alm-examples", "olm.examples")
"""Annotations with examples; the first one that exists is used."""


@dataclass(frozen=True)
class Examples:
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


@dataclass(frozen=True)
class ExamplesMetadata:
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
