"""Substitutes templates."""

from __future__ import annotations

from typing import Any

import pytest

from opmkit.index.fbc.blobs import EntryBlob

from .samples import bundle, catalog, channel, entry, render, render_error, substitutes


def test_substitute_takes_over_the_edges_of_its_base() -> None:
    entries = catalog("1.0.0", "1.1.0", "1.2.0")
    other = channel(entry("1.1.0", skipRange="<1.1.0"), entry("1.2.0", skips=["reef.v1.1.0", "reef.v1.0.0"]), name="b")
    blobs = render(substitutes(("1.1.1", "reef.v1.1.0"), entries=[*entries, other]))
    assert blobs.channels[0].entries == (
        EntryBlob("reef.v1.0.0"),
        EntryBlob("reef.v1.1.0"),
        EntryBlob("reef.v1.2.0", "reef.v1.1.1", ("reef.v1.1.0",)),
        EntryBlob("reef.v1.1.1", "reef.v1.0.0", ("reef.v1.1.0",)),
    )
    assert blobs.channels[1].entries == (
        EntryBlob("reef.v1.1.0"),
        EntryBlob("reef.v1.2.0", "", ("reef.v1.0.0", "reef.v1.1.1")),
        EntryBlob("reef.v1.1.1", "", ("reef.v1.1.0",), "<1.1.0"),
    )
    assert blobs.bundles[-1] == bundle("1.1.1")


def test_substitutes_can_be_substituted_by_higher_releases() -> None:
    blobs = render(substitutes(("1.2.0-r1", "reef.v1.2.0"), ("1.2.0-r2", "reef-v1.2.0-1")))
    assert blobs.channels[0].entries[-1] == EntryBlob("reef-v1.2.0-2", "reef.v1.1.0", ("reef.v1.2.0", "reef-v1.2.0-1"))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (substitutes(("1.0.1", "reef.v1.1.0")), "the version is not higher than that of the base bundle"),
        (substitutes(("1.1.0", "reef.v1.1.0")), "the version is not higher than that of the base bundle"),
        (substitutes(("1.3.0", "reef.v9.9.9")), 'base bundle "reef.v9.9.9" not found'),
        (substitutes(("1.3.0", "reef.v1.0.0"), ("1.4.0", "reef.v1.0.0")), '"reef.v1.0.0" is substituted twice'),
        (substitutes(("1.3.0", "reef.v1.0.0"), ("1.3.0", "reef.v1.1.0")), "substitutes both"),
        (substitutes(("1.3.0", "")), "a substitution needs a bundle image as name"),
        (substitutes(("1.3.0", "reef.v1.0.0"), entries=catalog("1.0.0")[1:]), 'unknown package "reef"'),
        (substitutes(entries=[{"schema": "olm.bundle", "name": "x"}]), "package name must be set"),
        (substitutes(("1.2.0", "reef.v1.1.0")), "makes the catalog invalid"),
    ],
)
def test_invalid_templates(value: Any, problem: str) -> None:
    assert problem in render_error(value)
