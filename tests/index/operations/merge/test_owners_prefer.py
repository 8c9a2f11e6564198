"""Preferences for single packages and for all."""

from __future__ import annotations

import pytest

from opmkit.index.errors import CatalogError
from opmkit.index.operations.merge.owners import Preference, choose_source, parse_preferences
from tests.index.operations.merge.test_merge import merge, package, read

SOURCES = ("A", "B", "x=y")
PACKAGES = ({"lagoon", "reef"}, {"lagoon", "reef"}, {"reef"})


@pytest.mark.parametrize(
    ("texts", "lagoon", "reef"),
    [
        ((), None, None),
        (("lagoon=B",), "B", None),
        (("A", "lagoon=B"), "B", "A"),
        (("lagoon=first", "last"), "A", "x=y"),
        (("x=y",), None, "x=y"),
        (("reef=x=y", "B"), "B", "x=y"),
    ],
)
def test_preferences_for_a_package_come_first(texts: tuple[str, ...], lagoon: str | None, reef: str | None) -> None:
    preferences = parse_preferences(texts, SOURCES, PACKAGES)
    assert choose_source("lagoon", ["A", "B"], preferences) == lagoon
    assert choose_source("reef", list(SOURCES), preferences) == reef


def test_unknown_sources_and_packages_are_errors() -> None:
    with pytest.raises(CatalogError) as caught:
        parse_preferences(("lagoon=C", "lagon=A", "lagoon=x=y", "ref=last"), SOURCES, PACKAGES)
    text = "\n".join(caught.value.lines)
    for problem in (
        "preferred source C: not among the indexes to merge",
        'preferred source of package "lagon": package not found in A',
        'preferred source of package "lagoon": package not found in x=y',
        'preferred source of package "ref": package not found',
    ):
        assert problem in text
    assert parse_preferences((), SOURCES, PACKAGES) == ()
    assert parse_preferences(("lagoon=A",), SOURCES, PACKAGES) == (Preference("A", "lagoon"),)


def test_each_package_can_have_another_source() -> None:
    left, right = (read(package("lagoon", image=image), package("reef", image=image)) for image in "ab")
    found = merge(left, right, prefer=("lagoon=B", "A"))
    assert [(origin.package, origin.source) for origin in found.origins] == [("lagoon", "B"), ("reef", "A")]
