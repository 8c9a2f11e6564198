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

_ERRORS_OF_DATABASES_ONLY = re.compile(
    r"neither in the index nor among the bundles added|more than one bundle with its highest version"
    r"|it is in no package that has a default channel"
)
"""Errors of databases only: missing replaced bundles, heads that the index skips, stranded deprecated bundles."""

DROPPED = "the database drops bundles that the new head does not lead to"
MISSING = "a replaced bundle does not exist"
FAILING_IN_ONE = {
    "add-overwrite/newchannel": DROPPED,
    "add-overwrite/noreplaces": DROPPED,
    "add-overwrite/single": MISSING,
    "add-substitutes/absent": DROPPED,
    "deprecatetruncate/add-after-head": MISSING,
}
"""Recorded cases that fail only in databases or only in catalogs."""


@dataclass
class ComparedHistory:
    """A history of commands that is applied to a database and to a catalog."""

    pair: IndexPair
    commands: list[str] = field(default_factory=list)
    by_version: bool = False

    def apply(
        self, command: str, flags: Sequence[str], bundles: Sequence[Bundle], packages: Sequence[str]
    ) -> tuple[CatalogError | None, CatalogError | None]:
        """Apply a command and compare the results; return the errors of the database and of the catalog."""
        self.commands.append(command)
        self.by_version = self.by_version or any(flag.startswith("semver") for flag in flags)
        before = self.pair.blobs
        errors = self.pair.apply(command, flags, bundles, packages)
        if errors == (None, None):
            compared = {"objects": not self.by_version, "absent": "deprecatetruncate" not in self.commands}
            assert normalize(self.pair.blobs, **compared) == normalize(self.pair.converted(), **compared)
        assert errors[1] is None or self.pair.blobs is before
        return errors


@pytest.mark.slow
@pytest.mark.parametrize("flavour", ["replaces", "semver", "semver-skippatch", "overwrite", "deprecate", "substitutes"])
def test_random_histories(flavour: str) -> None:
    @share_of_histories(0.01)
    @given(steps=histories(flavour))
    def replay(steps: tuple[Step, ...]) -> None:
        if flavour == "substitutes":  # in a catalog skipped bundles retain their edges, so the tail is larger
            steps = tuple(step for step in steps if step.command != "deprecatetruncate")
        with tempfile.TemporaryDirectory(prefix="opmkit-edits-") as directory:
            _replay(ComparedHistory(IndexPair(Path(directory, "index.db"))), steps)

    replay()


def _replay(history: ComparedHistory, steps: Iterable[Step]) -> None:
    for step in steps:
        if step.command == "add" and history.by_version and not any(flag.startswith("semver") for flag in step.flags):
            return  # a database rebuilds the whole graph from declared edges
        bundles = [sample_bundle(sample) for sample in step.bundles]
        database_error, catalog_error = history.apply(step.command, step.flags, bundles, step.packages)
        if database_error and not catalog_error:
            assert _ERRORS_OF_DATABASES_ONLY.search(database_error.message)
        if catalog_error and not database_error:
            assert _has_only_invalid_versions(catalog_error)
        if database_error or catalog_error:
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
        database_error, catalog_error = history.apply(argv[1], argv, bundles, packages)
        if database_error or catalog_error:
            assert (database_error is None or catalog_error is None) == (str(case) in FAILING_IN_ONE)
            return
    assert str(case) not in FAILING_IN_ONE
