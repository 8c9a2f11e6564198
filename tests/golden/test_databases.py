"""Recorded databases of Go opm, replayed on the command line with images from a registry and from OCI layouts.

``tests/index`` replays every case with the functions that the commands call. What commands, flags and images add
is the same for many cases, so a sample is enough here: see :func:`sample_cases`.
"""

from __future__ import annotations

import shutil
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.cli.entrypoints import run_initializer
from tests.kit.opm import run
from tests.kit.shared import INCOMPLETE, REFUSED, SHARED, Case, assert_equal_index, cases, defective, needs_shared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.corpus import Corpus

pytestmark = needs_shared

GROUPS = (
    *("add-errors", "add-multi", "add-overwrite", "add-replaces", "add-replaces-one-by-one", "add-scenarios"),
    *("add-semver", "add-semver-one-by-one", "add-skippatch", "add-skippatch-one-by-one", "add-substitutes"),
    *("deprecatetruncate", "initializer", "prune", "prune-stranded", "rm"),
)
REMOVING_COMMANDS = ("deprecatetruncate", "prune", "prune-stranded", "rm")
COMPLETE_GROUP = "add-replaces"
"""Long rounds replay this group completely, so that every bundle of the corpus is pulled from a registry."""
SAMPLING_INTERVAL = 5
"""One in so many of the cases without a new command form is replayed in long rounds, and as many with layouts."""


def sample_cases(group: str) -> Iterator[tuple[Case, bool]]:
    """Yield the cases of a group, with whether a command, mode, flag or exit code is new in them, and a sample."""
    seen_forms: set[tuple[object, ...]] = set()
    for number, case in enumerate(cases(group)):
        forms = {step_form(step) for step in case.record["steps"]}
        if group == COMPLETE_GROUP or not forms <= seen_forms or number % SAMPLING_INTERVAL == 0:
            yield case, not forms <= seen_forms
        seen_forms |= forms


def replay(source: str, case: Case, *, is_long: bool) -> Any:
    return pytest.param(source, case, marks=[pytest.mark.long] if is_long else [])


def step_form(step: dict[str, Any]) -> tuple[object, ...]:
    """Return command, flags, mode and exit code of a recorded step, without bundles and packages."""
    argv = step["argv"]
    flags = (word for word in argv if word.startswith("--"))
    mode = argv[argv.index("--mode") + 1] if "--mode" in argv else None
    return (*argv[:2], *flags, mode, step["exit"])


RUNS = [
    replay("registry", case, is_long=not is_new)
    for group in GROUPS
    for case, is_new in sample_cases(group)
    if str(case) not in INCOMPLETE
]
LAYOUTS = cases(COMPLETE_GROUP)[::SAMPLING_INTERVAL]  # other commands do not depend on the source of images
RUNS += [replay("layouts", case, is_long=case is not LAYOUTS[0]) for case in LAYOUTS]


def run_step(argv: list[str]) -> int:
    if argv[0] == "initializer":
        return run_initializer(argv[1:])
    if argv[1] == "prune":
        argv = [*argv, "--permissive"]  # Go opm ignores unknown packages
    return run(argv)


@pytest.fixture
def manifests(case: Case, tmp_path: Path) -> Path:
    """A directory with the package directories of the case."""
    directory = tmp_path / "manifests"
    directory.mkdir()
    for source in case.record.get("manifests_dirs", ()):
        shutil.copytree(SHARED / source, directory / source.rpartition("/")[2])
    return directory


@pytest.mark.parametrize(("corpus", "case"), RUNS, ids=str, indirect=["corpus"])
def test_database_equals_recorded_result(
    case: Case, corpus: Corpus, manifests: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, scratch, database = tmp_path / "work", tmp_path / "scratch", tmp_path / "index.db"
    work.mkdir()
    scratch.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    steps = case.record["steps"]
    seen = case.record.get("exits_seen") or [[step["exit"] for step in steps]]
    comparable = True
    for position, step in enumerate(steps):
        argv = corpus.fill(step["argv"])
        before = database.read_bytes() if database.exists() else None
        status = run_step([part.replace("{db}", str(database)).replace("{manifests}", str(manifests)) for part in argv])
        if before is None and step["argv"][1] in REMOVING_COMMANDS:
            assert (status, database.exists()) == (1, False)  # intended difference: Go opm creates an empty database
            return
        if comparable:
            allowed = {0} if defective(step) else {exits[position] for exits in seen}
            allowed = {1} if str(case) in REFUSED else allowed
            assert status in allowed, f"{argv}: {step['error']}"
        if status != 0:
            assert (database.read_bytes() if database.exists() else None) == before, "a failed command left a change"
        assert [*work.iterdir(), *scratch.iterdir()] == []
        # Later results of Go opm depend on rows that the failed step left.
        comparable = comparable and step["exit"] == status == 0
    if comparable:
        assert_equal_index(case.record, database, corpus.prefix)
