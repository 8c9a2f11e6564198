"""Suggestions for unknown and misspelled names."""

from __future__ import annotations

import pytest

from opmkit.index.suggestions import closest_name, did_you_mean, shorten, suggest_names


@pytest.mark.parametrize(
    ("name", "expected"), [("replcaes", "replaces"), ("skipRnage", "skipRange"), ("skip", "skips"), ("image", "")]
)
def test_closest_name(name: str, expected: str) -> None:
    assert closest_name(name, ["replaces", "skips", "skipRange"]) == expected


def test_similar_names_are_asked_for_and_others_listed() -> None:
    assert did_you_mean("harbour", ["harbor", "keycloak"]) == "did you mean harbor?"
    assert did_you_mean("etcd", ["harbor", "keycloak"]) == ""
    assert suggest_names("packages", "etcd", ["harbor", "keycloak"]) == "use one of the packages: harbor, keycloak"


@pytest.mark.parametrize(
    ("count", "expected"), [(2, "0 -> 1"), (8, " -> ".join("01234567")), (9, "0 -> 1 -> 2 -> 3 -> 4 -> 5 -> ... -> 8")]
)
def test_long_sequences_are_shortened(count: int, expected: str) -> None:
    assert shorten([str(number) for number in range(count)], " -> ") == expected
