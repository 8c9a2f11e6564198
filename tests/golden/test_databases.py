"""The recorded databases of the reference, replayed through the command line, from a registry and from OCI layouts.

``tests/index`` replays every case on the functions that the commands call. What commands, flags and images add to that
is the same for many cases, so here a share of them is enough: see :func:`share`.
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
TAKE_AWAY = ("deprecatetruncate", "prune", "prune-stranded", "rm")
WHOLE = "add-replaces"
"""The group that is replayed as a whole: thereby every bundle of the corpus comes out of a registry."""
ONE_IN = 5
"""Of the cases whose commands another case has too, one in so many is replayed, and as many from layouts."""


def share(group: str) -> Iterator[Case]:
    """The cases of a group that bring a command, mode, flag or exit code which none before them has, and some more."""
    told: set[tuple[object, ...]] = set()
    for number, case in enumerate(cases(group)):
        forms = {form(step) for step in case.record["steps"]}
        if group == WHOLE or not forms <= told or number % ONE_IN == 0:
            yield case
        told |= forms


def form(step: dict[str, Any]) -> tuple[object, ...]:
    """What a recorded step asks for, of whatever bundles and packages, and how it ended."""
    argv = step["argv"]
    flags = (word for word in argv if word.startswith("--"))
    mode = argv[argv.index("--mode") + 1] if "--mode" in argv else None
    return (*argv[:2], *flags, mode, step["exit"])


RUNS = [
    *(("registry", case) for group in GROUPS for case in share(group) if str(case) not in INCOMPLETE),
    *(("layouts", case) for case in cases(WHOLE)[::ONE_IN]),  # where images come from matters to no other step
]


def run_step(argv: list[str]) -> int:
    if argv[0] == "initializer":
        return run_initializer(argv[1:])
    if argv[1] == "prune":
        argv = [*argv, "--permissive"]  # without it opmkit refuses unknown names, which Go ignores
    return run(argv)


@pytest.fixture
def manifests(case: Case, tmp_path: Path) -> Path:
    """The package directories that some cases read, side by side."""
    directory = tmp_path / "manifests"
    directory.mkdir()
    for source in case.record.get("manifests_dirs", ()):
        shutil.copytree(SHARED / source, directory / source.rpartition("/")[2])
    return directory


@pytest.mark.parametrize(("corpus", "case"), RUNS, ids=str, indirect=["corpus"])
def test_database_equals_the_record(
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
        if before is None and step["argv"][1] in TAKE_AWAY:
            assert (status, database.exists()) == (1, False)  # wanted: the reference makes an empty database
            return
        if comparable:
            allowed = {0} if defective(step) else {exits[position] for exits in seen}
            allowed = {1} if str(case) in REFUSED else allowed
            assert status in allowed, f"{argv}: {step['error']}"
        if status != 0:
            assert (database.read_bytes() if database.exists() else None) == before, "a failed command left a change"
        assert [*work.iterdir(), *scratch.iterdir()] == []
        # What follows a failure builds on rows that the reference left behind and we don't: it tells nothing.
        comparable = comparable and step["exit"] == status == 0
    if comparable:
        assert_equal_index(case.record, database, corpus.prefix)
