"""Conversion of values to JSON types."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from types import MappingProxyType

import pytest

from opmkit.core.hints import Hint
from opmkit.core.json_types import JsonResult, to_json_types
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.hint_terms import ImageSetting
from opmkit.imagetools.reference import Reference

DIGEST = f"sha256:{'a' * 64}"


class Color(StrEnum):
    RED = "red"


class Number(Enum):
    TWO = 2


@dataclass(frozen=True, slots=True)
class Inner:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outer(JsonResult):
    color: Color
    inner: Inner
    path: Path


@pytest.mark.parametrize(
    ("value", "converted"),
    [
        (Color.RED, "red"),
        (Number.TWO, 2),
        (Path("a/b"), "a/b"),
        (Reference("quay.io", "me/catalog", digest=DIGEST), f"quay.io/me/catalog@{DIGEST}"),
        (frozenset({"b", "a"}), ["a", "b"]),
        (MappingProxyType({Color.RED: (1, 2.5, None, True)}), {"red": [1, 2.5, None, True]}),
        (Hint("omit {}", ImageSetting.PLATFORM), "omit platform"),
    ],
)
def test_values_become_json_types(value: object, converted: object) -> None:
    result = to_json_types(value)
    assert result == converted
    assert type(result) is type(converted)
    assert json.loads(json.dumps(result)) == converted


def test_dataclasses_become_dicts_of_their_fields() -> None:
    result = Outer(Color.RED, Inner(("a", "b")), Path("c")).to_dict()
    assert result == {"color": "red", "inner": {"names": ["a", "b"]}, "path": "c"}
    assert type(result["color"]) is str


def test_errors_have_a_message_and_a_hint() -> None:
    error = ImageToolsError("a: invalid", hint=Hint("omit {}", ImageSetting.PLATFORM), details=["b"])
    assert error.to_dict() == {"message": "a: invalid\nb", "hint": "omit platform"}
