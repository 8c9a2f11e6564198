"""The examples of objects in the annotations of a ClusterServiceVersion."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import orjson

from opmkit.bundle.json_value import replace_lone_surrogates
from opmkit.bundle.lenient import mapping, text
from opmkit.bundle.validation.gvk import Gvk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import NoReturn

    from opmkit.bundle.field_path import FieldPath
    from opmkit.bundle.json_value import JsonValue
    from opmkit.bundle.validation.csv_view import Csv

ANNOTATIONS = ("alm-examples", "olm.examples")
"""Where examples may be; of both, the first counts."""


@dataclass(frozen=True)
class Examples:
    """The examples in one annotation: ``annotation`` is its name, "" if there is none.

    ``no_json`` is why they are no JSON, ``problems`` what is wrong with what the JSON says. ``objects`` are all of
    them, with their APIs, where nothing is wrong.
    """

    annotation: str = ""
    no_json: str = ""
    problems: tuple[str, ...] = ()
    objects: tuple[tuple[Gvk, Mapping[str, Any]], ...] = ()

    @classmethod
    def of(cls, csv: Csv) -> Examples:
        """Read those of a ClusterServiceVersion, once."""
        memo, key = csv.content.memo, (cls, csv.compat)
        if key not in memo:
            memo[key] = _read(csv.annotations)
        return cast("Examples", memo[key])

    @property
    def readable(self) -> bool:
        """Whether there are examples, if only an empty list, and nothing is wrong with them."""
        return bool(self.annotation) and not self.no_json and not self.problems

    @property
    def path(self) -> FieldPath:
        """Where they are."""
        return "metadata", "annotations", self.annotation


def _read(annotations: Mapping[str, str]) -> Examples:
    name = next((name for name in ANNOTATIONS if name in annotations), "")
    if not name:
        return Examples()
    try:
        value = _json(annotations[name]) if annotations[name] else None
    except ValueError as error:
        return Examples(name, no_json=str(error))
    if value is None:
        return Examples(name)
    if not isinstance(value, list):
        return Examples(name, problems=("they are no list",))
    problems = tuple(_problems(value))
    if problems:
        return Examples(name, problems=problems)
    apis = (Gvk.parse(text(mapping(item).get("apiVersion")), text(mapping(item).get("kind"))) for item in value)
    return Examples(name, objects=tuple((api, mapping(item)) for api, item in zip(apis, value, strict=True) if api))


def _problems(examples: list[JsonValue]) -> Iterator[str]:
    """What keeps items from being objects of an API."""
    for number, item in enumerate(examples, 1):
        kind, version = text(mapping(item).get("kind")), text(mapping(item).get("apiVersion"))
        if not isinstance(item, dict):
            yield f"number {number} is no object"
        elif not kind:
            yield f"number {number} has no kind"
        elif Gvk.parse(version, kind) is None:
            yield f"number {number} has the apiVersion {version!r}, which has more than one slash"


def _json(raw: str) -> JsonValue:
    """Read JSON, strictly; ValueError says where it is none."""
    try:
        return cast("JsonValue", orjson.loads(raw))
    except orjson.JSONDecodeError:
        pass  # it may be an escape of half a surrogate pair, which Go reads
    try:
        return replace_lone_surrogates(json.loads(raw, parse_constant=_no_constant))
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg}, in their line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("they are nested too deeply") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")
