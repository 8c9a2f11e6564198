"""Tests are found by name: those of src/opmkit/a/b.py are in tests/a/test_b.py or tests/a/test_b_*.py."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "opmkit"

NOT_MIRRORED = {
    "cluster": "compares with a cluster",
    "e2e": "runs the commands",
    "golden": "compares with recorded results of Go opm",
    "kit": "has no tests",
    "reference": "compares with Go opm",
}
"""Directories whose tests are about the whole program."""


def mirrored_files() -> list[Path]:
    """Return the test files of packages, relative to the tests."""
    found = (path.relative_to(TESTS) for path in TESTS.glob("*/**/test_*.py"))
    return sorted(path for path in found if path.parts[0] not in NOT_MIRRORED)


def subjects(package: Path) -> set[str]:
    """Return what tests of a package are about: its modules, families of them, packages in it, and itself.

    The modules ``operator_config`` and ``operator_graph`` are of the family ``operator``.
    """
    names = {path.stem.lstrip("_") for path in package.iterdir() if path.suffix == ".py" or path.is_dir()}
    return {package.name, *names, *(name.partition("_")[0] for name in names)}


@pytest.mark.parametrize("path", mirrored_files(), ids=str)
def test_a_test_file_has_the_name_of_its_subject(path: Path) -> None:
    words = path.stem.removeprefix("test_").split("_")
    names = {"_".join(words[: length + 1]) for length in range(len(words))}
    assert (SOURCE / path.parent).is_dir()
    assert names & subjects(SOURCE / path.parent), f"no module or package in src/opmkit/{path.parent} has such a name"
