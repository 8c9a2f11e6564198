"""Tests that the same commands have the same results in file-based catalogs and in index databases."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from opmkit.bundle import BundleError
from opmkit.index.errors import CatalogError, InvalidCatalog, MultipleErrors
from tests.index.recorded_adds import REGISTRY, corpus_bundle
from tests.kit.edits import IndexPair, normalize, sample_bundle
from tests.kit.shared import Case, cases, needs_shared
from tests.reference.histories import histories, share_of_histories

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit.bundle import Bundle
    from tests.reference.comparison import Step

_REFUSED_BY_DATABASES = re.compile(
    r"neither in the index nor among the bundles added|more than one bundle with its highest version"
    r"|it is in no package that has a default channel"
)
"""Errors of databases only: missing replaced bundles, heads that the index skips, stranded deprecated bundles."""

DROPPED = "the database drops bundles that the new head does not lead to"
MISSING = "a replaced bundle does not exist"
REFUSED_BY_ONE = {
    "add-overwrite/newchannel": DROPPED,
    "add-overwrite/noreplaces": DROPPED,
    "add-overwrite/single": MISSING,
    "add-substitutes/absent": DROPPED,
    "deprecatetruncate/add-after-head": MISSING,
}
"""Recorded cases that fail only in databases or only in catalogs."""


@dataclass
class ComparedHistory:
    """A history that is history on both, as far as they are to come to the same."""

    pair: IndexPair
    commands: list[str] = field(default_factory=list)
    by_version: bool = False

    def apply(
        self, command: str, flags: Sequence[str], bundles: Sequence[Bundle], packages: Sequence[str]
    ) -> tuple[CatalogError | None, CatalogError | None]:
        """Take a step and compare what comes of it; why one of them does not apply it, or both don't."""
        self.commands.append(command)
        self.by_version = self.by_version or any(flag.startswith("semver") for flag in flags)
        before = self.pair.blobs
        errors = self.pair.apply(command, flags, bundles, packages)
        if errors == (None, None):
            compared = {"objects": not self.by_version, "absent": "deprecatetruncate" not in self.commands}
            assert normalize(self.pair.blobs, **compared) == normalize(self.pair.converted(), **compared)
        assert errors[1] is None or self.pair.blobs is before
        return errors


@pytest.mark.parametrize("flavour", ["replaces", "semver", "semver-skippatch", "overwrite", "deprecate", "substitutes"])
def test_random_histories(flavour: str) -> None:
    @share_of_histories(0.01)
    @given(steps=histories(flavour))
    def play(steps: tuple[Step, ...]) -> None:
        if flavour == "substitutes":  # in a catalog skipped bundles retain their edges, so the tail is larger
            steps = tuple(step for step in steps if step.command != "deprecatetruncate")
        with tempfile.TemporaryDirectory(prefix="opmkit-edits-") as directory:
            _replay(ComparedHistory(IndexPair(Path(directory, "index.db"))), steps)

    play()


def _replay(history: ComparedHistory, steps: Iterable[Step]) -> None:
    for step in steps:
        if step.command == "add" and history.by_version and not any(flag.startswith("semver") for flag in step.flags):
            return  # a database rebuilds the whole graph from declared edges
        bundles = [sample_bundle(sample) for sample in step.bundles]
        by_database, by_catalog = history.apply(step.command, step.flags, bundles, step.packages)
        if by_database and not by_catalog:
            assert _REFUSED_BY_DATABASES.search(by_database.message)
        if by_catalog and not by_database:
            assert _has_only_invalid_versions(by_catalog)
        if by_database or by_catalog:
            return


def _has_only_invalid_versions(error: CatalogError) -> bool:
    """Return whether the only findings are invalid versions."""
    if isinstance(error, MultipleErrors):
        return all(map(_has_only_invalid_versions, error.errors))
    findings = [line for line in error.message.splitlines()[1:] if line.startswith("package ")]
    return isinstance(error, InvalidCatalog) and all("not a semantic version" in finding for finding in findings)


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize("case", cases("add-overwrite", "add-substitutes", "deprecatetruncate"), ids=str)
def test_recorded_histories(case: Case, tmp_path: Path) -> None:
    history = ComparedHistory(IndexPair(tmp_path / "index.db"))
    for step in case.record["steps"]:
        argv = step["argv"]
        values = dict(zip(argv, [*argv[1:], ""], strict=True))
        images = [image for image in dict.fromkeys(values.get("--bundle-images", "").split(",")) if image]
        try:
            bundles = [corpus_bundle(image.replace("{registry}", REGISTRY)) for image in images]
        except (BundleError, FileNotFoundError):
            return
        packages = [name for name in values.get("--packages", "").split(",") if name]
        by_database, by_catalog = history.apply(argv[1], argv, bundles, packages)
        if by_database or by_catalog:
            assert (by_database is None or by_catalog is None) == (str(case) in REFUSED_BY_ONE)
            return
    assert str(case) not in REFUSED_BY_ONE
