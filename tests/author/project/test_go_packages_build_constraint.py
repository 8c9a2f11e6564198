"""Build constraints of Go files."""

from __future__ import annotations

import pytest

from opmkit.author.project.go_source import is_satisfied


@pytest.mark.parametrize(
    "constraint", ["", "linux", "!ignore", "unix && amd64", "windows || go1.21", "!(a || b) && gc", "!!linux"]
)
def test_satisfied(constraint: str) -> None:
    assert is_satisfied(constraint)


@pytest.mark.parametrize(
    "constraint",
    ["ignore", "!linux", "linux && arm64", "(", "linux ||", "linux amd64", "&&", "linux$", "(" * 150, "(" * 999],
)
def test_unsatisfied_or_invalid(constraint: str) -> None:
    assert not is_satisfied(constraint)
